package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxCause bounds what a finding quotes, in runes: the end of an error is its most specific part, so that is kept.
const maxCause = 200

// ownRow reports which of the words that node and platform wrote down about this walk belong to a hop's findings.
type ownRow struct {
	hop     diag.HopID
	signals []diag.Signal // of the findings that they explain
	task    func(c *Case) string
	reasons []diag.RecordReason // of the agent's record
	// beginnings of error codes in the platform's evidence; the gateway's own time-out does not count as a cause
	codes []string
}

// ownRows has a row for every hop whose step is a task under the walk's own id.
var ownRows = func() []ownRow {
	session := func(c *Case) string { return sessionField(c, "session.task_id") }
	noop := func(c *Case) string { return c.Field(diag.HopNodeTaskRoundtrip, stepEnqueue, "task.id") }
	posts := []diag.RecordReason{diag.RecTaskResultPostFailed, diag.RecTaskClaimFailed}
	tasks := []diag.Signal{diag.SigResultPostFailed, diag.SigTaskClaimFailed}
	stream := []diag.RecordReason{diag.RecTerminalStreamFailed}
	pty := []diag.RecordReason{diag.RecTerminalPTYFailed}
	noStream := []string{"node_stream_failed", "node_stream_mtls", "task_"}
	return []ownRow{
		{diag.HopNodeTaskRoundtrip, tasks, noop, posts, []string{""}},
		{diag.HopBrowserTerminalWS, []diag.Signal{diag.SigNodeStreamTimeout, diag.SigConnectingStuck}, session, stream,
			noStream},
		{diag.HopTerminalOpenTask, tasks, session, posts, []string{"task_"}},
		{diag.HopGatewayNodeStream, []diag.Signal{diag.SigOpenWithoutStream, diag.SigNodeStreamMTLS}, session, stream,
			noStream},
		{diag.HopTerminalStartup, []diag.Signal{diag.SigPTYFailed}, session, pty, []string{"pty_", "user_", "task_"}},
	}
}()

// withOwnWords adds to a hop's failing findings the error that the node, or else the platform, wrote down for that very
// step of this walk: it is nearer to the cause than any guess.
func withOwnWords(c *Case, hop diag.HopID, findings []diag.Finding) {
	i := slices.IndexFunc(ownRows, func(r ownRow) bool { return r.hop == hop })
	if i < 0 {
		return
	}
	explained := func(f diag.Finding) bool {
		return f.Status == diag.StatusFail && slices.Contains(ownRows[i].signals, f.Signal)
	}
	if !slices.ContainsFunc(findings, explained) {
		return
	}
	who, words := ownRows[i].words(c)
	if words == "" {
		return
	}
	for k := range findings {
		if f := &findings[k]; explained(*f) {
			if f.Cause = words; strings.Contains(f.Text, words) {
				continue
			}
			f.Text += fmt.Sprintf("; %s says about this task: %s", who, words)
		}
	}
}

// words is who wrote down an error for the row's task, and that error; the newest one.
func (r *ownRow) words(c *Case) (who, words string) {
	task := r.task(c)
	mine := func(taskID, correlationID string) bool {
		if task != "" && taskID != "" {
			return taskID == task
		}
		return correlationID != "" && correlationID == c.correlationID
	}
	for _, e := range slices.Backward(c.hostRecord()) {
		if slices.Contains(r.reasons, e.Reason) && mine(e.TaskID, e.CorrelationID) {
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
		named := task != "" && l.TaskID == task // a line of any code must name the task: the walk has more than one
		fits := func(beginning string) bool {
			return strings.HasPrefix(l.Code, beginning) && (beginning != "" || named)
		}
		if slices.ContainsFunc(r.codes, fits) {
			return "the platform's evidence", oneLine(l.Error)
		}
	}
	return "", ""
}

// entryWords is the error of an entry of the record: its own words, else its codes.
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

// waitsWithin is longer than an agent's task wait and the pause after it, which are 25 s and at most 30 s by default.
const waitsWithin = 2 * time.Minute

// cutWait is the newest word of the node's record on its task waits where that is that they are cut off: what is on the
// way waits less for an answer than the agent for a task. It is nil where the walk's own wait was not let in either.
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

// oneLine is text on one line of bounded length, without characters that a terminal obeys or that change how others
// read.
func oneLine(text string) string {
	obeyed := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }
	if len(text) <= maxCause && !strings.ContainsFunc(text, obeyed) {
		return text
	}
	text = strings.Join(strings.FieldsFunc(text, obeyed), " ")
	if runes := []rune(text); len(runes) > maxCause {
		return "..." + string(runes[len(runes)-maxCause+3:])
	}
	return text
}
