//go:build linux

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// maxWrite bounds Request.Write: a probe must not be what fills a disk.
const maxWrite = 1 << 20

// disk measures the file system that contains the folder Target, including a real write. Failures: disk_full,
// disk_inodes, disk_read_only, not_permitted, file_missing, file_unreadable, unsupported. A full file system to which
// root can still write (reserved blocks) is not a failure here: FreeBytes shows it.
func (p *Prober) disk(ctx context.Context, req diag.Request, f *diag.Fact) {
	if !filepath.IsAbs(req.Target) || req.Write < 0 || req.Write > maxWrite {
		measure.Fail(f, "stat", diag.Unsupported, fmt.Errorf("disk wants an absolute path and at most %d bytes to write",
			maxWrite))
		return
	}
	dir, err := nearestFolder(req.Target)
	if err != nil {
		measure.Fail(f, "stat", measure.FileWord(err), err)
		return
	}
	if dir != filepath.Clean(req.Target) {
		f.Detail = req.Target + " is not a folder: measured at " + dir
	}
	if f.Disk, err = statDisk(dir); err != nil {
		measure.Fail(f, "stat", diskWord(err, nil), err)
		return
	}
	if req.Beside != "" && sameDisk(dir, req.Beside) {
		f.Disk.SameAs = req.Beside
		return
	}
	if measure.Interrupted(ctx, f, "write") || req.Write == 0 {
		return
	}
	written, err := writeReally(dir, req.Write)
	f.Disk.WrittenBytes = &written
	if err == nil {
		return
	}
	now, _ := statDisk(dir)
	measure.Fail(f, "write", diskWord(err, now), err)
}

// sameDisk reports whether a folder and the future file at path are on one file system.
func sameDisk(dir, path string) bool {
	other, err := nearestFolder(path)
	if err != nil {
		return false
	}
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(other, &b) == nil && a.Dev == b.Dev
}

// nearestFolder returns path itself, or its nearest existing parent folder, in which path would be created.
func nearestFolder(path string) (string, error) {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		st, err := os.Stat(path)
		if err == nil && st.IsDir() {
			return path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return "", err
		}
		if path == "/" {
			return "", err
		}
	}
}

// statDisk counts as df does.
func statDisk(dir string) (*diag.DiskFacts, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := cmp.Or(uint64(st.Frsize), uint64(st.Bsize))
	d := &diag.DiskFacts{
		FSType: fsType(dir), TotalBytes: st.Blocks * unit, FreeBytes: st.Bavail * unit,
		TotalInodes: st.Files, FreeInodes: st.Ffree, ReadOnly: st.Flags&unix.ST_RDONLY != 0,
	}
	used := st.Blocks - st.Bfree
	if all := used + st.Bavail; all > 0 {
		d.UsedPercent = int((used*100 + all - 1) / all)
	}
	return d, nil
}

// fsType returns the kernel's name for the type of the mount that contains dir; "" if unknown.
func fsType(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	mounts, err := host.This.Mounts(host.Thread)
	if err != nil {
		return ""
	}
	best, name := -1, ""
	for _, m := range mounts {
		if len(m.Point) >= best && within(dir, m.Point) { // the later of two mounts on one folder covers the earlier
			best, name = len(m.Point), m.Kind
		}
	}
	return name
}

func within(path, folder string) bool {
	return folder == "/" || path == folder || strings.HasPrefix(path, folder+"/")
}

// writeReally writes, syncs and removes size bytes that no file system can compress. It returns how many were written
// before the error.
func writeReally(dir string, size int) (written int, err error) {
	file, remove, err := scratch(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), remove()) }()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	if written, err = file.Write(data); err != nil {
		return written, err
	}
	return written, file.Sync()
}

// scratch creates a file in dir, without a name if the file system supports that, so that nothing is left if the probe
// is killed during a sync.
func scratch(dir string) (file *os.File, remove func() error, err error) {
	file, err = os.OpenFile(dir, os.O_WRONLY|unix.O_TMPFILE, 0o600)
	if err == nil {
		return file, func() error { return nil }, nil
	}
	// EISDIR: a file system that does not know the flag
	if !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.EISDIR) {
		return nil, nil, err
	}
	if file, err = os.CreateTemp(dir, ".gpuaas-probe-*"); err != nil {
		return nil, nil, err
	}
	return file, func() error { return os.Remove(file.Name()) }, nil
}

// diskWord returns the failure for an error of creating, writing or syncing; now is the disk's state right after it.
func diskWord(err error, now *diag.DiskFacts) diag.Failure {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		if now != nil && now.TotalInodes > 0 && now.FreeInodes == 0 {
			return diag.DiskInodes
		}
		return diag.DiskFull
	case errors.Is(err, syscall.EDQUOT):
		return diag.DiskFull
	case errors.Is(err, syscall.EROFS):
		return diag.DiskReadOnly
	case errors.Is(err, fs.ErrPermission):
		return diag.NotPermitted
	case errors.Is(err, fs.ErrNotExist):
		return diag.FileMissing
	}
	return diag.FileUnreadable
}
