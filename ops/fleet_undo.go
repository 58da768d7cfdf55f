package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// undoer is what an undo needs of a machine.
type undoer interface {
	Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error)    // by our program
	FaultOf(ctx context.Context, run string, args ...string) (step.Reply, error) // by the drill's own
}

// undo reverts one drill on one machine, compares, and removes the drill's artifacts. The program that the drill left
// on the machine does it. If that does not answer, ours is pushed: the journal may be complete nevertheless.
func undo(ctx context.Context, on undoer, found remote.KeptRun, force bool) FleetDrill {
	x := FleetDrill{Run: found.Run, Status: found.Status}
	ask := func(args ...string) (step.Reply, error) { return on.FaultOf(ctx, x.Run, args...) }
	if found.Status == nil {
		ask = func(args ...string) (step.Reply, error) { return on.Fault(ctx, nil, append(args, "--run", x.Run)...) }
	}
	r, err := insist(ctx, ask, "revert", "--why", step.WhyAsked)
	if refused := new(step.Refusal); errors.As(err, &refused) && refused.Code == step.RefusedNone {
		x.Error = found.Error
		return abandon(ctx, ask, x)
	}
	if r.Status != nil {
		x.Status = r.Status
	}
	if err != nil {
		x.Error, x.Left = err.Error(), "it may not be reverted"
		return x
	}
	if x.Status.Phase != step.PhaseOver && x.Status.Phase != step.PhaseClosed {
		x.Left = "it is not reverted: " + x.Status.Phase
		return x
	}
	var left []string
	if r, err := insist(ctx, ask, "verify"); err != nil {
		x.Error = err.Error()
		left = append(left, "the machine was not compared with before")
	} else {
		x.Residue = step.Unexplained(r.Residue)
		if x.Clean = r.Clean; x.Clean == nil || !*x.Clean {
			left = append(left, fmt.Sprintf("what differs from before (%d)", len(x.Residue)))
		}
	}
	conflict := x.Status.State == step.Conflict
	if conflict {
		left = append(left, "manual changes were left alone")
	}
	args := []string{"close"}
	if force {
		args = append(args, "--force")
	}
	switch {
	case conflict && !force:
		left = append(left, "its journal (then: gpuaasctl chaos revert "+x.Run+" --force)")
	default:
		if _, err := insist(ctx, ask, args...); err != nil {
			x.Error = err.Error()
			left = append(left, "its own traces")
		} else {
			x.Closed = true
		}
	}
	x.Left = strings.Join(left, "; ")
	return x
}

// abandon removes the remains of a drill whose journal cannot be parsed: it was never armed.
func abandon(ctx context.Context, ask asker, x FleetDrill) FleetDrill {
	if _, err := insist(ctx, ask, "close", "--force"); err != nil {
		x.Error = strings.TrimPrefix(x.Error+"; "+err.Error(), "; ")
		x.Left = "its folder"
		return x
	}
	x.Closed = true
	return x
}

// Retries for a machine that does not answer. All commands that are retried are idempotent.
const (
	insistTimes = 3
	insistPause = time.Second
)

// asker runs one command of gpuaas-fault about a drill.
type asker func(args ...string) (step.Reply, error)

// insist repeats a command until there is an answer. A refusal, or an error of the program on the machine, is an
// answer, and is returned as an error.
func insist(ctx context.Context, ask asker, args ...string) (step.Reply, error) {
	for n := 1; ; n++ {
		r, err := ask(args...)
		switch {
		case err == nil && r.Refused != nil:
			return r, r.Refused
		case err == nil && r.Error != "":
			return r, errors.New(r.Error)
		case err == nil || n == insistTimes || ctx.Err() != nil:
			return r, err
		}
		if !sleep.For(ctx, insistPause) {
			return r, err
		}
	}
}
