// Package durable keeps what must survive a crash: files that are replaced whole, files that grow, and locks. It
// guarantees what is on the disk; what a file means, and what to do if it cannot be written, is up to its callers.
//
// All of it goes through FS. Host is a node's; package durabletest has a disk in memory that can lose power, and ways
// to fail or to die ahead of any change.
package durable

import "io/fs"

// FS is a file system. Paths are absolute.
type FS interface {
	// Open opens a regular file to read and write in place, and makes it, empty, when it is missing.
	Open(path string, mode fs.FileMode) (File, error)
	// OpenRead opens a regular file that is there to be read alone.
	OpenRead(path string) (File, error)
	// Create makes an empty file of that mode, whatever there was.
	Create(path string, mode fs.FileMode) (File, error)
	// MakeDir makes a folder and its parents where they are missing, each synced into its parent.
	MakeDir(path string, mode fs.FileMode) error
	// List gives the names in a folder; a missing one has none.
	List(path string) ([]string, error)
	// SyncDir makes names in a folder, and their absence, permanent.
	SyncDir(path string) error
	// Rename moves a file to another name of the same folder, and takes the place of what has that name.
	Rename(from, to string) error
	// Remove removes a file's name.
	Remove(path string) error
	// RemoveAll removes a file or a folder with all that is in it. A missing one is not an error.
	RemoveAll(path string) error
	// Kind is the file system that holds a folder, by its kernel name, or the hex of its magic number.
	Kind(path string) (string, error)
	// FreeInodes is how many files can still be made in a folder; -1 where the file system has no count.
	FreeInodes(path string) (int64, error)
}

// File is an open file.
type File interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	// Sync returns once everything that was written is on the disk, the size included.
	Sync() error
	// Size is the length in bytes, and how many of them have room on the disk.
	Size() (size, real int64, err error)
	// Gone reports whether the file has no name any more.
	Gone() (bool, error)
	// Lock takes the lock for this process; it fails if another process holds it.
	Lock() error
	Close() error
}

// Names of the operations that change a disk. They are what a hook is asked about.
const (
	OpCreate  = "create" // of a file
	OpOpen    = "open"   // of a file that is there, for writing: it changes nothing, and fails on a read-only disk
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

// Hook is asked ahead of each change of a disk. Its error is what the disk answers.
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
