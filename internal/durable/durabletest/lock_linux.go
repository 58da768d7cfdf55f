package durabletest

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// tenant is the user id of LockAll: nobody.
const tenant = 65534

// LockAll holds an exclusive lock on everything below root that a user without rights can open, until the test ends.
// It makes all folders readable first, as they are on a node whose folders have systemd's default mode. It returns the
// paths that it holds. It needs root, to open files as that user.
func LockAll(t testing.TB, root string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, to lock files as another user")
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // t.TempDir's own folder
		t.Fatal(err)
	}
	var held []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		if err == nil && lockAs(t, path) {
			held = append(held, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// Hold locks a file as another program of the same user does, until the test ends.
func Hold(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := durable.TryLock(path)
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	t.Cleanup(func() { _ = f.Close() })
}

// lockAs reports whether the tenant could open a file, which is then locked.
func lockAs(t testing.TB, path string) bool {
	t.Helper()
	runtime.LockOSThread() // this thread has the tenant's rights for a moment
	defer runtime.UnlockOSThread()
	_, _ = unix.SetfsgidRetGid(tenant)
	_, _ = unix.SetfsuidRetUid(tenant)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	_, _ = unix.SetfsuidRetUid(0)
	_, _ = unix.SetfsgidRetGid(0)
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) // an earlier call may hold it
	return true
}
