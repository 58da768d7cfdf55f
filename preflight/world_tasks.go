package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// stepBacklogAfter reads the number of expired tasks again: a healthy platform has some, from a task's end to its
// next sweep.
const stepBacklogAfter = "backlog_after"

// taskPollEvery is short compared with a round trip that people notice, and long compared with a read of the
// platform's store.
const taskPollEvery = 60 * time.Millisecond

// sweepWithin is how long the walk waits for the platform to sweep expired tasks; the lab's sweeps every 5 s.
const sweepWithin = 7 * time.Second

// taskStates are the task statuses that the judges know. Any other status leaves open whether a task was claimed.
var taskStates = [...]string{"queued", "dispatched", "completed", "failed", "expired"}

// refusals are the error codes of an agent that cannot run the no-op: another key signed it, or the agent has another
// version.
var refusals = [...]string{"task_unverifiable", "task_unsupported", "task_invalid"}

// waitedFor reports whether a poll went on for its whole time. If another answer, a broken connection or a silent API
// ended it sooner, its last reading is out of date.
func waitedFor(f *diag.Fact) bool {
	return f.Passed() || f.Phase == "poll" ||
		(f.Phase != "http" && (f.Failure == diag.HTTPTimeout || f.Failure == diag.Timeout))
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
