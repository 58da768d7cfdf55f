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
		ID: id, Behind: hop.PlatformReads(), Budget: 5 * time.Second,
		Recorded:    world.ErrorsOfTask(world.SessionTask, "task_"),
		ExplainedBy: hop.HopsThrough(diag.HopNodeReadiness, diag.HopNodeTaskRoundtrip),
		Fields:      []string{"session.task_status"},
		Writes:      true,
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for the terminal session"},
		Steps: []hop.Step{{
			Name: hop.StepSessionRow, From: hop.Operator, Token: true, Session: true, Timeout: 3 * time.Second,
			Needs: []diag.HopID{diag.HopControlPlaneAccess},
			After: []string{hop.FactID(diag.HopBrowserTerminalWS, hop.StepSession)},
			When:  world.WhenAccepted,
			Paths: []string{profile.PathTerminalSession}, Fields: []string{"token.session_id"},
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
			return claimed(c) + ", now " + world.SessionField(c, "session.task_status")
		},
	}
}

func judgeOpenTask(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	if f == nil {
		return nil
	}
	st := world.SessionField(c, "session.task_status")
	open := c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.task_claimed_at").IsZero() && st != "dispatched"
	switch {
	case st == "" && reading.Status(f) == 200 && reading.Unasked(f, "session.task_status"):
		return nil
	case st == "" && reading.Status(f) != 200:
		return []diag.Finding{reading.Undecided(f, "the session could not be read: %s", reading.Saw(f))}
	case world.BrowserNeverReachedGateway(c):
		return []diag.Finding{reading.Undecided(f, "the browser never reached the gateway, so no terminal.open was queued")}
	case st == "":
		return []diag.Finding{reading.Unmapped(f, "the session names no terminal.open task")}
	case !slices.Contains(world.TaskStates[:], st):
		return []diag.Finding{reading.UnknownWord(f, "the status of terminal.open", st, world.TaskStates[:])}
	case st == "completed", st == "failed":
		return nil
	case world.Decided(c) != "" && !world.ShellComputed(c): // the platform withdraws an unclaimed task
		return []diag.Finding{world.ByDecision(f, world.Decided(c))}
	case world.CutBefore(c):
		return []diag.Finding{reading.Undecided(f, "terminal.open is %s, and the session was cut on the browser's side", st)}
	case st != "expired" && !world.WaitedFor(f):
		return []diag.Finding{reading.Undecided(f, "terminal.open was %s; its outcome could not be read: %s", st,
			reading.Saw(f))}
	case open && world.ShellComputed(c):
		return []diag.Finding{reading.Undecided(f,
			"a shell computed in this session, and the platform's row has its terminal.open %s and not claimed", st)}
	case open && reading.Unasked(f, "session.task_claimed_at"):
		return []diag.Finding{reading.Undecided(f,
			"terminal.open is %s, and this platform does not report whether it was claimed", st)}
	case open:
		out := reading.Fail(diag.SigTaskClaimFailed, f, "no agent claimed terminal.open (task is %s)", st)
		locateUnclaimed(c, &out)
		return []diag.Finding{out}
	case world.ShellComputed(c): // terminal.open did its work: the browser saw the shell compute
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the shell computes, but the agent's result for terminal.open has not arrived (%s, %s)", claimed(c),
			reading.TaskAfter(st, f))}
	case world.TerminalReady(c): // terminal.open did its work, even if the shell is silent then
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the terminal is ready, but the agent's result for terminal.open has not arrived (%s, %s)",
			claimed(c), reading.TaskAfter(st, f))}
	case st == "expired": // no result counts any more
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the agent claimed terminal.open, but its result has not arrived (%s, %s)", claimed(c), reading.TaskAfter(st, f))}
	}
	out := reading.Undecided(f, "%s, but not answered yet (%s)", claimed(c), reading.TaskAfter(st, f))
	out.Failure = diag.OK // its failure is only the poll's time-out
	return []diag.Finding{out}
}

// claimed describes how fast the session's terminal.open was claimed, if the platform reports the times.
func claimed(c *hop.Case) string {
	row := diag.HopTerminalOpenTask
	q, d := c.Time(row, hop.StepSessionRow, "session.task_queued_at"), c.Time(row, hop.StepSessionRow,
		"session.task_claimed_at")
	if q.IsZero() || d.IsZero() {
		return "claimed"
	}
	return fmt.Sprintf("claimed after %d ms", max(1, d.Sub(q).Milliseconds()))
}
