//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rebootBudget bounds a reboot; measured: 0.3 s, but a unit that does not stop takes 10 s or more.
const rebootBudget = 30 * time.Second

// Reboot reboots machine as an operator would, and returns once it has another boot id and answers SSH.
func (l *Lab) Reboot(ctx context.Context, machine string) error {
	ctx, cancel := context.WithTimeout(ctx, rebootBudget)
	defer cancel()
	m, err := l.Machine(machine)
	if err != nil {
		return err
	}
	before := l.leader(m)
	if _, err := l.Exec(ctx, machine, "systemctl", "reboot", "--no-block"); err != nil {
		return err
	}
	// Checked from outside: the shutdown would wait 10 s for a command that runs inside.
	err = poll(ctx, func(ctx context.Context) error {
		if now := l.leader(m); now == 0 || now == before {
			return errors.New("it has not come back yet")
		}
		return l.answersSSH(ctx, m)
	})
	if err != nil {
		return fmt.Errorf("reboot %s: %w", machine, err)
	}
	return nil
}
