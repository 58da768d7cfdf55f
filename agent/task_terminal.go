//go:build !oldterminal

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// runTerminalOpen opens a terminal: the task is done once the node stream is connected and the shell runs, and the
// session continues after it.
func runTerminalOpen(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.TerminalOpenPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	if r.cfg.TerminalURL == nil {
		return nil, nil, &taskError{code: terminal.CodeStreamFailed, reason: diag.RecTerminalStreamFailed,
			err: fmt.Errorf("%s is not set", KeyTerminalURL)}
	}
	path := strings.Replace(wire.PathNodeTerminal, "{session_id}", url.PathEscape(p.SessionID), 1)
	life, release, err := r.sessions.hold(r.work, p.AllocationID, time.Duration(p.MaxSeconds)*time.Second)
	if err != nil {
		return nil, nil, err
	}
	opened := false
	defer func() {
		if !opened {
			release()
		}
	}()
	opening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
	header := http.Header{}
	r.api.identify(header)
	session, err := terminal.Open(opening, terminal.Options{
		URL: r.cfg.TerminalURL.String() + path, Transport: r.term, Correlation: task.CorrelationID, Header: header,
		User: p.OSUser, MinUID: r.cfg.TenantUIDMin, Cols: p.Cols, Rows: p.Rows,
		Limits: r.cfg.TerminalLimits,
	})
	if err != nil {
		return nil, nil, terminalError(ctx, err)
	}
	opened = true
	c := session.Confinement()
	r.cfg.Log.Info("terminal session", "session", p.SessionID, "unit", c.Unit, "unconfined", c.Unconfined,
		"not_enforced", strings.Join(c.NotEnforced, ","))
	bounds := wire.TerminalOpenResult{Unit: c.Unit, Unconfined: c.Unconfined, NotEnforced: c.NotEnforced}
	return bounds, func(context.Context) string {
		defer release()
		end := session.Run(life)
		if end.Why == "shell_exited" {
			return fmt.Sprintf("%s with code %d", end.Why, end.ExitCode)
		}
		return end.Why
	}, nil
}

// terminalError returns a failed opening with its code and the record's reason.
func terminalError(ctx context.Context, err error) error {
	var e *terminal.Error
	if !errors.As(err, &e) {
		return err
	}
	if wire.Decided(e.Code) || e.Code == wire.CodeAgentStopping { // no failure of the terminal
		return &taskError{code: e.Code, err: err}
	}
	if !e.Stream {
		return &taskError{code: e.Code, reason: diag.RecTerminalPTYFailed, err: err}
	}
	code := e.Code
	// the gateway terminates TLS itself, so this is an alert
	if e.Status == 0 && strings.HasPrefix(string(failureWord(ctx, err)), "mtls_") {
		code = wire.CodeNodeStreamMTLS
	}
	reason := diag.RecTerminalStreamFailed
	if e.Limiter != diag.NoLimiter {
		reason = diag.RecEdgeRateLimited
	}
	return &taskError{code: code, reason: reason, err: err}
}
