package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// terminalStartup: does the allocation have its user and shell, and does that shell compute a nonce through the
// browser's terminal? An echo does not prove a shell.
func terminalStartup() Hop {
	id := diag.HopTerminalStartup
	return Hop{
		ID: id, Behind: platformReads(), Budget: 6 * time.Second,
		Recorded: &RecordedErrors{[]diag.Signal{diag.SigPTYFailed}, sessionTask,
			[]diag.RecordReason{diag.RecTerminalPTYFailed}, []string{"pty_", "user_", "task_"}},
		ExplainedBy: []diag.HopID{diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream},
		Steps: []Step{
			{
				Name: stepUser, From: Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
				After: []string{factID(diag.HopAllocationBinding, stepAllocation)}, Fields: []string{"allocation.os_user"},
				When: func(c *Case) string {
					return otherNodeText(c, reasonIfEmpty(osUser(c), "the allocation's user is not known"))
				},
				Ask: func(_ *Env, c *Case) diag.Request { return diag.Request{Op: diag.OpUser, Target: osUser(c)} },
			},
			shellStep(),
			agentAfterStep(),
		},
		Judge: func(c *Case) []diag.Finding {
			if f := c.Fact(id, stepUser); f != nil && (f.Failure == diag.UserMissing || f.Failure == diag.ShellMissing) {
				out := fail(diag.SigPTYFailed, f, "%s", userText(f))
				out.Direct = true
				return []diag.Finding{out}
			}
			return judgeShell(c)
		},
		Pass: func(c *Case) string {
			f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
			if f == nil || f.PTY == nil { // the plan leaves the session out
				return fmt.Sprintf("user %s and its shell are there; no session was opened", osUser(c))
			}
			return fmt.Sprintf("%s's shell computed a nonce in %d ms", osUser(c), f.PTY.DurationMS)
		},
		Counter: func(_ *Env, _ *Case, failing *diag.Fact) []Counter {
			if failing.Request.Op != diag.OpUser {
				return nil
			}
			other, plain := failing.Request, failing.Request
			other.Target, other.TimeoutMS = "root", counterTimeoutMS // shows whether look-ups work at all
			plain.View, plain.TimeoutMS = diag.ViewHost, counterTimeoutMS
			return []Counter{{Name: "host-view", From: Node, Request: plain}, {Name: "root", From: Node, Request: other}}
		},
	}
}

// shellStep judges the session that the browser's hop opened.
func shellStep() Step {
	s := sharedStep("shell", diag.HopBrowserTerminalWS, stepSession, whenAccepted)
	s.Session = true
	return s
}

func userText(f *diag.Fact) string {
	if f.Failure == diag.UserMissing {
		return fmt.Sprintf("the allocation's user %s does not exist on the node, as the agent sees it", f.Request.Target)
	}
	shell := ""
	if f.User != nil {
		shell = f.User.Shell
	}
	return fmt.Sprintf("the shell %s of the allocation's user %s cannot be used", shell, f.Request.Target)
}

// judgeShell judges the shell in the session that the browser's hop opened.
func judgeShell(c *Case) []diag.Finding {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	if !upgraded(f) || f.Passed() {
		return nil
	}
	row := c.Fact(diag.HopTerminalOpenTask, stepSessionRow)
	cut := streamCut(c)
	switch w := decided(c); {
	case w != "":
		return byDecision(f, w)
	case cut.at != cutNowhere:
		return []diag.Finding{undecided(f, "the stream was cut before the shell could be judged: %s%s", cut.text,
			lastLines(f))}
	case shellFailed(c) && agentGone(c) != "": // its programs and the shell may have been killed with it
		return []diag.Finding{walkAgain(f, fmt.Sprintf("%s, so its report about the shell is no evidence (%s): walk again",
			agentGone(c), saw(f)))}
	case diag.ShellCode(f.WS.FrameCode):
		what := "the agent could not start the terminal"
		if f.WS.FrameCode == diag.CodePTYExited {
			what = "the shell started, and ended before the terminal was open"
		}
		out := fail(diag.SigPTYFailed, f, "%s: %s %s", what, f.WS.FrameCode, f.WS.FrameMessage)
		out.Direct = true // the agent itself reports it, over a stream that works
		return []diag.Finding{out}
	case f.WS.ExitCode != nil || (f.WS.FirstFrame != "" && sessionField(c, "session.close_reason") == shellExit):
		out := fail(diag.SigPTYFailed, f, "the shell started, but ended by itself%s before it computed anything: %s%s",
			exitOf(c, f), saw(f), lastLines(f))
		out.Direct = true
		return []diag.Finding{out}
	case f.WS.FirstFrame == "ready" || f.WS.FirstFrame == "data":
		out := fail(diag.SigPTYFailed, f, "the terminal is ready, but its shell computes nothing: %s%s", saw(f),
			lastLines(f))
		out.Direct = true
		return []diag.Finding{out}
	case streamCame(c) && unasked(row, "session.pty_ready_at"):
		return []diag.Finding{undecided(f,
			"the node's stream arrived, but this platform does not report whether its shell started: %s", saw(f))}
	case gaveUpOnShell(c) && streamTooLate(c) != nil:
		return []diag.Finding{undecided(f, "%s, so whether the shell is slow is not known: %s", streamTooLate(c).text,
			saw(f))}
	case streamCame(c) && (!shellReady(c) || f.WS.FrameCode == streamLate): // ready after that was too late
		out := fail(diag.SigPTYFailed, f, "the node's stream arrived, but its shell did not start in time: %s", saw(f))
		out.Failure, out.Direct = diag.PTYSilent, true
		return []diag.Finding{out}
	}
	switch {
	case status(row) != 200:
		return []diag.Finding{undecided(f,
			"no shell was reached, and the session's row, which has the cause, could not be read: %s", saw(f))}
	case streamCame(c): // its delivery is judged at browser_terminal_ws
		return []diag.Finding{undecided(f,
			"the node's shell is ready by the gateway's own row, and the browser got no message: %s", saw(f))}
	}
	out := fail(diag.SigPTYFailed, f, "no shell was reached: %s", saw(f))
	if browserNeverReachedGateway(c) {
		out.Culprit = culpritEdgeTook
	}
	return []diag.Finding{out}
}
