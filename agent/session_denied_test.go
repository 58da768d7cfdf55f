package agent

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestDenialEndsSessions: a node that learns that its identity is denied ends its terminals by itself, with the
// reason. This test's gateway never closes a stream.
func TestDenialEndsSessions(t *testing.T) {
	for code, reason := range map[string]string{wire.DenyRevoked: wire.EndNodeRevoked, wire.DenyFenced: wire.EndNodeFenced,
		wire.DenyRetired: wire.EndNodeRetired, wire.DenyCloned: wire.EndNodeCloned} {
		t.Run(code, func(t *testing.T) {
			c := openedTerminal(t, func(p *fakePlatform) {
				p.instead(onHeartbeat, func(w http.ResponseWriter, _ *http.Request) { deny(w, 403, code) })
			}, wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name})
			wantClosed(t, c, reason)
		})
	}
}

// TestDeniedNodeBeginsNoTerminal: a terminal from a poll that was answered before the denial is refused, and one
// that was about to start is ended by the next denial. Once the identity is accepted again, terminals start again.
func TestDeniedNodeBeginsNoTerminal(t *testing.T) {
	for code, reason := range map[string]diag.RecordReason{wire.DenyRevoked: diag.RecIdentityRevoked,
		wire.DenyFenced: diag.RecIdentityRevoked, wire.DenyRetired: diag.RecIdentityRevoked,
		wire.DenyCloned: diag.RecClonedIdentity} {
		s := newState()
		step := func(what What) (said string) {
			var effects []Effect
			s, effects = Step(s, Event{Wall: testWall, What: what})
			return words(effects)
		}
		terminal := func(id string) WaitDone {
			return WaitDone{Task: signed("x"+id, nil),
				More: []wire.Task{*signed(id, func(w *wire.Task) { w.Type = wire.TaskTerminalOpen })}}
		}
		for _, w := range []What{Started{}, healthy, HeartbeatDone{}} {
			step(w)
		}
		for range 2 {
			step(TimerFired{TimerHeartbeat})
			denied := HeartbeatDone{Outcome: Outcome{Reason: reason, Status: 403, Code: code, Failure: diag.HTTPStatus}}
			if got := step(denied); !strings.Contains(got, "EndSessions") {
				t.Errorf("%s: %s", code, got)
			}
		}
		if got := step(terminal("a")); strings.Contains(got, "run(a)") {
			t.Errorf("%s: a terminal begins: %s", code, got)
		}
		step(TimerFired{TimerHeartbeat})
		step(HeartbeatDone{})
		if got := step(terminal("b")); !strings.Contains(got, "run(b)") {
			t.Errorf("%s: accepted again, and no terminal begins: %s", code, got)
		}
	}
}

// TestNodeKeepsTheLimit: a session ends after its time limit although the gateway lets it continue. On a busy
// machine that may happen before the shell has started, which ends it as well: the test then retries with a longer
// limit.
func TestNodeKeepsTheLimit(t *testing.T) {
	for limit := int64(1); ; limit *= 2 {
		c, r := openTerminal(t, func(*fakePlatform) {},
			wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name, MaxSeconds: limit})
		switch {
		case r.Status == wire.TaskCompleted:
			wantClosed(t, c, wire.EndSessionLimit)
			return
		case r.Error.Code != wire.EndSessionLimit || limit > 60:
			t.Fatalf("with %d s: %+v %+v", limit, r, r.Error)
		}
	}
}

// TestDenialThatHealsKeepsSessions: a temporary denial is not an operator's decision, so users keep their
// terminals.
func TestDenialThatHealsKeepsSessions(t *testing.T) {
	c := openedTerminal(t, func(p *fakePlatform) {
		p.instead(onHeartbeat, func(w http.ResponseWriter, _ *http.Request) { deny(w, 401, wire.DenyExpired) })
	}, wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			if ctx.Err() == nil {
				t.Fatalf("the session ended: %v", err)
			}
			return
		}
	}
}

// openedTerminal runs an agent with one open terminal, then changes the platform, and returns how the gateway's
// side ended.
func openedTerminal(t *testing.T, then func(*fakePlatform), open wire.TerminalOpenPayload) *websocket.Conn {
	t.Helper()
	c, r := openTerminal(t, then, open)
	if r.Status != wire.TaskCompleted {
		t.Fatalf("result %+v %+v", r, r.Error)
	}
	return c
}

// openTerminal is openedTerminal for an opening that may fail, and returns the task's result.
func openTerminal(t *testing.T, then func(*fakePlatform), open wire.TerminalOpenPayload) (*websocket.Conn,
	wire.TaskResult) {
	t.Helper()
	testuser.Install(t)
	p := newFakePlatform(t)
	opened, over := make(chan *websocket.Conn, 1), make(chan struct{})
	p.terminal = func(_ context.Context, c *websocket.Conn, _ string) { opened <- c; <-over }
	start(t, p.config(nil))
	t.Cleanup(func() { close(over) }) // before the agent is stopped
	p.task("t1", wire.TaskTerminalOpen, open)
	r := p.resultOf("t1")
	if r.Status != wire.TaskCompleted {
		return nil, r
	}
	c := <-opened
	then(p)
	return c, r
}

func wantClosed(t *testing.T, c *websocket.Conn, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			if websocket.CloseStatus(err) != 4000 || !strings.Contains(err.Error(), reason) {
				t.Errorf("the stream ended with %v, want 4000 %s", err, reason)
			}
			return
		}
	}
}

// TestSessionsOfAnAllocation: a clean-up ends its allocation's terminals, waits for them, and lets no new one
// start in between.
func TestSessionsOfAnAllocation(t *testing.T) {
	var s sessions
	own, releaseOwn, err := s.hold(t.Context(), "a", 0)
	must(t, err)
	other, releaseOther, err := s.hold(t.Context(), "b", 0)
	must(t, err)
	gone, done := s.clear("a", wire.EndAllocationReleased)
	if len(gone) != 1 || context.Cause(own) != error(terminal.Decided(wire.EndAllocationReleased)) ||
		other.Err() != nil {
		t.Errorf("%d ended, %v, the other %v", len(gone), context.Cause(own), other.Err())
	}
	if _, _, err := s.hold(t.Context(), "a", 0); err == nil {
		t.Error("a terminal begins in an allocation that is being cleaned up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if allGone(ctx, gone) {
		t.Error("a terminal that has not ended is said to be gone")
	}
	releaseOwn()
	if !allGone(t.Context(), gone) {
		t.Error("a terminal that has ended is said to be left")
	}
	done()
	_, again, err := s.hold(t.Context(), "a", 0)
	must(t, err)
	again()
	s.endAll(wire.EndNodeRevoked)
	if context.Cause(other) != error(terminal.Decided(wire.EndNodeRevoked)) {
		t.Errorf("the other ended by %v", context.Cause(other))
	}
	releaseOther()
}
