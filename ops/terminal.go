package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// terminal opens a terminal of the session's allocation for at most the time most, as a browser does. Its shell starts
// a process that leaves the session and would outlive it, for at most the same time.
func (s *Session) terminal(most time.Duration) drill.OpenTerminal {
	return func(ctx context.Context, opened func()) (drill.End, error) {
		t := s.Renew("drill")
		here := vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: t.Began})
		mint := hops.MintTerminal(&t.env)
		if mint.Op == "" {
			return drill.End{}, errors.New("this platform mints no terminal token (mapping.paths.terminal_token)")
		}
		minted := here.Probe(ctx, []diag.Request{mint})[0]
		if !minted.Passed() {
			return drill.End{}, fmt.Errorf("mint a terminal token: %s", factText(&minted))
		}
		open := hops.OpenTerminal(&t.env, minted)
		if open.Op == "" {
			return drill.End{}, errors.New("the answer to the mint names no terminal")
		}
		open.TimeoutMS = most.Milliseconds()
		stray := fmt.Sprintf(" nohup setsid sleep %d >/dev/null 2>&1 &\n", int(most.Seconds()))
		f := here.HoldSession(ctx, open, stray, opened)
		switch {
		case ctx.Err() != nil:
			return drill.End{}, ctx.Err()
		case f.WS == nil || f.WS.CloseCode == 0:
			return drill.End{}, fmt.Errorf("open a terminal: %s", factText(&f))
		}
		return drill.End{Code: f.WS.CloseCode, Reason: f.WS.CloseReason}, nil
	}
}

// factText describes a failed fact in a few words.
func factText(f *diag.Fact) string {
	if f.Detail != "" {
		return fmt.Sprintf("%s: %s", f.Failure, f.Detail)
	}
	return string(f.Failure)
}
