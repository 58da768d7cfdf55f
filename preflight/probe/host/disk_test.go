//go:build linux

package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// onTmpfs calls f with a folder that is a new tmpfs, in a mount namespace of f's thread.
func onTmpfs(t *testing.T, options string, f func(dir string)) {
	t.Helper()
	kit.NeedsRoot(t)
	dir := t.TempDir()
	done := make(chan error)
	go OnSpareThread(func() {
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
		}
		if err == nil {
			f(dir)
		}
		done <- err
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func diskRequest(dir string) diag.Request {
	return diag.Request{Op: diag.OpDisk, Target: dir, Write: 8192}
}

func TestDiskHealthy(t *testing.T) {
	dir := t.TempDir()
	f := run(t, diskRequest(dir))
	kit.WantFailure(t, f, diag.OK)
	if d := f.Disk; d.WrittenBytes == nil || *d.WrittenBytes != 8192 || d.TotalBytes == 0 || d.FSType == "" || d.ReadOnly {
		t.Errorf("%+v", d)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the probe left %v", left)
	}
}

func TestDiskCountsAsDF(t *testing.T) {
	tier.NeedsHost(t)
	df := func() (percent int, kind string) {
		out, err := exec.Command("df", "--output=pcent,fstype", "-B1", "/").Output()
		if err != nil {
			t.Skip("skipped: needs df")
		}
		fields := strings.Fields(strings.Split(string(out), "\n")[1])
		if percent, err = strconv.Atoi(strings.TrimSuffix(fields[0], "%")); err != nil {
			t.Fatal(err)
		}
		return percent, fields[1]
	}
	before, kind := df() // others write to this disk
	d := run(t, diag.Request{Op: diag.OpDisk, Target: "/"}).Disk
	after, _ := df()
	if d.UsedPercent < min(before, after)-1 || d.UsedPercent > max(before, after)+1 || d.FSType != kind {
		t.Errorf("%d%% %s, df says %d%% and then %d%% %s", d.UsedPercent, d.FSType, before, after, kind)
	}
	if d.WrittenBytes != nil {
		t.Error("it wrote unasked")
	}
}

func TestDiskMissingFolder(t *testing.T) {
	dir, err := os.MkdirTemp("", "disk") // the name of the test's default folder looks like a token, and would be redacted
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := run(t, diskRequest(filepath.Join(dir, "not", "yet")))
	kit.WantFailure(t, f, diag.OK)
	if !strings.Contains(f.Detail, "measured at "+dir) || f.Disk.WrittenBytes == nil {
		t.Errorf("detail = %q, %+v", f.Detail, f.Disk)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the probe made %v", left)
	}
	kit.WantFailure(t, run(t, diskRequest("relative")), diag.Unsupported)
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpDisk, Target: dir, Write: maxWrite + 1}), diag.Unsupported)
}

func TestDiskFull(t *testing.T) {
	onTmpfs(t, "size=1m", func(dir string) {
		fill(t, dir, 1<<20)
		f := run(t, diskRequest(dir))
		kit.WantFailure(t, f, diag.DiskFull)
		if f.Errno != "ENOSPC" || f.Phase != "write" || *f.Disk.WrittenBytes != 0 || f.Disk.FreeBytes != 0 ||
			f.Disk.UsedPercent != 100 || f.Disk.FSType != "tmpfs" {
			t.Errorf("%+v %+v", f, f.Disk)
		}
	})
}

func TestDiskShortWrite(t *testing.T) {
	onTmpfs(t, "size=1m", func(dir string) {
		fill(t, dir, 1<<20-4096)
		f := run(t, diskRequest(dir))
		kit.WantFailure(t, f, diag.DiskFull)
		if *f.Disk.WrittenBytes != 4096 {
			t.Errorf("wrote %d, want one page", *f.Disk.WrittenBytes)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("the probe left %v", left)
		}
	})
}

// TestDiskLeavesNothing: a probe that is killed while it writes leaves no file behind.
func TestDiskLeavesNothing(t *testing.T) {
	// A file system without unnamed files: the second way is tried, and no user can write there.
	if _, _, err := scratch("/proc"); err == nil || errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("in /proc: %v", err)
	}
	onTmpfs(t, "size=1m", func(dir string) {
		file, remove, err := scratch(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestDiskInodes(t *testing.T) {
	onTmpfs(t, "size=1m,nr_inodes=3", func(dir string) {
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := run(t, diskRequest(dir))
		kit.WantFailure(t, f, diag.DiskInodes)
		if f.Disk.FreeInodes != 0 || f.Disk.TotalInodes == 0 || f.Disk.FreeBytes == 0 {
			t.Errorf("%+v", f.Disk)
		}
	})
}

func TestDiskReadOnly(t *testing.T) {
	onTmpfs(t, "size=1m", func(dir string) {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		f := run(t, diskRequest(dir))
		kit.WantFailure(t, f, diag.DiskReadOnly)
		if !f.Disk.ReadOnly || f.Errno != "EROFS" {
			t.Errorf("%+v %+v", f, f.Disk)
		}
	})
}

func fill(t *testing.T, dir string, size int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}
