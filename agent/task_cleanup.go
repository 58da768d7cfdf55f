package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/wire"
)

const (
	// unitStopTime is longer than systemd's own default before it kills what does not stop.
	unitStopTime = 100 * time.Second
	// sessionEndTime is what an open terminal gets to end: its shell is killed after a fraction of a second.
	sessionEndTime = 10 * time.Second
)

// runCleanup ends what a released allocation runs: its terminals at once, then its workload, then every process of its
// login. It completes only when none of them is left, and otherwise its error names what is.
func runCleanup(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.CleanupPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(p.Unit, "-") {
		return nil, nil, &taskError{code: CodeTaskInvalid, err: fmt.Errorf("%q is not a unit", p.Unit)}
	}
	var out wire.CleanupResult
	if p.AllocationID != "" {
		gone, done := r.sessions.clear(p.AllocationID, wire.EndAllocationReleased)
		defer done()
		if out.Sessions = len(gone); !allGone(ctx, gone) {
			return nil, nil, &taskError{code: wire.CodeSessionsLeft,
				err: fmt.Errorf("terminal sessions of allocation %s did not end within %s", p.AllocationID, sessionEndTime)}
		}
	}
	var err error
	if p.Unit != "" {
		if out.State, err = stopUnit(ctx, p.Unit); err != nil {
			return nil, nil, err
		}
	}
	if p.OSUser != "" && !p.KeepProcesses {
		if out.Processes, err = r.endProcesses(ctx, p.OSUser); err != nil {
			return nil, nil, err
		}
	}
	return out, nil, nil
}

// allGone waits until every terminal has ended; false when one did not in time.
func allGone(ctx context.Context, gone []<-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionEndTime)
	defer cancel()
	for _, g := range gone {
		select {
		case <-g:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// stopUnit stops a workload's unit and returns its state, which is none that runs.
func stopUnit(ctx context.Context, unit string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, unitStopTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", "stop", "--", unit)
	cmd.WaitDelay = 200 * time.Millisecond
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("stop %s: %w: %s", unit, err, strings.TrimSpace(string(out)))
	}
	state, err := activeState(ctx, unit)
	if err != nil {
		return "", err
	}
	if state == "active" || state == "deactivating" {
		return "", fmt.Errorf("%s is %s after its stop", unit, state)
	}
	return state, nil
}

// endProcesses ends every process of a login and returns how many there were. A login that the name service does not know
// fails: it may be the service that is away, and nobody knows then what runs.
func (r *runtime) endProcesses(ctx context.Context, login string) (int, error) {
	uid, err := terminal.UserID(ctx, login)
	if err != nil {
		code := CodeTaskInternal
		var e *terminal.Error
		if errors.As(err, &e) {
			code = e.Code
		}
		return 0, &taskError{code: code, err: fmt.Errorf("end the processes of login %q: %w", login, err)}
	}
	n, err := tenant.Host{First: r.cfg.TenantUIDMin}.End(ctx, login, uid)
	var left *tenant.Left
	switch {
	case errors.As(err, &left):
		err = &taskError{code: wire.CodeProcessesLeft, err: fmt.Errorf("end the processes of login %q: %w", login, err)}
	case errors.Is(err, tenant.ErrProtected):
		err = &taskError{code: wire.CodeUserProtected, err: fmt.Errorf("end the processes of login %q: %w", login, err)}
	}
	return n, err
}
