//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A machine has one seat, a locked file, and who sits there supervises it. The lock is taken before the supervisor is
// started, and inherited: at no time is there a supervisor, or one just coming up, that cannot be seen.

// seatFD is where a supervisor finds the seat that it inherited.
const seatFD = 3

// takeSeat locks m's seat; nil without an error when it is taken.
func (l *Lab) takeSeat(m Machine) (*os.File, error) {
	f, err := os.OpenFile(l.place(m).seat(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", l.place(m).seat(), err)
}

// seatTaken reports whether m has a supervisor, or is about to.
func (l *Lab) seatTaken(m Machine) bool {
	if !exists(l.place(m).seat()) {
		return false
	}
	f, err := l.takeSeat(m)
	if f != nil {
		f.Close()
	}
	return err == nil && f == nil
}

// keepSeat makes the inherited seat ours alone, so that it is free when this supervisor ends and not when its machine
// does. One that was started by systemd has none to inherit: the unit's name is its seat, and this one is taken late.
func (l *Lab) keepSeat(m Machine) (release func(), err error) {
	var inherited, file unix.Stat_t
	if unix.Fstat(seatFD, &inherited) == nil && unix.Stat(l.place(m).seat(), &file) == nil &&
		inherited.Dev == file.Dev && inherited.Ino == file.Ino {
		unix.CloseOnExec(seatFD)
		return func() { unix.Close(seatFD) }, nil
	}
	for range 50 {
		f, err := l.takeSeat(m)
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
		if !l.seatTaken(m) {
			return g.kill(ctx, "") // what its supervisor may have begun between the two
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the supervisor of %s did not end within %s", m.Name, killBudget)
		}
	}
}
