// Package durable stores what must survive a crash: files that are replaced as a whole, files that grow, and locks. It
// guarantees what is on the disk; the meaning of a file, and what to do if it cannot be written, is up to its callers.
//
// All operations go through FS. Host is a node's file system; package durabletest has a disk in memory that can lose
// power, and ways to fail or to die before any change.
package durable

import "io/fs"

// FS is a file system. Paths are absolute.
type FS interface {
	// Open opens a regular file for reading and writing in place, and creates it, empty, if it is missing.
	Open(path string, mode fs.FileMode) (File, error)
	// OpenRead opens an existing regular file for reading.
	OpenRead(path string) (File, error)
	// Create creates an empty file with that mode, replacing any existing one.
	Create(path string, mode fs.FileMode) (File, error)
	// MakeDir creates a folder and its missing parents, each synced into its parent.
	MakeDir(path string, mode fs.FileMode) error
	// List returns the names in a folder; a missing folder has none.
	List(path string) ([]string, error)
	// SyncDir makes names in a folder, and their absence, permanent.
	SyncDir(path string) error
	// Rename gives a file another name in the same folder, replacing any existing file with that name.
	Rename(from, to string) error
	// Remove removes a file's name.
	Remove(path string) error
	// RemoveAll removes a file or a folder with everything in it. A missing one is not an error.
	RemoveAll(path string) error
	// Kind returns the type of the file system that contains a folder: its kernel name, or its magic number in hex.
	Kind(path string) (string, error)
	// FreeInodes returns how many files can still be created in a folder; -1 if the file system has no such limit.
	FreeInodes(path string) (int64, error)
}

// File is an open file.
type File interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	// Sync returns when everything that was written is on the disk, including the size.
	Sync() error
	// Size returns the length in bytes, and how many of them are allocated on the disk.
	Size() (size, real int64, err error)
	// Unlinked reports whether the file no longer has a name.
	Unlinked() (bool, error)
	// Lock takes the lock for this process; it fails if another process holds it.
	Lock() error
	Close() error
}

// Names of the operations that change a disk, for a Hook.
const (
	OpCreate  = "create" // a file
	OpOpen    = "open"   // opening an existing file for writing: it changes nothing, but fails on a read-only disk
	OpWrite   = "write"
	OpTear    = "tear" // the first half of a write is done
	OpSync    = "sync"
	OpMakeDir = "mkdir"
	OpSyncDir = "syncdir"
	OpRename  = "rename"
	OpRemove  = "remove"
	OpSymlink = "symlink"
	OpLink    = "link"
)

// Hook is called before each change of a disk. Its error becomes the result of the change.
type Hook func(op, path string) error

func (h Hook) ask(op, path string) error {
	if h == nil {
		return nil
	}
	if err := h(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}
