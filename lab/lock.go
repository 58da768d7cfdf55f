//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Each machine has a lock file, whose holder supervises it. The lock is taken before the supervisor is started,
// which inherits it, so that a supervisor is visible from its start.

// lockFD is the file descriptor of the lock that a supervisor inherits.
const lockFD = 3

// takeLock takes m's lock; it returns nil without an error if another process holds it.
func (l *Lab) takeLock(m Machine) (*os.File, error) { return durable.TryLock(l.place(m).lock()) }

// keepLock keeps the inherited lock from being inherited by the machine, so that it is released when this
// supervisor ends. A supervisor that systemd started inherits no lock: the unit's name serves as its lock, and it
// takes the lock file itself.
func (l *Lab) keepLock(m Machine) (release func(), err error) {
	var inherited, file unix.Stat_t
	if unix.Fstat(lockFD, &inherited) == nil && unix.Stat(l.place(m).lock(), &file) == nil &&
		inherited.Dev == file.Dev && inherited.Ino == file.Ino {
		unix.CloseOnExec(lockFD)
		return func() { unix.Close(lockFD) }, nil
	}
	for range 50 {
		f, err := l.takeLock(m)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return func() { f.Close() }, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s has a supervisor already", m.Name)
}

// killMachine kills m and its supervisor, and returns when both are gone.
func (l *Lab) killMachine(ctx context.Context, m Machine) error {
	g, err := l.groupOf(m)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killBudget); ; time.Sleep(10 * time.Millisecond) {
		if err := g.kill(ctx, ""); err != nil {
			return err
		}
		if !l.running(m) {
			return g.kill(ctx, "") // processes that the supervisor may have started in the meantime
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the supervisor of %s did not end within %s", m.Name, killBudget)
		}
	}
}
