package bounded

import (
	"fmt"
	"os"
	"syscall"
)

// Open opens a file whose path may come from foreign data. It refuses a folder, and reads a pipe without a writer as
// empty instead of waiting for a writer. The error names the path.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		_ = f.Close()
		if err == nil {
			err = fmt.Errorf("%s is a folder", path)
		}
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file that Open opens, up to the size of a document.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, DocumentBytes)
}
