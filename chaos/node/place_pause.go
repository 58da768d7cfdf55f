//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// pausePlace is the main process of a unit, stopped.
type pausePlace struct {
	Spot
	before process
}

func (p *pausePlace) look(ctx context.Context) (any, error) {
	u, err := loadedUnit(ctx, p.Change.Pause.Unit)
	if err != nil {
		return nil, err
	}
	state, start, _, err := stat(u.MainPID)
	if err == nil && stopped(state) {
		err = fmt.Errorf("the main process of %s is stopped already", p.Change.Pause.Unit)
	}
	return process{u.MainPID, start}, err
}

func stopped(state byte) bool { return state == 'T' || state == 't' }

func (p *pausePlace) make(ctx context.Context) error {
	if found, err := p.is(); err != nil || found == gone {
		return orText(err, "the main process of %s ended", p.Change.Pause.Unit)
	}
	return p.signal(ctx, syscall.SIGSTOP, paused)
}

// The states of a process that matter here.
type pauseState int

const (
	gone pauseState = iota
	running
	paused
)

func (p *pausePlace) is() (pauseState, error) {
	state, start, _, err := stat(p.before.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), err == nil && start != p.before.Start, state == 'Z':
		return gone, nil
	case err != nil:
		return gone, err
	case stopped(state):
		return paused, nil
	}
	return running, nil
}

func (p *pausePlace) compare(context.Context) (Found, error) {
	if p.Rebooted {
		return Found{}, nil
	}
	switch now, err := p.is(); {
	case err != nil:
		return Found{}, err
	case now == gone:
		return Found{Text: "the process has ended"}, nil
	case now == paused:
		return Found{Look: Injected}, nil
	}
	return Found{}, nil
}

func (p *pausePlace) undo(ctx context.Context) error { return p.signal(ctx, syscall.SIGCONT, running) }

// signal sends s and waits until it has worked: that takes until the process runs next.
func (p *pausePlace) signal(ctx context.Context, s syscall.Signal, want pauseState) error {
	if err := syscall.Kill(p.before.PID, s); err != nil {
		return fmt.Errorf("%v to process %d: %w", s, p.before.PID, err)
	}
	for {
		now, err := p.is()
		if err != nil || now == want || now == gone {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d after %v: %w", p.before.PID, s, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
