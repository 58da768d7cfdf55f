package preflight

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalOpenTask: was the session's terminal.open queued, claimed and answered? A reported failure is an answer.
func terminalOpenTask() Hop {
	id := diag.HopTerminalOpenTask
	return Hop{
		ID: id, Behind: platformReads(), Budget: 5 * time.Second,
		Recorded:    errorsOfTask(sessionTask, "task_"),
		ExplainedBy: hopsThrough(diag.HopNodeReadiness, diag.HopNodeTaskRoundtrip),
		Fields:      []string{"session.task_status"},
		Writes:      true,
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request for the terminal session"},
		Steps: []Step{{
			Name: stepSessionRow, From: Operator, Token: true, Session: true, Timeout: 3 * time.Second,
			Needs: []diag.HopID{diag.HopControlPlaneAccess},
			After: []string{factID(diag.HopBrowserTerminalWS, stepSession)},
			When:  whenAccepted,
			Paths: []string{profile.PathTerminalSession}, Fields: []string{"token.session_id"},
			Excused: func(_ *Case, f *diag.Fact) bool { return status(f) == 200 && awaitedCloser(f.Request.Poll) },
			Ask: func(e *Env, c *Case) diag.Request {
				req := e.api("GET", profile.PathTerminalSession,
					map[string]string{"session_id": c.Field(diag.HopTerminalTokenMint, stepMint, "token.session_id")},
					"session.browser_connected_at", "session.node_stream_connected_at", "session.pty_ready_at",
					"session.closed_at", "session.close_reason", fieldClosedBy, "session.close_code",
					"session.close_detail", "session.node_answers", "session.task_id", "session.task_status",
					"session.task_queued_at", "session.task_claimed_at", "session.task_completed_at", "session.task_error_code")
				// the gateway may notice the end a moment later
				if req.Extract[fieldClosedBy] != "" && (endedUnexplained(c) || fellSilent(c)) {
					req.Poll = &diag.Poll{Field: fieldClosedBy, Until: closers[:], EveryMS: taskPollEvery.Milliseconds()}
					return req
				}
				if req.Extract["session.task_status"] == "" {
					return req
				}
				// The browser gets its message before the agent posts its result: wait for the result.
				req.Poll = &diag.Poll{
					Field: "session.task_status", Until: []string{"completed", "failed", "expired"},
					EveryMS: taskPollEvery.Milliseconds(),
				}
				return req
			},
		}},
		Judge: judgeOpenTask,
		Pass: func(c *Case) string {
			return claimed(c) + ", now " + sessionField(c, "session.task_status")
		},
	}
}

func judgeOpenTask(c *Case) []diag.Finding {
	f := c.Fact(diag.HopTerminalOpenTask, stepSessionRow)
	if f == nil {
		return nil
	}
	st := sessionField(c, "session.task_status")
	open := c.Time(diag.HopTerminalOpenTask, stepSessionRow, "session.task_claimed_at").IsZero() && st != "dispatched"
	switch {
	case st == "" && status(f) == 200 && unasked(f, "session.task_status"):
		return nil
	case st == "" && status(f) != 200:
		return []diag.Finding{undecided(f, "the session could not be read: %s", saw(f))}
	case browserNeverReachedGateway(c):
		return []diag.Finding{undecided(f, "the browser never reached the gateway, so no terminal.open was queued")}
	case st == "":
		return []diag.Finding{unmapped(f, "the session names no terminal.open task")}
	case !slices.Contains(taskStates[:], st):
		return []diag.Finding{unknownWord(f, "the status of terminal.open", st, taskStates[:])}
	case st == "completed", st == "failed":
		return nil
	case decided(c) != "" && !shellComputed(c): // the platform withdraws an unclaimed task
		return byDecision(f, decided(c))
	case cutBefore(c):
		return []diag.Finding{undecided(f, "terminal.open is %s, and the session was cut on the browser's side", st)}
	case st != "expired" && !waitedFor(f):
		return []diag.Finding{undecided(f, "terminal.open was %s; its outcome could not be read: %s", st, saw(f))}
	case open && shellComputed(c):
		return []diag.Finding{undecided(f,
			"a shell computed in this session, and the platform's row has its terminal.open %s and not claimed", st)}
	case open && unasked(f, "session.task_claimed_at"):
		return []diag.Finding{undecided(f, "terminal.open is %s, and this platform does not report whether it was claimed",
			st)}
	case open:
		out := fail(diag.SigTaskClaimFailed, f, "no agent claimed terminal.open (task is %s)", st)
		locateUnclaimed(c, &out)
		return []diag.Finding{out}
	case shellComputed(c): // terminal.open did its work: the browser saw the shell compute
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the shell computes, but the agent's result for terminal.open has not arrived (%s, %s)", claimed(c),
			taskAfter(st, f))}
	case terminalReady(c): // terminal.open did its work, even if the shell is silent then
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the terminal is ready, but the agent's result for terminal.open has not arrived (%s, %s)",
			claimed(c), taskAfter(st, f))}
	case st == "expired": // no result counts any more
		return []diag.Finding{observed(diag.SigResultPostFailed, f,
			"the agent claimed terminal.open, but its result has not arrived (%s, %s)", claimed(c),
			taskAfter(st, f))}
	}
	out := undecided(f, "%s, but not answered yet (%s)", claimed(c), taskAfter(st, f))
	out.Failure = diag.OK // its failure is only the poll's time-out
	return []diag.Finding{out}
}

// claimed describes how fast the session's terminal.open was claimed, if the platform reports the times.
func claimed(c *Case) string {
	row := diag.HopTerminalOpenTask
	q, d := c.Time(row, stepSessionRow, "session.task_queued_at"), c.Time(row, stepSessionRow, "session.task_claimed_at")
	if q.IsZero() || d.IsZero() {
		return "claimed"
	}
	return fmt.Sprintf("claimed after %d ms", max(1, d.Sub(q).Milliseconds()))
}
