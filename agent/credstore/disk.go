package credstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

func (s Store) remove(path string) error {
	if err := s.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// link makes path a symlink to target in one rename, whatever path was before; a directory is moved aside first.
func (s Store) link(target, path string) error {
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := s.remove(aside); err != nil {
		return err
	}
	if err := s.FS.Symlink(target, aside); err != nil {
		return err
	}
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() { // rename cannot replace a directory
		if err := errors.Join(s.FS.RemoveAll(path+".replaced"), s.FS.Rename(path, path+".replaced")); err != nil {
			return errors.Join(err, os.Remove(aside))
		}
	}
	if err := s.FS.Rename(aside, path); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return s.FS.SyncDir(filepath.Dir(path))
}

// keepAside gives a file with another content a second name before it is replaced; symlinks need none.
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
	return s.FS.Link(path, aside)
}
