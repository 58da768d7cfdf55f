package recorder

// FS is what a recorder asks of a file system. The host's is the default; a test has one that remembers what was
// synced, and cuts it there.
type FS interface {
	// Open opens a file to read and write in place, and makes it, empty, when it is missing.
	Open(path string) (File, error)
	// OpenRead opens a file that is there to be read alone.
	OpenRead(path string) (File, error)
	// MakeDir makes a folder and its parents where they are missing, each synced into its parent.
	MakeDir(path string) error
	// SyncDir makes names in a folder, and their absence, permanent.
	SyncDir(path string) error
	// Remove takes a file's name away.
	Remove(path string) error
	// Kind is the file system that holds a folder, by its kernel name, or the hex of its magic number.
	Kind(path string) (string, error)
	// FreeInodes is how many files can still be made in a folder; -1 where nobody counts.
	FreeInodes(path string) (int64, error)
}

// File is an open file. Offsets and lengths are whole slots, but for the reserve's.
type File interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	// Sync returns once everything that was written is on the disk, the size included.
	Sync() error
	// Size is the length in bytes; Real, how many of them have room on the disk.
	Size() (size, real int64, err error)
	// Gone reports whether the file has no name any more.
	Gone() (bool, error)
	// Lock takes the file for this process; an error says that another one has it.
	Lock() error
	Close() error
}
