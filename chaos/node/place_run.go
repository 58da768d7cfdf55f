//go:build linux

package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// runPlace is a state that one program prints and another one sets.
type runPlace struct {
	Spot
	before runNote
}

type runNote struct {
	State string `json:"state"`
}

func (r *runPlace) state(ctx context.Context) (string, error) {
	out, err := do(ctx, r.Change.Run.State)
	return strings.TrimSpace(out), err
}

func (r *runPlace) look(ctx context.Context) (any, error) {
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

func (r *runPlace) compare(ctx context.Context) (Found, error) {
	if r.Rebooted && r.Change.Run.Tier == step.TierBoot {
		return Found{}, nil
	}
	now, err := r.state(ctx)
	switch {
	case err != nil:
		return Found{}, err
	case now == r.Change.Run.Injected:
		return Found{Look: Injected}, nil
	case now == r.before.State:
		return Found{}, nil
	}
	return Found{Foreign, fmt.Sprintf("%s prints %.80q", r.Change.Run.State.Line(), now)}, nil
}

func (r *runPlace) undo(ctx context.Context) error {
	_, err := do(ctx, r.Change.Run.Undo)
	return err
}
