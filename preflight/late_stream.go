package preflight

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// lateStream is a session whose node stream connected too late for its shell: by the gateway's own times, it took more
// of the wait than the shell.
type lateStream struct {
	text string
	side diag.Side
}

// streamTooLate returns why the gateway gave up on a session whose stream came, if that was the stream's lateness; nil
// if the shell took longer, or the times are not known.
func streamTooLate(c *Case) *lateStream {
	at := func(name string) time.Time { return c.Time(diag.HopTerminalOpenTask, stepSessionRow, name) }
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
	if shellReady(c) {
		shell = "the shell was ready %d ms later"
	}
	out := &lateStream{side: diag.SideNodeWay}
	out.text = fmt.Sprintf("the node's stream connected only %d ms after the browser, and "+shell, waited.Milliseconds(),
		max(0, had.Milliseconds()))
	if claimed.After(began) && claimed.Before(came) {
		if claimed.Sub(began) > came.Sub(claimed) {
			out.side = diag.SideAgent
		}
		out.text += fmt.Sprintf(" (the agent took the task after %d ms, its stream connected %d ms later)",
			claimed.Sub(began).Milliseconds(), came.Sub(claimed).Milliseconds())
	}
	return out
}

// gaveUpOnShell reports whether the gateway ended a session for want of a ready shell although the node's stream came.
func gaveUpOnShell(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	if !upgraded(f) || f.Passed() || gotShellState(f) || !streamCame(c) {
		return false
	}
	row := c.Fact(diag.HopTerminalOpenTask, stepSessionRow)
	return !unasked(row, "session.pty_ready_at") && (!shellReady(c) || f.WS.FrameCode == streamLate) &&
		(f.WS.FrameCode == streamLate || f.WS.CloseReason == streamLate ||
			cmp.Or(sessionField(c, "session.close_reason"), streamLate) == streamLate)
}
