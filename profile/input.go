package profile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// maxProfile bounds a profile's file, in bytes.
const maxProfile = 1 << 20

// inputPatience is how long a pipe may take to be written to and closed. It is a variable for the tests.
var inputPatience = 10 * time.Second

// openInput opens a file that an operator names, without waiting for a pipe's writer: an open that waits can be ended by
// no signal.
func openInput(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readInput reads f to its end, and at most limit bytes and one more, so that the caller can see that it is larger. A pipe
// is read until its writer closes it, and for inputPatience at most.
func readInput(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(inputPatience)
	if !info.Mode().IsRegular() {
		_ = f.SetReadDeadline(end) // of a device that knows none, the size is the bound
	}
	for {
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), err == nil && len(data) == 0 && info.Mode()&os.ModeNamedPipe != 0 && time.Now().After(end):
			return nil, fmt.Errorf("it is a pipe, and nobody wrote to it and closed it within %s", inputPatience)
		case err != nil || len(data) > 0 || info.Mode()&os.ModeNamedPipe == 0:
			return data, err
		}
		time.Sleep(20 * time.Millisecond) // no writer has opened it yet
	}
}

// maxInput bounds every other file that a profile names, in bytes.
const maxInput = 16 << 20

// ReadInput reads a file that an operator names, in place of os.ReadFile: it waits for no pipe that nobody writes to, and
// reads nothing without an end. Its errors name the path.
func ReadInput(path string) ([]byte, error) {
	f, err := openInput(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := readInput(f, maxInput)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(data) > maxInput:
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", path, maxInput)
	}
	return data, nil
}
