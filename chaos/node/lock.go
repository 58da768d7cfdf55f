//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// lockWait is how long a lock is waited for: its holder may be stopping a unit.
const lockWait = makeBudget + 5*time.Second

// lock takes the lock of that file, and says in it who has it. The kernel gives it back when the process ends, however it
// ends. A holder that was stopped never ends: it is ended.
func lock(ctx context.Context, path string, wait time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for began := time.Now(); ; {
		f, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			// Written over, never cut: there may be no room for a longer one later.
			if _, err := f.WriteAt(fmt.Appendf(nil, "%-16d\n", os.Getpid()), 0); err != nil && !errors.Is(err, unix.ENOSPC) {
				return nil, errors.Join(err, f.Close())
			}
			return func() { f.Close() }, nil
		}
		if time.Since(began) > time.Second {
			endHolder(path, false)
		}
		select {
		case <-ctx.Done():
			return nil, step.Refuse(step.RefusedBusy, "process %s of this drill is at work", holder(path))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// tryLock gives the file if it is locked now and still the one at that path; nil if somebody else has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(wrap("flock", path, err), f.Close())
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(mine, there) {
		return nil, f.Close() // whoever had it took the file away with it
	}
	return f, nil
}

func holder(path string) string {
	b, _ := os.ReadFile(path) // one that cannot be read names nobody
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// endHolder ends the holder of a lock if it is one of us and does not run, or in any case.
func endHolder(path string, anyway bool) {
	pid, err := strconv.Atoi(holder(path))
	if err != nil || pid <= 1 {
		return
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil || !strings.HasPrefix(filepath.Base(exe), step.Program) {
		return
	}
	if state, _, _, err := stat(pid); err == nil && (anyway || stopped(state)) {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// locked says whether somebody has the lock of that file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
