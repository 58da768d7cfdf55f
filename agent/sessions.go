package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// sessions tracks the terminals that are open or being opened, so that a decision can end them. The zero value is
// ready to use.
type sessions struct {
	mu      sync.Mutex
	held    map[*held]bool // guarded by mu
	closing map[string]int // number of cleanups in progress per allocation; guarded by mu
}

// held is one terminal: end cancels its context, and gone is closed when it has ended.
type held struct {
	end        context.CancelCauseFunc
	allocation string
	gone       chan struct{}
}

// hold registers a terminal of an allocation, for at most limit if that is not 0. Whatever ends the terminal cancels
// life, with a terminal.Decided as cause; the caller must call release once it has ended. It fails while the allocation
// is being cleaned up.
func (s *sessions) hold(ctx context.Context, allocation string, limit time.Duration) (
	life context.Context, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing[allocation] > 0 {
		return nil, nil, &taskError{code: wire.EndAllocationReleased, err: terminal.Decided(wire.EndAllocationReleased)}
	}
	stop := context.CancelFunc(func() {})
	if limit > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, limit, terminal.Decided(wire.EndSessionLimit))
	}
	h := &held{allocation: allocation, gone: make(chan struct{})}
	life, h.end = context.WithCancelCause(ctx)
	release = func() {
		h.end(nil)
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, h)
		close(h.gone)
	}
	if s.held == nil {
		s.held = map[*held]bool{}
	}
	s.held[h] = true
	return life, release, nil
}

// endAll ends every terminal without waiting.
func (s *sessions) endAll(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.held {
		h.end(terminal.Decided(why))
	}
}

// clear ends the terminals of an allocation and rejects new ones until done is called. Each channel is closed when
// one terminal has ended.
func (s *sessions) clear(allocation, why string) (gone []<-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing == nil {
		s.closing = map[string]int{}
	}
	s.closing[allocation]++
	for h := range s.held {
		if h.allocation == allocation {
			h.end(terminal.Decided(why))
			gone = append(gone, h.gone)
		}
	}
	return gone, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closing[allocation]--; s.closing[allocation] == 0 {
			delete(s.closing, allocation)
		}
	}
}

const (
	// unitStopTime is longer than systemd's default timeout before SIGKILL.
	unitStopTime = 100 * time.Second
	// sessionEndTime is how long an open terminal may take to end: its shell is killed after a fraction of a
	// second.
	sessionEndTime = 10 * time.Second
)

// runCleanup ends everything that runs for a released allocation: its terminals at once, then its workload, then
// every process of its login. It succeeds only if none is left; otherwise its error names what is left.
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

// allGone waits until every terminal has ended; it returns false if one does not end in time.
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

// stopUnit stops a workload's unit and returns its state, or an error if it is still running.
func stopUnit(ctx context.Context, unit string) (string, error) {
	if _, err := (host.Command{Limit: unitStopTime}).Output(ctx, "systemctl", "stop", "--", unit); err != nil {
		return "", fmt.Errorf("stop %s: %w", unit, err)
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

// endProcesses kills every process of a login and returns how many there were. A login that the name service does
// not know is an error: the name service may be down, and then it is unknown what runs.
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
	if err := tenant.Protected(uid, r.cfg.TenantUIDMin); err == nil {
		if err := tenant.StopSessions(ctx, uid); err != nil { // leftovers are found below, and decide the result
			r.cfg.Log.Warn("the units of terminal sessions could not be stopped", "error", scrubbed(err))
		}
	}
	n, err := tenant.Host{First: r.cfg.TenantUIDMin}.End(ctx, login, uid)
	switch {
	case errors.As(err, new(*tenant.SurvivorsError)):
		err = &taskError{code: wire.CodeProcessesLeft, err: fmt.Errorf("end the processes of login %q: %w", login, err)}
	case errors.Is(err, tenant.ErrProtected):
		err = &taskError{code: wire.CodeUserProtected, err: fmt.Errorf("end the processes of login %q: %w", login, err)}
	}
	return n, err
}
