package agent

import (
	"log/slog"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
)

// Result codes of tasks that were not executed.
const (
	CodeTaskUnverifiable = "task_unverifiable"
	CodeTaskExpired      = "task_expired"
	CodeAgentStopping    = wire.CodeAgentStopping
)

// wait starts a long poll, unless one is in flight, a back-off is running, or the task queue is full.
func (t *turn) wait() {
	l := &t.s.Wait
	room := maxOpen - len(t.s.Running) - len(t.s.Results)
	if t.s.Hold != "" || t.s.Phase != PhaseServing || l.InFlight || l.Armed || room <= 0 {
		return
	}
	if t.s.Unusable || t.s.Ledger.Quarantined.Active() || t.s.Heartbeat.Failing == diag.RecIdentityRevoked {
		return // only the rare heartbeat continues; its success restarts polling
	}
	l.InFlight, l.Began = true, t.ev.At
	t.do(WaitTask{Most: min(room, wire.MaxTasks)})
}

func (t *turn) waitDone(w WaitDone) {
	l := &t.s.Wait
	l.InFlight = false
	if !w.Outcome.OK() {
		if t.stopping() {
			return
		}
		t.s.Counters.PollFailures++
		t.learnClock(w.Outcome)
		t.retry(l, TimerWait, w.Outcome, "")
		t.rejected(w.Outcome, l.Began)
		return
	}
	t.s.Counters.Polls++
	t.recovered(l, TimerWait)
	fresh := w.Task != nil && t.accept(w.Task)
	for i := range w.More {
		fresh = t.accept(&w.More[i]) || fresh
	}
	if early := minPoll - (t.ev.At - l.Began); !fresh && early > 0 && !t.stopping() {
		l.Armed = true
		t.do(SetTimer{TimerWait, early})
	}
	t.wait()
}

// accept executes a task, or refuses it with a result that names the reason. It reports whether the task was new.
func (t *turn) accept(task *wire.Task) bool {
	same := func(r PostResult) bool { return r.TaskID == task.ID }
	switch {
	case slices.Contains(t.s.Running, task.ID), slices.ContainsFunc(t.s.Results, same):
		t.log(slog.LevelWarn, "task handed out again while it is open", slog.String("task_id", task.ID))
		return false
	case slices.ContainsFunc(t.s.Recent, same):
		t.log(slog.LevelWarn, "task handed out again after its result was delivered", slog.String("task_id", task.ID))
		i := slices.IndexFunc(t.s.Recent, same)
		again := t.s.Recent[i]
		t.s.Recent, _ = without(t.s.Recent, same)
		t.queue(again)
		return false
	}
	t.s.Counters.Tasks++
	t.log(slog.LevelInfo, "task received", slog.String("task_id", task.ID), slog.String("type", task.Type),
		slog.String("correlation_id", task.CorrelationID))
	if code, why := t.refusal(task); code != "" {
		t.s.Counters.Refused++
		t.do(Record{Decision{Reason: diag.RecTaskClaimFailed, About: "task", What: "refuse", Code: code, Detail: why,
			Correlation: task.CorrelationID, TaskID: task.ID}})
		t.queue(resultFor(task, failed(t.ev.Wall, task, code, why)))
		return code != CodeTaskUnverifiable // its source is unknown: do not poll for more of them in a tight loop
	}
	if task.Type == wire.TaskCordon {
		t.takeCordon(task)
		return true
	}
	t.s.Running = with(t.s.Running, task.ID)
	t.do(RunTask{Task: *task})
	return true
}

// refusal returns why a task must not be executed: a code and a sentence, or "" if it may.
func (t *turn) refusal(task *wire.Task) (code, why string) {
	if t.stopping() {
		return CodeAgentStopping, "the agent is stopping"
	}
	if err := t.s.Verifiers.Verify(task); err != nil {
		return CodeTaskUnverifiable, err.Error()
	}
	if task.NodeID != t.s.NodeID {
		return CodeTaskUnverifiable, "the task is for node " + task.NodeID
	}
	switch l := t.s.Ledger; {
	case l.Quarantined.Active():
		return wire.CodeNodeQuarantined, "another host may have this node's identity: " + l.Quarantined.Why
	// from a poll that was answered before the denial
	case t.s.Observed.Denied != "" && task.Type == wire.TaskTerminalOpen:
		return wire.EndOfIdentity(t.s.Observed.Denied), "the platform denies this node's identity: " + t.s.Observed.Denied
	case l.Cordoned.Active() && task.Type == wire.TaskTerminalOpen:
		return wire.CodeNodeCordoned, "the node takes no new tenant work: " + l.Cordoned.Why
	}
	if !task.ExpiresAt.IsZero() && !t.ev.Wall.Before(task.ExpiresAt) {
		return CodeTaskExpired, "expired " + t.ev.Wall.Sub(task.ExpiresAt).Round(time.Millisecond).String() + " ago"
	}
	return "", ""
}

func (t *turn) taskFinished(w TaskFinished) {
	running, had := without(t.s.Running, func(id string) bool { return id == w.TaskID })
	if !had {
		return
	}
	t.s.Running = running
	if w.Elsewhere {
		t.wait()
		return
	}
	attrs := []slog.Attr{
		slog.String("task_id", w.TaskID), slog.String("status", w.Result.Status),
		slog.Duration("took", w.Result.FinishedAt.Sub(w.Result.StartedAt).Round(time.Microsecond)),
	}
	correlation := ""
	if e := w.Result.Error; e != nil {
		correlation = e.CorrelationID
		attrs = append(attrs, slog.String("code", e.Code), slog.String("detail", e.Message))
	}
	t.log(slog.LevelInfo, "task finished", attrs...)
	if w.Result.Status != wire.TaskCompleted {
		t.s.Counters.TasksFailed++
	}
	if w.Note != nil {
		t.do(Record{*w.Note})
	}
	if w.Reason != "" {
		d := Decision{Reason: w.Reason, About: "task", What: "report", TaskID: w.TaskID, Correlation: correlation}
		if e := w.Result.Error; e != nil {
			d.Code, d.Detail = e.Code, e.Message
		}
		t.do(Record{d})
	}
	if w.Session {
		t.s.Sessions++
		t.s.Counters.Sessions++
	}
	t.queue(PostResult{TaskID: w.TaskID, Correlation: w.Correlation, Result: w.Result})
	t.wait()
}

func (t *turn) sessionEnded(w SessionEnded) {
	if t.s.Sessions > 0 {
		t.s.Sessions--
	}
	t.log(slog.LevelInfo, "terminal session ended", slog.String("task_id", w.TaskID), slog.String("why", w.Why),
		slog.Duration("lasted", w.Lasted.Round(time.Millisecond)), slog.String("correlation_id", w.Correlation))
}

func (t *turn) queue(r PostResult) {
	t.s.Results = with(t.s.Results, r)
	t.post()
}

// post delivers results: a single one until the platform has taken it, then several concurrently.
func (t *turn) post() {
	l, most := &t.s.Post, 1
	if l.Reported {
		most = maxPosts
	}
	for _, r := range t.s.Results {
		if l.Armed || len(t.s.Posting) >= most {
			return
		}
		if !slices.Contains(t.s.Posting, r.TaskID) {
			t.s.Posting = with(t.s.Posting, r.TaskID)
			l.InFlight, l.Began = true, t.ev.At
			t.do(r)
		}
	}
}

func (t *turn) resultPosted(w ResultPosted) {
	l := &t.s.Post
	t.s.Posting, _ = without(t.s.Posting, func(id string) bool { return id == w.TaskID })
	l.InFlight = len(t.s.Posting) > 0
	is := func(r PostResult) bool { return r.TaskID == w.TaskID }
	i := slices.IndexFunc(t.s.Results, is)
	if i < 0 {
		t.post()
		return
	}
	result := t.s.Results[i]
	rest, _ := without(t.s.Results, is)
	switch o := w.Outcome; {
	case o.OK():
		t.s.Counters.ResultsPosted++
		t.s.Results = rest
		t.remember(result)
		t.delivered(l, o)
		t.recovered(l, TimerPost)
	case o.Final || t.stopping():
		t.s.Counters.ResultFailures++
		t.s.Results, l.Reported = rest, false
		t.remember(result)
		t.do(Record{decision(o, string(TimerPost), "drop", func(d *Decision) {
			d.TaskID, d.Correlation = result.TaskID, result.Correlation
		})})
	default: // start the next attempt with another result: a refused one must not hold up the rest
		t.s.Counters.ResultFailures++
		t.s.Results, l.Reported = with(rest, result), false
		if l.Armed { // a concurrent post failed first
			break
		}
		o.Correlation, o.Slow = result.Correlation, t.s.denied()
		t.retry(l, TimerPost, o, result.TaskID)
	}
	t.post()
	t.wait()
}

// delivered records that the platform takes results: once per start, and once after each failure. The last good
// contact in the record comes from a heartbeat, so without this entry an old failure would look like a current
// one.
func (t *turn) delivered(l *Loop, o Outcome) {
	if l.Reported {
		return
	}
	l.Reported = true
	t.do(Record{Decision{Reason: diag.RecProcessAlive, About: string(TimerPost), What: classify.DecisionDelivered,
		Status: o.Status, Correlation: o.Correlation}})
}

// remember keeps a finished result, so that its task is not executed again.
func (t *turn) remember(r PostResult) {
	t.s.Recent = with(t.s.Recent, r)
	if n := len(t.s.Recent) - maxRecent; n > 0 {
		t.s.Recent = t.s.Recent[n:]
	}
}
