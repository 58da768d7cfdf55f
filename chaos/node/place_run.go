//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// runPlace is a state that one program prints and another one sets.
type runPlace struct {
	Location
	before runNote
}

type runNote struct {
	State string `json:"state"`
}

func (r *runPlace) state(ctx context.Context) (string, error) {
	out, err := do(ctx, r.Change.Run.State)
	return strings.TrimSpace(out), err
}

func (r *runPlace) inspect(ctx context.Context) (any, error) {
	now, err := r.state(ctx)
	if err != nil {
		return nil, err
	}
	if now == r.Change.Run.Injected {
		return nil, fmt.Errorf("%s is so already", r.Change.Run.Place)
	}
	return runNote{now}, nil
}

func (r *runPlace) make(ctx context.Context) error {
	if _, err := do(ctx, r.Change.Run.Do); err != nil {
		return err
	}
	now, err := r.state(ctx)
	if err == nil && now != r.Change.Run.Injected {
		return fmt.Errorf("it ran, and %s prints %.80q", r.Change.Run.State.Line(), now)
	}
	return err
}

func (r *runPlace) compare(ctx context.Context) (Observed, error) {
	if r.Rebooted && r.Change.Run.Tier == step.TierBoot {
		return Observed{}, nil
	}
	now, err := r.state(ctx)
	switch {
	case err != nil:
		return Observed{}, err
	case now == r.Change.Run.Injected:
		return Observed{State: Injected}, nil
	case now == r.before.State:
		return Observed{}, nil
	}
	return Observed{Foreign, fmt.Sprintf("%s prints %.80q", r.Change.Run.State.Line(), now)}, nil
}

func (r *runPlace) undo(ctx context.Context) error {
	_, err := do(ctx, r.Change.Run.Undo)
	return err
}

// pausePlace is a unit's main process, stopped.
type pausePlace struct {
	Location
	before process
}

func (p *pausePlace) inspect(ctx context.Context) (any, error) {
	u, err := loadedUnit(ctx, p.Change.Pause.Unit)
	if err != nil {
		return nil, err
	}
	s, err := host.This.Stat(u.MainPID)
	if err == nil && s.Stopped() {
		err = fmt.Errorf("the main process of %s is stopped already", p.Change.Pause.Unit)
	}
	return processOf(u.MainPID, s), err
}

func (p *pausePlace) make(ctx context.Context) error {
	if found, err := p.is(); err != nil || found == gone {
		return orText(err, "the main process of %s ended", p.Change.Pause.Unit)
	}
	return p.signal(ctx, syscall.SIGSTOP, paused)
}

// The states of a process that are distinguished.
type pauseState int

const (
	gone pauseState = iota
	running
	paused
)

func (p *pausePlace) is() (pauseState, error) {
	s, err := host.This.Stat(p.before.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), s.State == "Z",
		err == nil && processOf(p.before.PID, s) != p.before:
		return gone, nil
	case err != nil:
		return gone, err
	case s.Stopped():
		return paused, nil
	}
	return running, nil
}

func (p *pausePlace) compare(context.Context) (Observed, error) {
	if p.Rebooted {
		return Observed{}, nil
	}
	switch now, err := p.is(); {
	case err != nil:
		return Observed{}, err
	case now == gone:
		return Observed{Text: "the process has ended"}, nil
	case now == paused:
		return Observed{State: Injected}, nil
	}
	return Observed{}, nil
}

func (p *pausePlace) undo(ctx context.Context) error { return p.signal(ctx, syscall.SIGCONT, running) }

// signal sends s and waits until it has taken effect, which happens when the process is next scheduled.
func (p *pausePlace) signal(ctx context.Context, s syscall.Signal, want pauseState) error {
	if err := syscall.Kill(p.before.PID, s); err != nil {
		return fmt.Errorf("%v to process %d: %w", s, p.before.PID, err)
	}
	for {
		now, err := p.is()
		if err != nil || now == want || now == gone {
			return err
		}
		if !sleep.For(ctx, time.Millisecond) {
			return fmt.Errorf("process %d after %v: %w", p.before.PID, s, ctx.Err())
		}
	}
}
