package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// TestPollThatBroke: if the poll for a no-op's state broke, nothing was waited for, and nothing is blamed.
func TestPollThatBroke(t *testing.T) {
	task := hop.FactID(diag.HopNodeTaskRoundtrip, hop.StepTask)
	for _, state := range []string{"queued", "dispatched"} {
		for word, phase := range map[diag.Failure]string{diag.HTTPEdgePage: "http", diag.TCPReset: "http",
			diag.HTTPStatus: "http", diag.TCPRefused: "tcp"} {
			r := walkWith(t, answers{task: func(f *diag.Fact) {
				f.Failure, f.Phase = word, phase
				f.HTTP.Fields["task.status"] = state
				delete(f.HTTP.Fields, "task.completed_at")
			}})
			h := hopOf(r, diag.HopNodeTaskRoundtrip)
			if h.Status != diag.StatusInconclusive || !strings.Contains(h.Because, "could not be read") {
				t.Errorf("%s, %s: %s\n%s", state, word, h.Status, describe(r))
			}
		}
	}
}

// brokenPolls has the ways in which a poll ends early.
var brokenPolls = map[diag.Failure]string{
	diag.HTTPEdgePage: "http", diag.TCPReset: "http", diag.HTTPStatus: "http", diag.TCPRefused: "tcp",
	diag.HTTPTimeout: "http", // the API fell silent after it had answered
}

// TestOtherPollsThatBroke is TestPollThatBroke for every other poll of a walk. It also checks that the state is blamed
// if the poll waited for its whole time.
func TestOtherPollsThatBroke(t *testing.T) {
	beats := func(step string, ago time.Duration) answers {
		return answers{"node_heartbeat/" + step: func(f *diag.Fact) {
			f.HTTP.Fields["node.last_heartbeat_at"] = noon.Add(-ago).Format(time.RFC3339Nano)
			f.HTTP.Fields["node.last_seen_at"] = f.HTTP.Fields["node.last_heartbeat_at"]
		}}
	}
	late := world.StaleAfter(&hop.Case{Plan: testPlan(testEnv())}) + time.Second
	row := func(state string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			noStream(f)
			f.HTTP.Fields["session.task_status"] = state
			if state == "queued" {
				delete(f.HTTP.Fields, "session.task_claimed_at")
			}
		}
	}
	backlog := func(f *diag.Fact) { f.HTTP.Fields["node.stale_tasks"] = "3" }
	for name, p := range map[string]struct {
		poll    string // the fact whose poll breaks
		answers answers
		hop     diag.HopID
		signal  diag.Signal
	}{
		"heartbeat": {"node_heartbeat/read_again", with(silentAgent(), with(beats(hop.StepReadModel, late),
			beats(hop.StepReadAgain, late))), diag.HopNodeHeartbeat, diag.SigHeartbeatStale},
		"session's row, unclaimed": {"terminal_open_task/session", answers{"terminal_open_task/session": row("queued"),
			"browser_terminal_ws/session": streamTimeout}, diag.HopTerminalOpenTask, diag.SigTaskClaimFailed},
		"session's row, no result": {"terminal_open_task/session", answers{"terminal_open_task/session": func(f *diag.Fact) {
			f.HTTP.Fields["session.task_status"] = "dispatched"
		}}, diag.HopTerminalOpenTask, diag.SigResultPostFailed},
		"backlog": {"node_task_roundtrip/backlog_after", answers{"node_heartbeat/read_model": backlog,
			"node_heartbeat/node_after": backlog, "node_task_roundtrip/backlog_after": backlog},
			diag.HopNodeTaskRoundtrip, diag.SigTaskBacklogStale},
		"no-op": {"node_task_roundtrip/task", answers{"node_task_roundtrip/task": func(f *diag.Fact) {
			f.HTTP.Fields["task.status"] = "dispatched"
		}}, diag.HopNodeTaskRoundtrip, diag.SigResultPostFailed},
	} {
		judged := func(word diag.Failure, phase string) *diag.Report {
			inner := p.answers[p.poll]
			return walkWith(t, with(p.answers, answers{p.poll: func(f *diag.Fact) {
				inner(f)
				f.Failure, f.Phase = word, phase
			}}))
		}
		r := judged(diag.HTTPTimeout, "poll")
		if h := hopOf(r, p.hop); h.Status != diag.StatusFail || h.Signal != p.signal {
			t.Errorf("%s, waited for: %s %s\n%s", name, h.Status, h.Signal, describe(r))
		}
		for word, phase := range brokenPolls {
			r := judged(word, phase)
			if h := hopOf(r, p.hop); h.Status != diag.StatusInconclusive || h.Because == "" {
				t.Errorf("%s, %s in %s: %s %s\n%s", name, word, phase, h.Status, h.Signal, describe(r))
			}
		}
	}
}
