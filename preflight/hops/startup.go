package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// terminalStartup: does the allocation have its user and shell, and does that shell compute a nonce through the
// browser's terminal? An echo does not prove a shell.
func terminalStartup() hop.Hop {
	id := diag.HopTerminalStartup
	return hop.Hop{
		ID: id, Behind: hop.PlatformReads(), Budget: 6 * time.Second,
		Recorded: &hop.RecordedErrors{Signals: []diag.Signal{diag.SigPTYFailed}, Task: world.SessionTask,
			Reasons: []diag.RecordReason{diag.RecTerminalPTYFailed}, Codes: []string{"pty_", "user_", "task_"}},
		ExplainedBy: []diag.HopID{diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream},
		Steps: []hop.Step{
			{
				Name: hop.StepUser, From: hop.Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
				After: []string{hop.FactID(diag.HopAllocationBinding, hop.StepAllocation)}, Fields: []string{"allocation.os_user"},
				When: func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.OSUser(c), "the allocation's user is not known"))
				},
				Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpUser, Target: world.OSUser(c)}
				},
			},
			shellStep(),
			world.AgentAfterStep(),
		},
		Judge: func(c *hop.Case) []diag.Finding {
			if f := c.Fact(id, hop.StepUser); f != nil && (f.Failure == diag.UserMissing || f.Failure == diag.ShellMissing) {
				out := reading.Fail(diag.SigPTYFailed, f, "%s", userText(f))
				out.Direct = true
				return []diag.Finding{out}
			}
			return judgeShell(c)
		},
		Pass: func(c *hop.Case) string {
			f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
			if f == nil || f.PTY == nil { // the plan leaves the session out
				return fmt.Sprintf("user %s and its shell are there; no session was opened", world.OSUser(c))
			}
			return fmt.Sprintf("%s's shell computed a nonce in %d ms", world.OSUser(c), f.PTY.DurationMS)
		},
		Counter: func(_ *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			if failing.Request.Op != diag.OpUser {
				return nil
			}
			other, plain := failing.Request, failing.Request
			other.Target, other.TimeoutMS = "root", hop.CounterTimeoutMS // shows whether look-ups work at all
			plain.View, plain.TimeoutMS = diag.ViewHost, hop.CounterTimeoutMS
			return []hop.Counter{{Name: "host-view", From: hop.Node, Request: plain}, {Name: "root", From: hop.Node,
				Request: other}}
		},
	}
}

// shellStep judges the session that the browser's hop opened.
func shellStep() hop.Step {
	s := hop.SharedStep("shell", diag.HopBrowserTerminalWS, hop.StepSession, world.WhenAccepted)
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
func judgeShell(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if !reading.Upgraded(f) || f.Passed() {
		return nil
	}
	row := c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	cut := world.StreamCut(c)
	switch w := world.Decided(c); {
	case w != "":
		return []diag.Finding{world.ByDecision(f, w)}
	case cut.At != world.CutNowhere:
		return []diag.Finding{reading.Undecided(f, "the stream was cut before the shell could be judged: %s%s", cut.Text,
			world.LastLines(f))}
	case world.ShellFailed(c) && world.AgentGone(c) != "": // its programs and the shell may have been killed with it
		return []diag.Finding{world.WalkAgain(f,
			fmt.Sprintf("%s, so its report about the shell is no evidence (%s): walk again",
				world.AgentGone(c), reading.Saw(f)))}
	case diag.ShellCode(f.WS.FrameCode):
		what := "the agent could not start the terminal"
		if f.WS.FrameCode == diag.CodePTYExited {
			what = "the shell started, and ended before the terminal was open"
		}
		out := reading.Fail(diag.SigPTYFailed, f, "%s: %s %s", what, f.WS.FrameCode, f.WS.FrameMessage)
		out.Direct = true // the agent itself reports it, over a stream that works
		return []diag.Finding{out}
	case f.WS.ExitCode != nil || (f.WS.FirstFrame != "" && world.SessionField(c,
		"session.close_reason") == world.ShellExit):
		out := reading.Fail(diag.SigPTYFailed, f,
			"the shell started, but ended by itself%s before it computed anything: %s%s",
			world.ExitOf(c, f), reading.Saw(f), world.LastLines(f))
		out.Direct = true
		return []diag.Finding{out}
	case f.WS.FirstFrame == "ready" || f.WS.FirstFrame == "data":
		out := reading.Fail(diag.SigPTYFailed, f, "the terminal is ready, but its shell computes nothing: %s%s",
			reading.Saw(f), world.LastLines(f))
		out.Direct = true
		return []diag.Finding{out}
	case world.StreamCame(c) && reading.Unasked(row, "session.pty_ready_at"):
		return []diag.Finding{reading.Undecided(f,
			"the node's stream arrived, but this platform does not report whether its shell started: %s", reading.Saw(f))}
	case world.GaveUpOnShell(c) && world.StreamTooLate(c) != nil:
		return []diag.Finding{reading.Undecided(f, "%s, so whether the shell is slow is not known: %s",
			world.StreamTooLate(c).Text, reading.Saw(f))}
	case world.StreamCame(c) && (!world.ShellReady(c) ||
		f.WS.FrameCode == world.StreamLate): // ready after that was too late
		out := reading.Fail(diag.SigPTYFailed, f, "the node's stream arrived, but its shell did not start in time: %s",
			reading.Saw(f))
		out.Failure, out.Direct = diag.PTYSilent, true
		return []diag.Finding{out}
	}
	switch {
	case reading.Status(row) != 200:
		return []diag.Finding{reading.Undecided(f,
			"no shell was reached, and the session's row, which has the cause, could not be read: %s", reading.Saw(f))}
	case world.StreamCame(c): // its delivery is judged at browser_terminal_ws
		return []diag.Finding{reading.Undecided(f,
			"the node's shell is ready by the gateway's own row, and the browser got no message: %s", reading.Saw(f))}
	}
	out := reading.Fail(diag.SigPTYFailed, f, "no shell was reached: %s", reading.Saw(f))
	if world.BrowserNeverReachedGateway(c) {
		out.Culprit = world.CulpritEdgeTook
	}
	return []diag.Finding{out}
}
