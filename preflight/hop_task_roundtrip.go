package preflight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	stepEnqueue = "enqueue"
	stepTask    = "task"

	// stepRecordAfter reads the record again if a result did not come: the agent may have recorded why.
	stepRecordAfter = "record_after"
	// stepBacklogAfter reads the number of expired tasks again: a healthy platform has some, from a task's end to its
	// next sweep.
	stepBacklogAfter = "backlog_after"

	// roundtripBudget is the hop's own budget; a profile may give it more.
	roundtripBudget = 10 * time.Second
	// noopGrace is how long the no-op outlives the hop's budget before it expires.
	noopGrace = 5 * time.Second
	// taskPollEvery is short compared with a round trip that people notice, and long compared with a read of the
	// platform's store.
	taskPollEvery = 60 * time.Millisecond
	// sweepWithin is how long the walk waits for the platform to sweep expired tasks; the lab's sweeps every 5 s.
	sweepWithin = 7 * time.Second
)

// taskStates are the task statuses that the judges know. Any other status leaves open whether a task was claimed.
var taskStates = [...]string{"queued", "dispatched", "completed", "failed", "expired"}

// refusals are the error codes of an agent that cannot run the no-op: another key signed it, or the agent has another
// version.
var refusals = [...]string{"task_unverifiable", "task_unsupported", "task_invalid"}

// nodeTaskRoundtrip: does a typed no-op reach the agent, run, and come back?
func nodeTaskRoundtrip() Hop {
	id := diag.HopNodeTaskRoundtrip
	paths, fields := []string{profile.PathNodeTasks, profile.PathTask}, []string{"task.id", "task.status"}
	return Hop{
		ID: id, Budget: roundtripBudget,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Writes:      true,
		Recorded:    errorsOfTask(func(c *Case) string { return c.Field(id, stepEnqueue, "task.id") }, ""),
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request to enqueue or read the no-op"},
		OfNode: func(c *Case) bool { return agentAnswered(c) != "" },
		Steps: []Step{
			{
				Name: stepEnqueue, From: Operator, Token: true, Changes: true, Timeout: 4 * time.Second,
				Needs: []diag.HopID{diag.HopControlPlaneAccess},
				Paths: paths, Fields: fields, Ask: enqueueNoop, // a task that could not be read again is not enqueued
			},
			{
				Name: stepTask, From: Operator, Token: true, Timeout: 6 * time.Second,
				Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: paths, Fields: fields,
				After: []string{factID(id, stepEnqueue)}, When: func(c *Case) string {
					if c.Field(id, stepEnqueue, "task.id") == "" {
						return "no task was enqueued"
					}
					return ""
				},
				Ask: func(e *Env, c *Case) diag.Request {
					req := e.api("GET", profile.PathTask, map[string]string{"task_id": c.Field(id, stepEnqueue, "task.id")},
						"task.status", "task.queued_at", "task.claimed_at", "task.completed_at", "task.error_code")
					req.Poll = &diag.Poll{Field: "task.status", Until: []string{"completed", "failed", "expired"},
						EveryMS: taskPollEvery.Milliseconds()}
					return req
				},
			},
			{
				Name: stepRecordAfter, From: Node, Timeout: 3 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
				Optional: true, Second: true, NotThere: keepsRecord, Ask: readRecord,
				Fields: fields, After: []string{factID(id, stepTask)}, Unless: func(c *Case) string {
					if resultLate(c) {
						return ""
					}
					return "the task's result came, or no agent claimed it"
				},
			},
			{
				Name: stepBacklogAfter, From: Operator, Token: true, Timeout: sweepWithin,
				Needs:    []diag.HopID{diag.HopControlPlaneAccess},
				Optional: true, Second: true, Paths: []string{profile.PathNode}, Fields: []string{"node.stale_tasks"},
				After: []string{factID(id, stepTask), factID(diag.HopNodeHeartbeat, stepReadModel)}, Unless: func(c *Case) string {
					if lookedAgain(c) {
						return ""
					}
					return "no expired task counted as current work"
				},
				Ask: func(e *Env, _ *Case) diag.Request {
					req := e.api("GET", profile.PathNode, nil, backlogFields[:]...)
					req.Poll = &diag.Poll{Field: "node.stale_tasks", Until: []string{"0"}, EveryMS: 10 * taskPollEvery.Milliseconds()}
					return req
				},
			},
		},
		Judge: judgeRoundtrip,
		Pass: func(c *Case) string {
			q, d := c.Time(id, stepTask, "task.queued_at"), c.Time(id, stepTask, "task.completed_at")
			if q.IsZero() || d.IsZero() {
				return "a no-op came back"
			}
			return fmt.Sprintf("a no-op came back in %d ms", max(1, d.Sub(q).Milliseconds()))
		},
	}
}

func enqueueNoop(e *Env, _ *Case) diag.Request {
	req := e.api("POST", profile.PathNodeTasks, nil, "task.id")
	ttl := budget(e.Profile, &Hop{ID: diag.HopNodeTaskRoundtrip, Budget: roundtripBudget}) + noopGrace
	body, err := json.Marshal(map[string]any{
		"type": "noop", "payload": map[string]any{}, "ttl_seconds": int(ttl.Seconds()), "correlation_id": e.CorrelationID,
	})
	if err == nil {
		req.Body = string(body)
	}
	return req
}

func judgeRoundtrip(c *Case) []diag.Finding {
	id := diag.HopNodeTaskRoundtrip
	put, got := c.Fact(id, stepEnqueue), c.Fact(id, stepTask)
	if put != nil && c.Field(id, stepEnqueue, "task.id") == "" {
		return []diag.Finding{notTaken(put)}
	}
	if got == nil {
		return nil
	}
	st, claimed, why := taskStatus(c), taskClaimed(c), c.Field(id, stepTask, "task.error_code")
	switch {
	case st == "":
		return []diag.Finding{undecided(got, "the task could not be read: %s", saw(got))}
	case !slices.Contains(taskStates[:], st):
		return []diag.Finding{unknownWord(got, "the no-op's status", st, taskStates[:])}
	case st == "failed":
		return []diag.Finding{refusedNoop(c, got, why)}
	case st != "completed" && st != "expired" && !waitedFor(got):
		return []diag.Finding{undecided(got, "the no-op was %s; its outcome could not be read: %s", st, saw(got))}
	case st != "completed" && !claimed && unasked(got, "task.claimed_at"):
		return []diag.Finding{undecided(got, "the no-op is %s after %d ms, and this platform does not report node claims", st,
			got.DurationMS)}
	case st != "completed" && claimed:
		return []diag.Finding{observed(diag.SigResultPostFailed, got,
			"the agent claimed the no-op, but its result has not arrived (%s)", taskAfter(st, got))}
	case st != "completed":
		f := observed(diag.SigTaskClaimFailed, got, "no agent claimed the no-op (%s)", taskAfter(st, got))
		locateUnclaimed(c, &f)
		return []diag.Finding{f}
	}
	return judgeBacklog(c)
}

// notTaken is the finding for a task that the platform did not accept.
func notTaken(put *diag.Fact) diag.Finding {
	switch {
	case foreignPage(put):
		return undecided(put, "no task was taken: %s in place of the platform's: nothing of the platform is in it",
			pageFrom(put))
	case redirects(put):
		return redirected(put)
	}
	return undecided(put, "the platform took no task: %s%s", saw(put), signer(put))
}

// waitedFor reports whether a poll went on for its whole time. If another answer, a broken connection or a silent API
// ended it sooner, its last reading is out of date.
func waitedFor(f *diag.Fact) bool {
	return f.Passed() || f.Phase == "poll" ||
		(f.Phase != "http" && (f.Failure == diag.HTTPTimeout || f.Failure == diag.Timeout))
}

// judgeBacklog judges expired tasks that the platform still counts as current work after a sweep was due. A report from
// before the second reading existed has only the first one.
func judgeBacklog(c *Case) []diag.Finding {
	hop, step := diag.HopNodeHeartbeat, stepReadModel
	first := staleTasks(c, hop, step)
	if first <= 0 {
		return nil
	}
	if lookedAgain(c) {
		hop, step = diag.HopNodeTaskRoundtrip, stepBacklogAfter
		switch n := staleTasks(c, hop, step); {
		case n < 0, n > 0 && !waitedFor(c.Fact(hop, step)):
			return []diag.Finding{undecided(c.Fact(diag.HopNodeHeartbeat, stepReadModel), "%d expired tasks counted as current "+
				"work; whether the next sweep removed them is not known", first)}
		case n == 0:
			return nil
		case !sweptSince(c):
			return []diag.Finding{warn(diag.SigTaskBacklogStale, c.Fact(hop, step), "%d expired tasks count as current work; "+
				"this platform sweeps every %s: walk again after that", n, sweepInterval(c))}
		}
	}
	f := observed(diag.SigTaskBacklogStale, c.Fact(hop, step), "%d expired tasks still count as current work",
		staleTasks(c, hop, step))
	f.Direct = true
	return []diag.Finding{f}
}

// backlogFields are the fields of the second reading of the backlog, which replace those of the first.
var backlogFields = [...]string{"node.stale_tasks", "node.check_backlog", "node.recovery_reason", "node.recovery_state"}

// lookedAgain reports whether the second reading of the backlog counts, also if it got no answer.
func lookedAgain(c *Case) bool {
	p := c.planned(diag.HopNodeTaskRoundtrip)
	return staleTasks(c, diag.HopNodeHeartbeat, stepReadModel) > 0 && taskStatus(c) == "completed" &&
		slices.Contains(p.Steps, stepBacklogAfter) && p.Left[stepBacklogAfter] == ""
}

// sweptSince reports whether a sweep was due between the two readings. If none was, the next one may remove what both
// counted.
func sweptSince(c *Case) bool { return sweepInterval(c) <= sweepWithin }

func sweepInterval(c *Case) time.Duration {
	return time.Duration(c.Policy(profile.PolicyTaskSweepInterval)) * time.Second
}

// staleTasks returns how many expired tasks of the node an answer counts as current work; -1 if it has no count.
func staleTasks(c *Case, hop diag.HopID, step string) int {
	n, err := strconv.Atoi(c.Field(hop, step, "node.stale_tasks"))
	if err != nil {
		return -1
	}
	return n
}

func taskStatus(c *Case) string { return c.Field(diag.HopNodeTaskRoundtrip, stepTask, "task.status") }

func taskClaimed(c *Case) bool {
	return taskStatus(c) == "dispatched" || !c.Time(diag.HopNodeTaskRoundtrip, stepTask, "task.claimed_at").IsZero()
}

// resultLate reports whether the agent claimed the no-op, and its result has not come.
func resultLate(c *Case) bool {
	switch taskStatus(c) {
	case "dispatched", "queued", "expired":
		return taskClaimed(c)
	}
	return false
}

// observed is a failing finding for an answer that itself names the fault, so the time-out of the poll for another
// answer is not its failure.
func observed(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	out := fail(sig, f, format, args...)
	out.Failure = diag.OK
	return out
}

func orUnknown(s string) string { return cmp.Or(s, "no reason given") }

// resultRefused returns the node's record if the agent wrote there that the post of this task's result was answered
// with an error.
func resultRefused(c *Case, f *diag.Fact) (*diag.Fact, string) {
	task := c.Field(diag.HopNodeTaskRoundtrip, stepEnqueue, "task.id")
	record := c.recordFact()
	if task == "" || !strings.HasPrefix(f.ID, string(diag.HopNodeTaskRoundtrip)) {
		return nil, ""
	}
	for _, e := range slices.Backward(c.hostRecord()) {
		if e.Reason == diag.RecTaskResultPostFailed && e.TaskID == task && e.Status >= 400 {
			return record, fmt.Sprintf("the agent's post of the result of %s was answered HTTP %d", task, e.Status)
		}
	}
	return nil, ""
}
