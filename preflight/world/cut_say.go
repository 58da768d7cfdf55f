package world

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// AgentStep reads the agent's unit again if the node's side of the session ended, to see whether the agent survived.
func AgentStep() hop.Step {
	return hop.Step{
		Name: stepAgent, From: hop.Node, Timeout: 3 * time.Second,
		Needs: hop.Needs{
			Hops: []diag.HopID{diag.HopNodeOpsAccess},
			Facts: []string{hop.FactID(diag.HopBrowserTerminalWS, hop.StepSession), hop.FactID(diag.HopTerminalOpenTask,
				hop.StepSessionRow)},
			Session: true, Fields: []string{"session.node_stream_connected_at"},
		},
		Policy: hop.Policy{Turn: hop.AfterFault, Optional: true},
		When: hop.SkipIf(func(c *hop.Case) string {
			if StreamCut(c).Behind() {
				return ""
			}
			return "the node's stream was not cut"
		}),
		Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
			return diag.Request{Op: diag.OpUnit, Target: e.Profile.Agent.Unit}
		},
	}
}

// GatewayStep asks the gateway from the node if the session fell silent, and its row does not say why: only an answer
// then shows that the gateway itself works.
func GatewayStep() hop.Step {
	s := AgentStep()
	s.Name, s.Needs.Paths, s.Ask = stepGateway, []string{profile.PathNodeTerminal}, AskUnknownSession
	s.When = hop.SkipIf(func(c *hop.Case) string {
		f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
		if reading.Upgraded(f) && f.WS.PingLost && f.WS.Ended == "" && SessionField(c, "session.close_reason") == "" {
			return ""
		}
		return "the session did not fall silent, or its row has the reason"
	})
	return s
}

// AgentAfterStep reads the agent's unit again if the agent reports a failure of the shell: a restart kills the programs
// that an agent runs, and what they report then is no evidence.
func AgentAfterStep() hop.Step {
	s := AgentStep()
	s.Name, s.Needs.Fields, s.Needs.Facts = stepAgentAfter, nil, s.Needs.Facts[:1]
	s.When = hop.SkipIf(func(c *hop.Case) string {
		if ShellFailed(c) {
			return ""
		}
		return "the agent reported no failure of the shell"
	})
	return s
}

// ShellFailed reports whether the agent reported a failure of the user or the shell, or the shell's end.
func ShellFailed(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return f != nil && f.WS != nil && !f.Passed() && (diag.ShellCode(f.WS.FrameCode) || f.WS.ExitCode != nil)
}

// AgentGone describes how the agent's process ended during the session; "" if it did not, or if that is not known.
func AgentGone(c *hop.Case) string {
	f, first := c.Fact(diag.HopGatewayNodeStream, stepAgent), c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	session := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if f == nil {
		f = c.Fact(diag.HopTerminalStartup, stepAgentAfter)
	}
	if f == nil || f.Unit == nil {
		return ""
	}
	switch u := f.Unit; {
	case f.Failure == diag.UnitInactive || f.Failure == diag.UnitFailed || u.Active == "activating":
		return fmt.Sprintf("the agent's unit was %s/%s after that", u.Active, u.Sub)
	case !f.Passed():
		return ""
	case first.Passed() && first.Unit != nil && first.Unit.PID != 0 && u.PID != 0 && first.Unit.PID != u.PID:
		return fmt.Sprintf("the agent's process %d was replaced by %d meanwhile", first.Unit.PID, u.PID)
	case u.UptimeS != nil && session != nil && (*u.UptimeS+1)*1000 <= f.OffsetMS-session.OffsetMS:
		return fmt.Sprintf("the agent's process %d is younger than the session", u.PID)
	}
	return ""
}

// endOf describes how and when the far side ended the browser's stream.
func endOf(w *diag.WSFacts) string {
	var what string
	switch {
	case w.Ended == diag.WSEndReset:
		what = "the browser's stream was reset"
	case w.Ended == diag.WSEndEOF || (w.Ended == "" && w.CloseCode == 1006):
		what = "the browser's stream ended without a close frame"
	case w.Ended == diag.WSEndError:
		what = "the browser's stream had bytes that are not a WebSocket frame"
	default:
		what = "the browser's stream was closed with " + byCode(fmt.Sprint(w.CloseCode), w.CloseReason)
	}
	return what + " " + afterMS(w)
}

// afterMS describes when a session ended, and how long it had been silent by then.
func afterMS(w *diag.WSFacts) string {
	if w.EndedMS == 0 { // a report made before this was measured
		return "during the session"
	}
	if w.FirstFrame == "" {
		return fmt.Sprintf("after %d ms, before any frame came", w.EndedMS)
	}
	return fmt.Sprintf("after %d ms, %d ms after its last frame", w.EndedMS, w.QuietMS)
}

// browserAsSeen describes how the gateway saw the browser leave.
func browserAsSeen(c *hop.Case) string {
	code, detail := SessionField(c, "session.close_code"), reading.OneLine(SessionField(c, "session.close_detail"))
	switch {
	case code == "1006":
		return "; the gateway lost the browser: " + reading.OrUnknown(detail)
	case code != "":
		return "; the gateway had it closed by the browser, with " + byCode(code, detail)
	}
	return "; the gateway has it closed by the browser"
}

// byCode joins a close code and its reason.
func byCode(code, reason string) string { return strings.TrimSpace(code + " " + reason) }

// nodeSilent returns the text for a node that did not answer the gateway's ping; "" for any other.
func nodeSilent(c *hop.Case) string {
	if SessionField(c, "session.node_answers") == "no" {
		return ", and the node answers no ping over it"
	}
	return ""
}

// streamLasted returns how long the gateway had the node's stream, in milliseconds; 0 if its row does not have the
// times.
func streamLasted(c *hop.Case) int64 {
	came, closed := c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.node_stream_connected_at"),
		c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.closed_at")
	if came.IsZero() || !closed.After(came) {
		return 0
	}
	return closed.Sub(came).Milliseconds()
}

// ExitOf describes how the shell exited: its exit code, or the gateway's detail.
func ExitOf(c *hop.Case, f *diag.Fact) string {
	if f.WS.ExitCode != nil {
		return fmt.Sprintf(" with code %d", *f.WS.ExitCode)
	}
	if d := SessionField(c, "session.close_detail"); d != "" {
		return " (" + reading.OneLine(d) + ")"
	}
	return ""
}

// LastLines quotes the last lines of a terminal that failed.
func LastLines(f *diag.Fact) string {
	if f.PTY == nil || f.PTY.LastLines == "" {
		return ""
	}
	return "; its last output: " + reading.OneLine(f.PTY.LastLines)
}

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
