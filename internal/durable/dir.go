package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// Dir is a folder of files that are replaced as a whole, and of files that grow. It is created by the first write, and
// everything is on the disk before a call returns. Names are slash-separated and relative to it. Errors of a missing
// file satisfy errors.Is(err, fs.ErrNotExist).
type Dir struct {
	FS   FS // nil is Host
	Root string
}

func (d Dir) fs() FS {
	if d.FS == nil {
		return Host{}
	}
	return d.FS
}

// Path returns a file's path.
func (d Dir) Path(name string) string { return filepath.Join(d.Root, filepath.FromSlash(name)) }

// Read gives a whole file.
func (d Dir) Read(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Open opens a file for reading.
func (d Dir) Open(name string) (io.ReadCloser, error) {
	f, err := d.fs().OpenRead(d.Path(name))
	if err != nil {
		return nil, err
	}
	size, _, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, size), f}, nil
}

// Write replaces a file: after a crash at any point there is the old one or the new one.
func (d Dir) Write(name string, data []byte, mode fs.FileMode) error {
	return d.replace(name, mode, Bytes(data))
}

// Stream writes everything from from to a file, at most limit bytes (io.ErrShortBuffer beyond), and copies it to also.
// The file gets its name only after all of it was written and ok returned nil.
func (d Dir) Stream(name string, from io.Reader, limit int64, mode fs.FileMode, also io.Writer, ok func() error) error {
	return d.replace(name, mode, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, also), io.LimitReader(from, limit+1))
		switch {
		case err != nil:
			return err
		case n > limit:
			return fmt.Errorf("more than %d bytes: %w", limit, io.ErrShortBuffer)
		}
		return ok()
	})
}

// replace writes a new file next to the old one, syncs it, renames it, and syncs the folder.
func (d Dir) replace(name string, mode fs.FileMode, fill func(io.Writer) error) error {
	path, on := d.Path(name), d.fs()
	folder := filepath.Dir(path)
	// A fixed name: the next try overwrites what a crash leaves, so such files do not accumulate.
	aside := filepath.Join(folder, "."+filepath.Base(path)+".new")
	err := on.MakeDir(folder, 0o755)
	if err == nil {
		if err = New(on, aside, mode, fill); err == nil {
			err = on.Rename(aside, path)
		}
		if err != nil {
			err = errors.Join(err, on.RemoveAll(aside))
		}
	}
	if err == nil {
		err = on.SyncDir(folder)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Bytes returns a function for New that writes data.
func Bytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

// New creates a file and syncs its content, but not its name.
func New(on FS, path string, mode fs.FileMode, fill func(io.Writer) error) (err error) {
	f, err := on.Create(path, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fill(io.NewOffsetWriter(f, 0)); err != nil {
		return err
	}
	return f.Sync()
}

// Append appends to a file; after a crash the file may have a part of data.
func (d Dir) Append(name string, data []byte) (err error) {
	path, on := d.Path(name), d.fs()
	if err := on.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := on.Open(path, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, _, err := f.Size()
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil || size > 0 {
		return err
	}
	return on.SyncDir(filepath.Dir(path)) // it may be new
}

// Remove removes a file or a folder with everything in it. A missing one is not an error.
func (d Dir) Remove(name string) error { return d.fs().RemoveAll(d.Path(name)) }

// List returns the names in a folder; a missing folder has none.
func (d Dir) List(name string) ([]string, error) { return d.fs().List(d.Path(name)) }
