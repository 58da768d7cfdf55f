// Package testuser gives tests a separate login, so that they depend neither on this host's users nor on the
// start-up files of the user who runs them.
package testuser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the login that Install makes.
const Name = "tester"

// Install puts a getent and an id in front of PATH that resolve the user Name, with the caller's own ids, an empty
// home and /bin/sh.
func Install(t testing.TB) {
	t.Helper()
	install(t, os.Geteuid(), os.Getegid())
}

// InstallTenant is like Install with a user id in the tenants' range that no account on this machine has. It needs
// root.
func InstallTenant(t testing.TB) (uid uint32) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, to become a tenant")
	}
	id := 40000 + os.Getpid()%10000
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		runs := process(t, uint32(id)) // a process that an earlier test killed may not be reaped yet
		if runs == "" {
			break
		}
		if time.Now().After(end) {
			t.Skipf("skipped: user id %d of this test runs %s here", id, runs)
		}
	}
	install(t, id, id)
	return uint32(id)
}

// process returns the /proc folder of one process of a user, or "".
func process(t testing.TB, uid uint32) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Uid == uid {
			return path
		}
	}
	return ""
}

func install(t testing.TB, uid, gid int) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	for tool, text := range map[string]string{
		"getent": fmt.Sprintf("[ \"$1 $2 $3\" = 'passwd -- %s' ] || exit 2\necho '%s:x:%d:%d::%s:/bin/sh'\n",
			Name, Name, uid, gid, home),
		"id": fmt.Sprintf("echo %d\n", gid),
	} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}
