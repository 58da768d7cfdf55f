package credstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockTime is how long a folder is waited for: what is done under a lock takes some syncs.
const lockTime = 10 * time.Second

// lock takes a folder for this caller alone, until unlock. The agent and whoever applies a bundle change the same files, and
// so do two agents where there should be one. The kernel gives it back when a process dies.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // there is nothing to share yet
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	for deadline := time.Now().Add(lockTime); ; time.Sleep(lockTime / 1000) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR): // or a file system that knows no locks
			return func() { _ = d.Close() }, nil
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("lock %s: another program is changing it: %w", dir, err), d.Close())
		}
	}
}
