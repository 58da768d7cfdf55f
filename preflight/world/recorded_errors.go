package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// ErrorsOfTask are those about the claim and the result of a task.
func ErrorsOfTask(task func(c *hop.Case) string, codes ...string) *hop.RecordedErrors {
	return &hop.RecordedErrors{Signals: []diag.Signal{diag.SigResultPostFailed, diag.SigTaskClaimFailed}, Task: task,
		Reasons: []diag.RecordReason{diag.RecTaskResultPostFailed, diag.RecTaskClaimFailed}, Codes: codes}
}

// ErrorsOfStream are those about the node's stream of the walk's session.
func ErrorsOfStream(signals ...diag.Signal) *hop.RecordedErrors {
	return &hop.RecordedErrors{Signals: signals, Task: SessionTask,
		Reasons: []diag.RecordReason{diag.RecTerminalStreamFailed},
		Codes:   []string{"node_stream_failed", "node_stream_mtls", "task_"}}
}

// SessionTask is the id of the task that opens the walk's session.
func SessionTask(c *hop.Case) string { return SessionField(c, "session.task_id") }

// AddRecorded adds to a hop's failing findings the error that the node, or else the platform, recorded for that very
// step of this walk: it is closer to the cause than any guess. Without w it adds nothing.
func AddRecorded(w *hop.RecordedErrors, findings []diag.Finding, c *hop.Case) {
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
func findRecorded(w *hop.RecordedErrors, c *hop.Case) (who, words string) {
	task := w.Task(c)
	mine := func(taskID, correlationID string) bool {
		if task != "" && taskID != "" {
			return taskID == task
		}
		return correlationID != "" && correlationID == c.CorrelationID
	}
	for _, e := range slices.Backward(c.HostRecord()) {
		if slices.Contains(w.Reasons, e.Reason) && mine(e.TaskID, e.CorrelationID) {
			if words = EntryWords(e); words != "" {
				return "the agent's record", words
			}
			break
		}
	}
	for i := len(c.Evidence) - 1; i >= 0; i-- {
		l := &c.Evidence[i]
		if l.Error == "" || !mine(l.TaskID, l.CorrelationID) {
			continue
		}
		named := task != "" && l.TaskID == task // any code fits an empty prefix, so the line must name the task
		fits := func(beginning string) bool {
			return strings.HasPrefix(l.Code, beginning) && (beginning != "" || named)
		}
		if slices.ContainsFunc(w.Codes, fits) {
			return "the platform's evidence", reading.OneLine(l.Error)
		}
	}
	return "", ""
}

// EntryWords returns the error of an entry of the record: its text, else its codes.
func EntryWords(e *diag.RecordEntry) string {
	switch {
	case e.Detail != "":
		return reading.OneLine(e.Detail)
	case e.Status != 0:
		return fmt.Sprintf("%s (HTTP %d)", e.Failure, e.Status)
	case e.Code != "":
		return reading.OneLine(e.Code)
	}
	return string(e.Failure)
}

// waitsWithin exceeds an agent's task wait and the pause after it, by default 25 s and at most 30 s.
const waitsWithin = 2 * time.Minute

// CutWait returns the newest entry of the node's record about task waits if it shows that they are cut off: something
// on the path has a shorter time-out than the agent. It is nil if the walk's own task wait was not let in either.
func CutWait(c *hop.Case) *diag.RecordEntry {
	record := c.HostRecord()
	if !reading.Admitted(c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)) {
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
