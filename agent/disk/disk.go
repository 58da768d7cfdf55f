// Package disk is how the agent keeps what must survive a crash: whole files that are replaced at once, and files that
// grow by whole lines. Both are synced before a call returns.
//
// It is an interface so that a test can cut a program off before and after every single write. The diagnostic record
// does not use it: it writes in place, for disks that are full.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Disk is a folder. Names are slash-separated and relative to it. Errors of a missing file satisfy
// errors.Is(err, fs.ErrNotExist).
type Disk interface {
	// Read gives a whole file.
	Read(name string) ([]byte, error)
	// Open reads a file piece by piece.
	Open(name string) (io.ReadCloser, error)
	// Write replaces a file: after a crash at any point there is the old one or the new one.
	Write(name string, data []byte, mode fs.FileMode) error
	// Append adds to a file; after a crash a part of data may be there.
	Append(name string, data []byte) error
	// Stream makes a file of what from gives, at most limit bytes (io.ErrShortBuffer beyond), and passes it through
	// also. The file has its name only when all of it was written and ok says so.
	Stream(name string, from io.Reader, limit int64, mode fs.FileMode, also io.Writer, ok func() error) error
	// Remove takes a file or a folder with everything in it away; one that is not there is no error.
	Remove(name string) error
	// List gives the names in a folder; a missing one has none.
	List(name string) ([]string, error)
	// Path is where a name lies.
	Path(name string) string
}

// Dir is a folder of the host's file system. It is made when something is first written.
type Dir string

// Path implements Disk.
func (d Dir) Path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

// Read implements Disk.
func (d Dir) Read(name string) ([]byte, error) { return os.ReadFile(d.Path(name)) }

// Open implements Disk.
func (d Dir) Open(name string) (io.ReadCloser, error) { return os.Open(d.Path(name)) }

// Write implements Disk.
func (d Dir) Write(name string, data []byte, mode fs.FileMode) error {
	return d.Stream(name, bytes.NewReader(data), int64(len(data)), mode, io.Discard, func() error { return nil })
}

// Stream implements Disk: a temporary file in the same folder, fsync, rename, fsync of the folder.
func (d Dir) Stream(name string, from io.Reader, limit int64, mode fs.FileMode, also io.Writer, ok func() error) error {
	path := d.Path(name)
	// One fixed name: what a crash leaves is overwritten by the next try, and never adds up.
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := makeDir(filepath.Dir(path))
	if err == nil {
		if err = fill(tmp, from, limit, mode, also, ok); err == nil {
			err = os.Rename(tmp, path)
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// fill writes and syncs one file.
func fill(path string, from io.Reader, limit int64, mode fs.FileMode, also io.Writer, ok func() error) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(io.MultiWriter(f, also), io.LimitReader(from, limit+1))
	if err != nil {
		return err
	}
	if n > limit {
		return fmt.Errorf("more than %d bytes: %w", limit, io.ErrShortBuffer)
	}
	if err := ok(); err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Sync())
}

// Append implements Disk.
func (d Dir) Append(name string, data []byte) (err error) {
	path := d.Path(name)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil || missing == nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Remove implements Disk.
func (d Dir) Remove(name string) error { return os.RemoveAll(d.Path(name)) }

// List implements Disk.
func (d Dir) List(name string) ([]string, error) {
	entries, err := os.ReadDir(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// makeDir makes a folder and those above it; each new one is synced into its parent.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
