package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// errorsOfTask are those about the claim and the result of a task.
func errorsOfTask(task func(c *Case) string, codes ...string) *RecordedErrors {
	return &RecordedErrors{[]diag.Signal{diag.SigResultPostFailed, diag.SigTaskClaimFailed}, task,
		[]diag.RecordReason{diag.RecTaskResultPostFailed, diag.RecTaskClaimFailed}, codes}
}

// errorsOfStream are those about the node's stream of the walk's session.
func errorsOfStream(signals ...diag.Signal) *RecordedErrors {
	return &RecordedErrors{signals, sessionTask, []diag.RecordReason{diag.RecTerminalStreamFailed},
		[]string{"node_stream_failed", "node_stream_mtls", "task_"}}
}

// sessionTask is the id of the task that opens the walk's session.
func sessionTask(c *Case) string { return sessionField(c, "session.task_id") }

// addRecorded adds to a hop's failing findings the error that the node, or else the platform, recorded for that very step of
// this walk: it is closer to the cause than any guess. Without w it adds nothing.
func addRecorded(w *RecordedErrors, findings []diag.Finding, c *Case) {
	explained := func(f diag.Finding) bool {
		return f.Status == diag.StatusFail && slices.Contains(w.Signals, f.Signal)
	}
	if w == nil || !slices.ContainsFunc(findings, explained) {
		return
	}
	who, words := findRecorded(w, c)
	if words == "" {
		return
	}
	for k := range findings {
		if f := &findings[k]; explained(*f) {
			if f.Cause = words; strings.Contains(f.Text, words) {
				continue
			}
			f.Text += fmt.Sprintf("; %s has for this task: %s", who, words)
		}
	}
}

// findRecorded returns the newest error recorded for the task, and its source.
func findRecorded(w *RecordedErrors, c *Case) (who, words string) {
	task := w.Task(c)
	mine := func(taskID, correlationID string) bool {
		if task != "" && taskID != "" {
			return taskID == task
		}
		return correlationID != "" && correlationID == c.correlationID
	}
	for _, e := range slices.Backward(c.hostRecord()) {
		if slices.Contains(w.Reasons, e.Reason) && mine(e.TaskID, e.CorrelationID) {
			if words = entryWords(e); words != "" {
				return "the agent's record", words
			}
			break
		}
	}
	for i := len(c.evidence) - 1; i >= 0; i-- {
		l := &c.evidence[i]
		if l.Error == "" || !mine(l.TaskID, l.CorrelationID) {
			continue
		}
		named := task != "" && l.TaskID == task // any code fits an empty prefix, so the line must name the task
		fits := func(beginning string) bool {
			return strings.HasPrefix(l.Code, beginning) && (beginning != "" || named)
		}
		if slices.ContainsFunc(w.Codes, fits) {
			return "the platform's evidence", oneLine(l.Error)
		}
	}
	return "", ""
}

// entryWords returns the error of an entry of the record: its text, else its codes.
func entryWords(e *diag.RecordEntry) string {
	switch {
	case e.Detail != "":
		return oneLine(e.Detail)
	case e.Status != 0:
		return fmt.Sprintf("%s (HTTP %d)", e.Failure, e.Status)
	case e.Code != "":
		return oneLine(e.Code)
	}
	return string(e.Failure)
}

// waitsWithin exceeds an agent's task wait and the pause after it, by default 25 s and at most 30 s.
const waitsWithin = 2 * time.Minute

// cutWait returns the newest entry of the node's record about task waits if it shows that they are cut off: something
// on the path has a shorter time-out than the agent. It is nil if the walk's own task wait was not let in either.
func cutWait(c *Case) *diag.RecordEntry {
	record := c.hostRecord()
	if !admitted(c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)) {
		return nil
	}
	for _, e := range slices.Backward(record) {
		if e.About != "task_wait" {
			continue
		}
		last := record[len(record)-1]
		if e.Reason == diag.RecTaskPollFailed && (e.Status == 0 || e.Status >= 500) && e.BootID == last.BootID &&
			last.At.Sub(e.At.Time) < waitsWithin {
			return e
		}
		break
	}
	return nil
}
