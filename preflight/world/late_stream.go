package world

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// lateStream is a session whose node stream connected too late for its shell: by the gateway's own times, it took more
// of the wait than the shell.
type lateStream struct {
	Text string
	Side diag.Side
}

// StreamTooLate returns why the gateway gave up on a session whose stream came, if that was the stream's lateness; nil
// if the shell took longer, or the times are not known.
func StreamTooLate(c *hop.Case) *lateStream {
	at := func(name string) time.Time { return c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, name) }
	began, claimed, came := at("session.browser_connected_at"), at("session.task_claimed_at"),
		at("session.node_stream_connected_at")
	if began.IsZero() {
		began = at("session.task_queued_at")
	}
	closed, ready := at("session.closed_at"), at("session.pty_ready_at")
	waited, had := came.Sub(began), closed.Sub(came)
	if began.IsZero() || came.IsZero() || closed.IsZero() || waited <= had {
		return nil
	}
	if !ready.IsZero() { // the shell's own time, since it was ready after all
		if had = ready.Sub(came); waited <= had {
			return nil
		}
	}
	shell := "the shell had only %d ms left"
	if ShellReady(c) {
		shell = "the shell was ready %d ms later"
	}
	out := &lateStream{Side: diag.SideNodeWay}
	out.Text = fmt.Sprintf("the node's stream connected only %d ms after the browser, and "+shell, waited.Milliseconds(),
		max(0, had.Milliseconds()))
	if claimed.After(began) && claimed.Before(came) {
		if claimed.Sub(began) > came.Sub(claimed) {
			out.Side = diag.SideAgent
		}
		out.Text += fmt.Sprintf(" (the agent took the task after %d ms, its stream connected %d ms later)",
			claimed.Sub(began).Milliseconds(), came.Sub(claimed).Milliseconds())
	}
	return out
}

// GaveUpOnShell reports whether the gateway ended a session for want of a ready shell although the node's stream came.
func GaveUpOnShell(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if !reading.Upgraded(f) || f.Passed() || reading.GotShellState(f) || !StreamCame(c) {
		return false
	}
	row := c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	return !reading.Unasked(row, "session.pty_ready_at") && (!ShellReady(c) || f.WS.FrameCode == StreamLate) &&
		(f.WS.FrameCode == StreamLate || f.WS.CloseReason == StreamLate ||
			cmp.Or(SessionField(c, "session.close_reason"), StreamLate) == StreamLate)
}
