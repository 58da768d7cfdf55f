package recorder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// hostFS is the machine's own file system.
type hostFS struct{}

func (hostFS) Open(path string) (File, error) { return open(path, os.O_RDWR|os.O_CREATE) }

func (hostFS) OpenRead(path string) (File, error) { return open(path, os.O_RDONLY) }

func open(path string, how int) (File, error) {
	f, err := os.OpenFile(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o640)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return hostFile{f}, nil
}

func (h hostFS) MakeDir(path string) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := h.MakeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return h.SyncDir(parent)
}

func (hostFS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (hostFS) Remove(path string) error { return os.Remove(path) }

// kinds are the magic numbers of file systems that a node may have.
var kinds = map[int64]string{
	0xEF53: "ext4", 0x01021994: "tmpfs", 0x794C7630: "overlay", 0x9123683E: "btrfs", 0x2FC12FC1: "zfs",
	0xCA451A4E: "bcachefs", 0x58465342: "xfs", 0xF2F52010: "f2fs", 0x6969: "nfs", 0x65735546: "fuse", 0x858458F6: "ramfs",
}

func (hostFS) Kind(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	magic := int64(st.Type) & 0xFFFFFFFF
	if name, ok := kinds[magic]; ok {
		return name, nil
	}
	return "0x" + strconv.FormatInt(magic, 16), nil
}

func (hostFS) FreeInodes(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Files == 0 {
		return -1, nil
	}
	return int64(st.Ffree), nil
}

type hostFile struct{ *os.File }

// Sync is fdatasync: times are not worth a second write; a size that grew is synced by it too.
func (f hostFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func (f hostFile) Size() (size, real int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, os.NewSyscallError("fstat", err)
	}
	return st.Size, st.Blocks * 512, nil
}

func (f hostFile) Gone() (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	return st.Nlink == 0, nil
}

func (f hostFile) Lock() error {
	return os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// boottime is CLOCK_BOOTTIME in nanoseconds: it goes on while the machine sleeps, and nobody sets it.
func boottime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
