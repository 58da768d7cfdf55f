package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// maxFile bounds, in bytes, a profile and the files that it names: keys, CA bundles, known host keys.
const maxFile = 16 << 20

// filePatience bounds the wait for the writer of a pipe.
const filePatience = 30 * time.Second

// ReadOwn reads one of the operator's own files. It does not wait for a process to open a pipe for writing (such a pipe
// is empty), waits 30 s at most for an existing writer, and refuses more than 16 MiB. The error is an fs.PathError.
func ReadOwn(path string) ([]byte, error) {
	f, err := openOwn(context.Background(), path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.read(maxFile)
}

// ownFile is a file that is read without blocking beyond a deadline or the end of a context.
type ownFile struct {
	*os.File
	stop func() bool
}

// openOwn opens a file. When ctx ends, reads of a pipe or a terminal end as well.
func openOwn(ctx context.Context, path string) (*ownFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(filePatience)) // a regular file has no deadline and needs none
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	return &ownFile{f, stop}, nil
}

// Close closes the file.
func (f *ownFile) Close() error {
	f.stop()
	return f.File.Close()
}

// read returns the whole text, and refuses more than most bytes.
func (f *ownFile) read(most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &fs.PathError{Op: "read", Path: f.Name(),
			Err: fmt.Errorf("nothing was written to the pipe within %s", filePatience)}
	case err != nil:
		return nil, err
	case len(data) > most:
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("longer than %d bytes", most)}
	}
	return data, nil
}
