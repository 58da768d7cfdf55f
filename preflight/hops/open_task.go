package hops

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalOpenTask: was the session's terminal.open queued, claimed and answered? A reported failure is an answer.
func terminalOpenTask() hop.Hop {
	id := diag.HopTerminalOpenTask
	return hop.Hop{
		ID: id, Absent: hop.NoTerminalSite, Agent: true, Budget: 5 * time.Second,
		Causes: hop.Causes{
			Behind: hop.PlatformReads(), ExplainedBy: hop.HopsThrough(diag.HopNodeReadiness, diag.HopNodeTaskRoundtrip),
		},
		Role: hop.Role{Writes: true}, Recorded: world.ErrorsOfTask(world.SessionTask, "task_"),
		Fields: []string{"session.task_status"},
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for the terminal session"},
		Steps: []hop.Step{{
			Name: hop.StepSessionRow, From: hop.Operator, Timeout: 3 * time.Second,
			Needs: hop.Needs{Hops: []diag.HopID{diag.HopControlPlaneAccess},
				Facts: []string{hop.FactID(diag.HopBrowserTerminalWS, hop.StepSession)}, Token: true, Session: true,
				Paths: []string{profile.PathTerminalSession}, Fields: []string{"token.session_id"}},
			When: hop.WaitIf(world.WhenAccepted),
			Excused: func(_ *hop.Case, f *diag.Fact) bool {
				return reading.Status(f) == 200 && world.AwaitedCloser(f.Request.Poll)
			},
			Ask: func(e *hop.Env, c *hop.Case) diag.Request {
				req := e.Request("GET", profile.PathTerminalSession,
					map[string]string{"session_id": c.Field(diag.HopTerminalTokenMint, hop.StepMint, "token.session_id")},
					"session.browser_connected_at", "session.node_stream_connected_at", "session.pty_ready_at",
					"session.closed_at", "session.close_reason", world.FieldClosedBy, "session.close_code",
					"session.close_detail", "session.node_answers", "session.task_id", "session.task_status",
					"session.task_queued_at", "session.task_claimed_at", "session.task_completed_at", "session.task_error_code")
				// the gateway may notice the end a moment later
				if req.Extract[world.FieldClosedBy] != "" && (world.EndedUnexplained(c) || world.FellSilent(c)) {
					req.Poll = &diag.Poll{Field: world.FieldClosedBy, Until: world.Closers[:],
						EveryMS: world.TaskPollEvery.Milliseconds()}
					return req
				}
				if req.Extract["session.task_status"] == "" {
					return req
				}
				// The browser gets its message before the agent posts its result: wait for the result.
				req.Poll = &diag.Poll{
					Field: "session.task_status", Until: []string{"completed", "failed", "expired"},
					EveryMS: world.TaskPollEvery.Milliseconds(),
				}
				return req
			},
		}},
		Judge: judgeOpenTask,
		Pass: func(c *hop.Case) string {
			return claimed(judged{c: c}) + ", now " + world.SessionField(c, "session.task_status")
		},
	}
}

func judgeOpenTask(c *hop.Case) []diag.Finding {
	return list(openTaskRows.judge(judged{c: c, f: c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow),
		word: world.SessionField(c, "session.task_status")}))
}

// openTaskRows are about the session's row; the word is the status of its terminal.open.
var openTaskRows = rows{
	{
		when: func(j judged) bool {
			return j.word == "" && j.status() == 200 && reading.Unasked(j.f, "session.task_status")
		},
	},
	{when: func(j judged) bool { return j.word == "" && j.status() != 200 },
		then: undecided("the session could not be read: %s", saw)},
	{when: func(j judged) bool { return world.BrowserNeverReachedGateway(j.c) },
		then: undecided("the browser never reached the gateway, so no terminal.open was queued")},
	{when: func(j judged) bool { return j.word == "" },
		then: unmapped("the session names no terminal.open task")},
	{when: func(j judged) bool { return !slices.Contains(world.TaskStates[:], j.word) },
		then: func(j judged) diag.Finding {
			return reading.UnknownWord(j.f, "the status of terminal.open", j.word, world.TaskStates[:])
		}},
	{when: func(j judged) bool { return j.word == "completed" || j.word == "failed" }},
	// the platform withdraws an unclaimed task
	{when: func(j judged) bool { return world.Decided(j.c) != "" && !world.ShellComputed(j.c) },
		then: func(j judged) diag.Finding { return world.ByDecision(j.f, world.Decided(j.c)) }},
	{when: func(j judged) bool { return world.CutBefore(j.c) },
		then: undecided("terminal.open is %s, and the session was cut on the browser's side", theWord)},
	{when: func(j judged) bool { return j.word != "expired" && !world.WaitedFor(j.f) },
		then: undecided("terminal.open was %s; its outcome could not be read: %s", theWord, saw)},
	{when: func(j judged) bool { return unclaimedOpen(j) && world.ShellComputed(j.c) },
		then: undecided("a shell computed in this session, and the platform's row has its terminal.open %s and not claimed",
			theWord)},
	{when: func(j judged) bool { return unclaimedOpen(j) && reading.Unasked(j.f, "session.task_claimed_at") },
		then: undecided("terminal.open is %s, and this platform does not report whether it was claimed", theWord)},
	{when: unclaimedOpen,
		then: fails(diag.SigTaskClaimFailed, "no agent claimed terminal.open (task is %s)", theWord),
		also: func(j judged, out *diag.Finding) { locateUnclaimed(j.c, out) }},

	// It was claimed. What terminal.open does may be done without its result, whose time-out is only the poll's.
	{when: func(j judged) bool { return world.ShellComputed(j.c) },
		then: observes(diag.SigResultPostFailed, "the shell computes, but the agent's result for terminal.open has not "+
			"arrived (%s, %s)", claimed, taskAfter)},
	{when: func(j judged) bool { return world.TerminalReady(j.c) }, // even if the shell is silent then
		then: observes(diag.SigResultPostFailed, "the terminal is ready, but the agent's result for terminal.open has not "+
			"arrived (%s, %s)", claimed, taskAfter)},
	{when: func(j judged) bool { return j.word == "expired" }, // no result counts any more
		then: observes(diag.SigResultPostFailed, "the agent claimed terminal.open, but its result has not arrived (%s, %s)",
			claimed, taskAfter)},
	{then: undecided("%s, but not answered yet (%s)", claimed, taskAfter),
		also: func(_ judged, out *diag.Finding) { out.Failure = diag.OK }},
}

func taskAfter(j judged) string { return reading.TaskAfter(j.word, j.f) }

func unclaimedOpen(j judged) bool {
	return j.word != "dispatched" &&
		j.c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.task_claimed_at").IsZero()
}

// claimed describes how fast the session's terminal.open was claimed, if the platform reports the times.
func claimed(j judged) string {
	row := diag.HopTerminalOpenTask
	q, d := j.c.Time(row, hop.StepSessionRow, "session.task_queued_at"), j.c.Time(row, hop.StepSessionRow,
		"session.task_claimed_at")
	if q.IsZero() || d.IsZero() {
		return "claimed"
	}
	return fmt.Sprintf("claimed after %d ms", max(1, d.Sub(q).Milliseconds()))
}
