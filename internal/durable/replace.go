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

// lockTime bounds the wait for another program that changes the same files: it needs some syncs for it.
const lockTime = 10 * time.Second

// Replace writes a file so that a crash at any point leaves the old one or the new one. It creates the file's folder if
// missing, and excludes concurrent callers, including those in other processes.
func Replace(path string, text []byte, mode fs.FileMode) error {
	return ReplaceWithin(lockTime, path, text, mode)
}

// ReplaceWithin is Replace for a caller that cannot wait for long: it fails if another program is still writing the
// same file after wait.
func ReplaceWithin(wait time.Duration, path string, text []byte, mode fs.FileMode) error {
	return replace(wait, path, mode, func() ([]byte, error) { return text, nil })
}

// Rewrite is Replace with a text that depends on the old one, which is nil if the file is missing.
func Rewrite(path string, mode fs.FileMode, next func(old []byte) []byte) error {
	return replace(lockTime, path, mode, func() ([]byte, error) {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return next(old), nil
	})
}

// replace writes a new file next to the old one and renames it. The new file is also the lock: it is the caller's own
// and nobody else can open it, so that no other user can hold it. A lock on the folder could be held by everybody who
// may read the folder.
func replace(wait time.Duration, path string, mode fs.FileMode, next func() ([]byte, error)) (err error) {
	// A fixed name: the next call overwrites what a crash leaves, so such files do not accumulate.
	folder, aside := filepath.Dir(path), filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := (Host{}).MakeDir(folder, 0o755); err != nil {
		return err
	}
	f, err := claim(wait, aside)
	if err != nil {
		return err
	}
	if err := fill(f, mode, next); err != nil {
		return errors.Join(err, os.RemoveAll(aside), f.Close())
	}
	if err := os.Rename(aside, path); err != nil {
		return errors.Join(err, os.RemoveAll(aside), f.Close())
	}
	return errors.Join(SyncDir(folder), f.Close())
}

func fill(f *os.File, mode fs.FileMode, next func() ([]byte, error)) error {
	text, err := next()
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = syncData(f)
	}
	return err
}

// claim creates and locks the file that replace writes. What another user has put there is removed, and so is a file
// that others can open, and lock, because a crash left it with its final mode.
func claim(wait time.Duration, path string) (*os.File, error) {
	for deadline := time.Now().Add(wait); ; {
		f, err := TryLock(path)
		late := time.Now().After(deadline)
		switch {
		case f != nil:
			return f, nil
		case err != nil && noLocks(err):
			return os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		case err != nil && late:
			return nil, err
		case err != nil || (late && shared(path)):
			if gone := os.RemoveAll(path); gone != nil {
				return nil, errors.Join(err, gone)
			}
		case late:
			return nil, fmt.Errorf("another program is changing it, for %s", wait)
		default:
			time.Sleep(lockRetry)
		}
	}
}

// shared reports whether users other than its owner may open a file.
func shared(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

// SyncDir makes the names in a folder permanent.
func SyncDir(path string) error { return Host{}.SyncDir(path) }

// TryLock locks a file, creating it if missing, until the file is closed or the process ends. It returns nil if another
// process has the lock, or if the file was removed meanwhile: then there is a new one to lock. It is an error if
// another user could open the file, and therefore hold the lock.
func TryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := own(f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
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
	if mode := mine.Mode().Perm(); mode&0o077 != 0 {
		err := fmt.Errorf("mode %04o lets other users hold this lock; remove the file", mode)
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(mine, there) {
		return nil, f.Close()
	}
	return f, nil
}

// Locked reports whether a process has the lock on a file.
func Locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it does not wait for the writer of a pipe
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// own returns an error unless a file is a regular one of the caller, and has no other name.
func own(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("the file belongs to user %d", st.Uid)
	case st.Nlink > 1: // another file of ours, linked here, would be locked and overwritten
		return fmt.Errorf("the file has %d names", st.Nlink)
	}
	return nil
}

// lockRetry is the time between two attempts to take a lock.
const lockRetry = 10 * time.Millisecond

// Lock is TryLock that waits for another process, up to ten seconds. It takes no lock in a missing folder, on a disk
// that is read-only (no program can change what is there) and on a file system without locks.
func Lock(path string) (unlock func(), err error) {
	for deadline := time.Now().Add(lockTime); ; time.Sleep(lockRetry) {
		f, err := TryLock(path)
		switch {
		case f != nil:
			return func() { _ = f.Close() }, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS), noLocks(err):
			return func() {}, nil
		case err != nil:
			return nil, err
		case time.Now().After(deadline):
			return nil, fmt.Errorf("lock %s: another program is changing it, for %s", path, lockTime)
		}
	}
}

// noLocks reports whether a file system has no locks.
func noLocks(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)
}
