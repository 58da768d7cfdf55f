package credstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// before asks the test's disk.
func (s Store) before(op, path string) error {
	if s.Before == nil {
		return nil
	}
	if err := s.Before(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

func (s Store) mkdir(path string) error {
	if err := s.before("mkdir", path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o755)
}

func (s Store) remove(path string) error {
	if err := s.before("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s Store) removeAll(path string) error {
	if err := s.before("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func (s Store) rename(from, to string) error {
	if err := s.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (s Store) syncDir(path string) error {
	if err := s.before("sync", path); err != nil {
		return err
	}
	return syncDir(path)
}

// create writes a new file and syncs it.
func (s Store) create(path string, text []byte, mode fs.FileMode) error {
	if err := s.before("create", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = s.before("write", path)
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = s.before("fsync", path)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// link makes path a symlink to target, whatever it was, in one rename; a directory is put beside first.
func (s Store) link(target, path string) error {
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := s.remove(aside); err != nil {
		return err
	}
	if err := s.before("symlink", aside); err != nil {
		return err
	}
	if err := os.Symlink(target, aside); err != nil {
		return err
	}
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() { // no rename takes a directory's place
		if err := errors.Join(s.removeAll(path+".replaced"), s.rename(path, path+".replaced")); err != nil {
			return errors.Join(err, os.Remove(aside))
		}
	}
	if err := s.rename(aside, path); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return s.syncDir(filepath.Dir(path))
}

// keepAside gives a file that is about to be replaced by another text a second name; links need none.
func (s Store) keepAside(path, by string) error {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	old, err1 := os.ReadFile(path)
	text, err2 := os.ReadFile(by)
	if err1 == nil && err2 == nil && bytes.Equal(old, text) {
		return nil
	}
	aside := path + ".replaced"
	if err := s.remove(aside); err != nil {
		return err
	}
	if err := s.before("link", aside); err != nil {
		return err
	}
	return os.Link(path, aside)
}

// WriteFile replaces path by text so that a crash at any point leaves the old file or the new one: temporary file in
// the same folder, fsync, rename, fsync of the folder.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	return replace(path, mode, func() ([]byte, error) { return text, nil })
}

// Rewrite is WriteFile of a text that depends on the old one, nil where there is none: nobody else changes that
// meanwhile, and what a crash leaves of an earlier try is overwritten.
func Rewrite(path string, mode fs.FileMode, next func(old []byte) []byte) error {
	return replace(path, mode, func() ([]byte, error) {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return next(old), nil
	})
}

func replace(path string, mode fs.FileMode, next func() ([]byte, error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := next()
	if err != nil {
		return err
	}
	aside := filepath.Join(dir, "."+filepath.Base(path)+".new")
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err = (Store{}).create(aside, text, mode); err == nil {
		err = os.Chmod(aside, mode) // whatever the umask says
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
