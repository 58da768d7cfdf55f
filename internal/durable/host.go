package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Host is this machine's file system. Before is nil except in tests.
type Host struct{ Before Hook }

var _ FS = Host{}

// Open implements FS. It follows no symbolic link.
func (h Host) Open(path string, mode fs.FileMode) (File, error) {
	_, missing := os.Lstat(path)
	op := OpOpen
	if missing != nil {
		op = OpCreate
	}
	if err := h.Before.ask(op, path); err != nil {
		return nil, err
	}
	return h.open(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, mode)
}

// OpenRead implements FS.
func (h Host) OpenRead(path string) (File, error) {
	return h.open(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
}

// Create implements FS.
func (h Host) Create(path string, mode fs.FileMode) (File, error) {
	if err := h.Before.ask(OpCreate, path); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(path); err != nil { // replace a file with another owner, mode or type
		return nil, err
	}
	return h.open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

func (h Host) open(path string, how int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, how|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err == nil && how&os.O_EXCL != 0 {
		err = f.Chmod(mode) // regardless of the umask
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &hostFile{f, h.Before}, nil
}

// MakeDir implements FS.
func (h Host) MakeDir(path string, mode fs.FileMode) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := h.MakeDir(parent, mode); err != nil {
			return err
		}
	}
	if err := h.Before.ask(OpMakeDir, path); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return h.SyncDir(parent)
}

// List implements FS.
func (h Host) List(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// SyncDir implements FS.
func (h Host) SyncDir(path string) error {
	if err := h.Before.ask(OpSyncDir, path); err != nil {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Rename implements FS.
func (h Host) Rename(from, to string) error {
	if err := h.Before.ask(OpRename, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove implements FS.
func (h Host) Remove(path string) error {
	if err := h.Before.ask(OpRemove, path); err != nil {
		return err
	}
	return os.Remove(path)
}

// RemoveAll implements FS.
func (h Host) RemoveAll(path string) error {
	if err := h.Before.ask(OpRemove, path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// Symlink makes path a link to target.
func (h Host) Symlink(target, path string) error {
	if err := h.Before.ask(OpSymlink, path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// Link gives a file a second name.
func (h Host) Link(from, to string) error {
	if err := h.Before.ask(OpLink, to); err != nil {
		return err
	}
	return os.Link(from, to)
}

// Kind implements FS.
func (Host) Kind(path string) (string, error) {
	st, err := statfs(path)
	if err != nil {
		return "", err
	}
	magic := int64(st.Type) & 0xFFFFFFFF
	if name, ok := kinds[magic]; ok {
		return name, nil
	}
	return "0x" + strconv.FormatInt(magic, 16), nil
}

// kinds are the magic numbers of file systems that a node may have.
var kinds = map[int64]string{
	0xEF53: "ext4", 0x01021994: "tmpfs", 0x794C7630: "overlay", 0x9123683E: "btrfs", 0x2FC12FC1: "zfs",
	0xCA451A4E: "bcachefs", 0x58465342: "xfs", 0xF2F52010: "f2fs", 0x6969: "nfs", 0x65735546: "fuse", 0x858458F6: "ramfs",
}

// FreeInodes implements FS.
func (Host) FreeInodes(path string) (int64, error) {
	st, err := statfs(path)
	if err != nil || st.Files == 0 {
		return -1, err
	}
	return int64(st.Ffree), nil
}

func statfs(path string) (st syscall.Statfs_t, err error) {
	if err := syscall.Statfs(path, &st); err != nil {
		return st, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return st, nil
}

type hostFile struct {
	*os.File
	before Hook
}

// WriteAt implements File. The hook is called in the middle of the write as well.
func (f *hostFile) WriteAt(b []byte, off int64) (n int, err error) {
	if f.before == nil {
		return f.File.WriteAt(b, off)
	}
	if err := f.before.ask(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	half := len(b) / 2
	if n, err = f.File.WriteAt(b[:half], off); err != nil {
		return n, err
	}
	if err := f.before.ask(OpTear, f.Name()); err != nil {
		return n, err
	}
	n, err = f.File.WriteAt(b[half:], off+int64(half))
	return half + n, err
}

// Sync implements File.
func (f *hostFile) Sync() error {
	if err := f.before.ask(OpSync, f.Name()); err != nil {
		return err
	}
	return syncData(f.File)
}

// Size implements File.
func (f *hostFile) Size() (size, real int64, err error) {
	st, err := f.stat()
	return st.Size, st.Blocks * 512, err
}

// Unlinked implements File.
func (f *hostFile) Unlinked() (bool, error) {
	st, err := f.stat()
	return err == nil && st.Nlink == 0, err
}

func (f *hostFile) stat() (st syscall.Stat_t, err error) {
	err = os.NewSyscallError("fstat", syscall.Fstat(int(f.Fd()), &st))
	return st, err
}

// Lock implements File.
func (f *hostFile) Lock() error {
	return os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}
