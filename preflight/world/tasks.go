package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

// StepBacklogAfter reads the number of expired tasks again: a healthy platform has some, from a task's end to its
// next sweep.
const StepBacklogAfter = "backlog_after"

// TaskPollEvery is short compared with a round trip that people notice, and long compared with a read of the
// platform's store.
const TaskPollEvery = 60 * time.Millisecond

// SweepWithin is how long the walk waits for the platform to sweep expired tasks; the lab's sweeps every 5 s.
const SweepWithin = 7 * time.Second

// TaskStates are the task statuses that the judges know. Any other status leaves open whether a task was claimed.
var TaskStates = [...]string{"queued", "dispatched", "completed", "failed", "expired"}

// refusals are the error codes of an agent that cannot run the no-op: another key signed it, or the agent has another
// version.
var refusals = [...]string{"task_unverifiable", "task_unsupported", "task_invalid"}

// WaitedFor reports whether a poll went on for its whole time. If another answer, a broken connection or a silent API
// ended it sooner, its last reading is out of date.
func WaitedFor(f *diag.Fact) bool {
	return f.Passed() || f.Phase == "poll" ||
		(f.Phase != "http" && (f.Failure == diag.HTTPTimeout || f.Failure == diag.Timeout))
}

// BacklogFields are the fields of the second reading of the backlog, which replace those of the first.
var BacklogFields = [...]string{"node.stale_tasks", "node.check_backlog", "node.recovery_reason", "node.recovery_state"}

// LookedAgain reports whether the second reading of the backlog counts, also if it got no answer.
func LookedAgain(c *hop.Case) bool {
	p := c.Planned(diag.HopNodeTaskRoundtrip)
	return StaleTasks(c, diag.HopNodeHeartbeat, hop.StepReadModel) > 0 && TaskStatus(c) == "completed" &&
		slices.Contains(p.Steps, StepBacklogAfter) && p.Left[StepBacklogAfter] == ""
}

// SweptSince reports whether a sweep was due between the two readings. If none was, the next one may remove what both
// counted.
func SweptSince(c *hop.Case) bool { return SweepInterval(c) <= SweepWithin }

// SweepInterval returns how often the platform sweeps expired tasks.
func SweepInterval(c *hop.Case) time.Duration {
	return time.Duration(c.Policy(profile.PolicyTaskSweepInterval)) * time.Second
}

// StaleTasks returns how many expired tasks of the node an answer counts as current work; -1 if it has no count.
func StaleTasks(c *hop.Case, hop diag.HopID, step string) int {
	n, err := strconv.Atoi(c.Field(hop, step, "node.stale_tasks"))
	if err != nil {
		return -1
	}
	return n
}

// TaskStatus returns the status of the walk's no-op,
// in the words of TaskStates. Any other word is not understood, and is unlisted.
func TaskStatus(c *hop.Case) string {
	word := TaskWord(c)
	if word == "" {
		return ""
	}
	for _, state := range TaskStates {
		if slices.Contains(wordsOf(c, state), word) {
			return state
		}
	}
	return unlisted
}

// unlisted is the status of a task whose word neither the profile nor the reference platform has.
const unlisted = "unlisted"

// TaskWord returns the platform's own word for the status of the walk's no-op, in lower case.
func TaskWord(c *hop.Case) string {
	return strings.ToLower(c.Field(diag.HopNodeTaskRoundtrip, hop.StepTask, "task.status"))
}

// TaskWords returns every word for a status that is understood.
func TaskWords(c *hop.Case) (words []string) {
	for _, state := range TaskStates {
		words = append(words, wordsOf(c, state)...)
	}
	return words
}

// wordsOf returns the platform's words for a state: the profile's, else the reference platform's.
func wordsOf(c *hop.Case, state string) []string {
	if own := c.Expected("task_" + state); own != "" {
		return strings.Split(strings.ToLower(own), ",")
	}
	return []string{state}
}

// TaskClaimed reports whether an agent claimed the walk's no-op.
func TaskClaimed(c *hop.Case) bool {
	return TaskStatus(c) == "dispatched" || !c.Time(diag.HopNodeTaskRoundtrip, hop.StepTask, "task.claimed_at").IsZero()
}

// ResultRefused returns the node's record if the agent wrote there that the post of this task's result was answered
// with an error.
func ResultRefused(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	task := c.Field(diag.HopNodeTaskRoundtrip, hop.StepEnqueue, "task.id")
	record := c.RecordFact()
	if task == "" || !strings.HasPrefix(f.ID, string(diag.HopNodeTaskRoundtrip)) {
		return nil, ""
	}
	for _, e := range slices.Backward(c.HostRecord()) {
		if e.Reason == diag.RecTaskResultPostFailed && e.TaskID == task && e.Status >= 400 {
			return record, fmt.Sprintf("the agent's post of the result of %s was answered HTTP %d", task, e.Status)
		}
	}
	return nil, ""
}
