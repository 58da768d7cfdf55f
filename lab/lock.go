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

// A machine has one lock file, and its holder supervises it. The lock is taken before the supervisor is
// started, and inherited: at no time is there a supervisor, or one just coming up, that cannot be seen.

// lockFD is where a supervisor finds the lock that it inherited.
const lockFD = 3

// takeLock takes m's lock; nil without an error when it is taken.
func (l *Lab) takeLock(m Machine) (*os.File, error) { return durable.TryLock(l.place(m).lock()) }

// lockTaken reports whether m has a supervisor, or is about to.
func (l *Lab) lockTaken(m Machine) bool {
	return durable.Locked(l.place(m).lock())
}

// keepLock makes the inherited lock ours alone, so that it is free when this supervisor ends and not when its machine
// does. One that was started by systemd has none to inherit: the unit's name is its lock, and this one is taken late.
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

// killMachine ends m with its supervisor, and returns when neither is left.
func (l *Lab) killMachine(ctx context.Context, m Machine) error {
	g, err := l.groupOf(m)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killBudget); ; time.Sleep(10 * time.Millisecond) {
		if err := g.kill(ctx, ""); err != nil {
			return err
		}
		if !l.lockTaken(m) {
			return g.kill(ctx, "") // what its supervisor may have begun between the two
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the supervisor of %s did not end within %s", m.Name, killBudget)
		}
	}
}
