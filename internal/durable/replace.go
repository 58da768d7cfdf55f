package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Replace writes a file so that a crash at any point leaves the old one or the new one. It creates the file's folder if
// missing.
func Replace(path string, text []byte, mode fs.FileMode) error {
	return replace(path, mode, func() ([]byte, error) { return text, nil })
}

// Rewrite is Replace with a text that depends on the old one, which is nil if the file is missing. It excludes
// concurrent callers, including those in other processes.
func Rewrite(path string, mode fs.FileMode, next func(old []byte) []byte) error {
	return replace(path, mode, func() ([]byte, error) {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return next(old), nil
	})
}

func replace(path string, mode fs.FileMode, next func() ([]byte, error)) error {
	// The folder is created before its lock: two callers that both find no folder would otherwise write the same new
	// file.
	err := Host{}.MakeDir(filepath.Dir(path), 0o755)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	unlock, err := LockDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer unlock()
	text, err := next()
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Dir{Root: filepath.Dir(path)}.Write(filepath.Base(path), text, mode)
}

// SyncDir makes the names in a folder permanent.
func SyncDir(path string) error { return Host{}.SyncDir(path) }

// TryLock locks a file, creating it if missing, until the file is closed or the process ends. It returns nil if another
// process has the lock, or if the file was removed meanwhile: then there is a new one to lock.
func TryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "flock", Path: path, Err: err}, f.Close())
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(mine, there) {
		return nil, f.Close()
	}
	return f, nil
}

// Locked reports whether a process has the lock on a file.
func Locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// lockTime bounds the wait for the lock on a folder: an operation under the lock takes some syncs.
const lockTime = 10 * time.Second

// LockDir locks a folder for this caller, until unlock. A missing folder needs no lock, and on a file system without
// locks none is taken. The kernel releases the lock when the process ends.
func LockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	for deadline := time.Now().Add(lockTime); ; time.Sleep(lockTime / 1000) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return func() { _ = d.Close() }, nil
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("lock %s: another program is changing it: %w", dir, err), d.Close())
		}
	}
}
