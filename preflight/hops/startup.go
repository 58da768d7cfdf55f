package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalStartup: does the allocation have its user and shell, and does that shell compute a nonce through the
// browser's terminal? An echo does not prove a shell.
func terminalStartup() hop.Hop {
	id := diag.HopTerminalStartup
	return hop.Hop{
		ID: id, Absent: hop.NoTerminal, FreeOf: (*profile.Profile).AllocationFree, Budget: 6 * time.Second,
		Causes: hop.Causes{Behind: hop.PlatformReads(),
			ExplainedBy: []diag.HopID{diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream}},
		Recorded: &hop.RecordedErrors{Signals: []diag.Signal{diag.SigPTYFailed}, Task: world.SessionTask,
			Reasons: []diag.RecordReason{diag.RecTerminalPTYFailed}, Codes: []string{"pty_", "user_", "task_"}},
		Steps: []hop.Step{
			{
				Name: hop.StepUser, From: hop.Node, Timeout: 4 * time.Second,
				Needs: hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess},
					Facts:  []string{hop.FactID(diag.HopAllocationBinding, hop.StepAllocation)},
					Fields: []string{"allocation.os_user"}},
				When: hop.WaitIf(func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.OSUser(c), "the allocation's user is not known"))
				}),
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
			if world.ForeignTerminal(c) != nil && f.PTY != nil {
				return fmt.Sprintf("the terminal's shell computed a nonce in %d ms", f.PTY.DurationMS)
			}
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
	s.Needs.Session, s.Needs.Instead = true, func(p *profile.Profile) *hop.Needs {
		if p.Terminal.OfReference() {
			return nil
		}
		return &hop.Needs{Session: true, NoAPI: true, Facts: []string{s.Uses}}
	}
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
	if world.ForeignTerminal(c) != nil {
		return list(foreignShellRows.judge(judged{c: c, f: f}))
	}
	if !reading.Upgraded(f) {
		return nil
	}
	return list(shellRows.judge(judged{c: c, f: f}))
}

var shellRows = rows{
	{when: func(j judged) bool { return j.f.Passed() }},
	{when: func(j judged) bool { return world.Decided(j.c) != "" },
		then: func(j judged) diag.Finding { return world.ByDecision(j.f, world.Decided(j.c)) }},
	{when: func(j judged) bool { return world.StreamCut(j.c).At != world.CutNowhere },
		then: undecided("the stream was cut before the shell could be judged: %s%s",
			func(j judged) string { return world.StreamCut(j.c).Text }, lastLines)},
	// its programs and the shell may have been killed with it
	{when: func(j judged) bool { return world.ShellFailed(j.c) && world.AgentGone(j.c) != "" },
		then: func(j judged) diag.Finding {
			return world.WalkAgain(j.f, fmt.Sprintf("%s, so its report about the shell is no evidence (%s): walk again",
				world.AgentGone(j.c), reading.Saw(j.f)))
		}},
	// the agent itself reports it, over a stream that works
	{when: func(j judged) bool { return j.f.WS.FrameCode == diag.CodePTYExited }, direct: true,
		then: fails(diag.SigPTYFailed, "the shell started, and ended before the terminal was open: %s %s", frameCode,
			frameMessage)},
	{when: func(j judged) bool { return diag.ShellCode(j.f.WS.FrameCode) }, direct: true,
		then: fails(diag.SigPTYFailed, "the agent could not start the terminal: %s %s", frameCode, frameMessage)},
	{when: shellExited, direct: true,
		then: fails(diag.SigPTYFailed, "the shell started, but ended by itself%s before it computed anything: %s%s",
			func(j judged) string { return world.ExitOf(j.c, j.f) }, saw, lastLines)},
	{when: func(j judged) bool { return j.f.WS.FirstFrame == "ready" || j.f.WS.FirstFrame == "data" }, direct: true,
		then: fails(diag.SigPTYFailed, "the terminal is ready, but its shell computes nothing: %s%s", saw, lastLines)},
	{
		when: func(j judged) bool {
			return world.StreamCame(j.c) && reading.Unasked(sessionRow(j.c), "session.pty_ready_at")
		},
		then: undecided("the node's stream arrived, but this platform does not report whether its shell started: %s", saw),
	},
	{when: func(j judged) bool { return world.GaveUpOnShell(j.c) && world.StreamTooLate(j.c) != nil },
		then: undecided("%s, so whether the shell is slow is not known: %s",
			func(j judged) string { return world.StreamTooLate(j.c).Text }, saw)},
	{
		when: func(j judged) bool { // ready after that was too late
			return world.StreamCame(j.c) && (!world.ShellReady(j.c) || j.f.WS.FrameCode == world.StreamLate)
		},
		then:    fails(diag.SigPTYFailed, "the node's stream arrived, but its shell did not start in time: %s", saw),
		failure: diag.PTYSilent, direct: true,
	},
	{when: func(j judged) bool { return reading.Status(sessionRow(j.c)) != 200 },
		then: undecided("no shell was reached, and the session's row, which has the cause, could not be read: %s", saw)},
	// its delivery is judged at browser_terminal_ws
	{when: func(j judged) bool { return world.StreamCame(j.c) },
		then: undecided("the node's shell is ready by the gateway's own row, and the browser got no message: %s", saw)},
	{when: func(j judged) bool { return world.BrowserNeverReachedGateway(j.c) },
		then: shellNotReached, culprit: world.CulpritEdgeTook},
	{then: shellNotReached},
}

var shellNotReached = fails(diag.SigPTYFailed, "no shell was reached: %s", saw)

func sessionRow(c *hop.Case) *diag.Fact { return c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow) }

// shellExited reports whether the shell ended by itself, by its exit code or by the gateway's row.
func shellExited(j judged) bool {
	return j.f.WS.ExitCode != nil ||
		(j.f.WS.FirstFrame != "" && world.SessionField(j.c, "session.close_reason") == world.ShellExit)
}
