package agent

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Durations that Step uses.
const (
	summaryEvery = time.Minute // one summary line shows that all is well; successes are not logged individually
	stopGrace    = 1200 * time.Millisecond
	minPoll      = time.Second      // pause for a platform that answers "none" at once
	maxSkew      = 30 * time.Second // with more skew, dates of certificates are misjudged
)

// Step decides what to do about one event. It is pure: the same state and event give the same result, and its
// argument is not modified. After Exit it returns no more effects.
func Step(s State, ev Event) (State, []Effect) {
	if s.Phase == PhaseExited {
		return s, nil
	}
	t := turn{s: s, ev: ev}
	switch w := ev.What.(type) {
	case Started:
		t.started()
	case IdentityChecked:
		t.identityChecked(w)
	case ClockAsked:
		t.clockAsked(w.Outcome)
	case FellBack:
		t.fellBack(w.Outcome)
	case EnrollDone:
		t.enrollDone(w)
	case HeartbeatDone:
		t.heartbeatDone(w)
	case WaitDone:
		t.waitDone(w)
	case TaskFinished:
		t.taskFinished(w)
	case SessionEnded:
		t.sessionEnded(w)
	case ResultPosted:
		t.resultPosted(w)
	case TimerFired:
		t.timerFired(w.Timer)
	case Shutdown:
		t.shutdown(w)
	}
	t.filesChanged()
	t.exitWhenDone()
	return t.s, t.out
}

// turn is the state of one call of Step.
type turn struct {
	s   State
	ev  Event
	out []Effect
}

func (t *turn) do(e Effect) { t.out = append(t.out, e) }

func (t *turn) log(level slog.Level, msg string, attrs ...slog.Attr) {
	t.do(Log{Level: level, Message: msg, Attrs: attrs})
}

// retry records the decision to retry l, then sets its timer.
func (t *turn) retry(l *Loop, timer Timer, o Outcome, taskID string) {
	if l.Failing != o.Reason {
		l.Since = t.ev.At
	}
	next, attempt, delay, ceiling := l.Backoff.Failed(o, t.s.Interval, t.ev.Roll)
	l.Backoff, l.Failing, l.Armed = next, o.Reason, true
	t.do(Record{decision(o, string(timer), "retry", func(d *Decision) {
		d.Attempt, d.Delay, d.Ceiling, d.TaskID = attempt, delay, ceiling, taskID
	})})
	t.do(SetTimer{Timer: timer, In: delay})
}

func decision(o Outcome, about, what string, more func(*Decision)) Decision {
	d := Decision{
		Reason: o.Reason, About: about, What: what, Failure: o.Failure, Status: o.Status,
		Code: o.Code, Detail: o.Detail, Correlation: o.Correlation,
	}
	if more != nil {
		more(&d)
	}
	return d
}

// recovered logs once that a loop works again.
func (t *turn) recovered(l *Loop, name Timer) {
	if l.Failing != "" {
		t.log(slog.LevelInfo, string(name)+" works again", slog.String("after", string(l.Failing)))
	}
	l.Failing = ""
	l.Backoff = l.Backoff.Succeeded(t.ev.At, stableIntervals*t.s.Interval)
}

func (t *turn) stopping() bool { return t.s.Phase == PhaseStopping }

func (t *turn) started() {
	if t.s.Phase != PhaseNew {
		return
	}
	t.s.Phase, t.s.Kept = PhaseIdentity, t.s.Ledger.Counters
	t.do(Record{Decision{Reason: diag.RecProcessAlive, About: "agent", What: "start"}})
	for _, note := range t.s.Ledger.Notes {
		t.do(Record{note})
	}
	if t.s.Ledger.Notes != nil {
		t.s.Ledger.Notes = nil
		t.save()
	}
	t.do(SetTimer{TimerSummary, summaryEvery})
	t.checkIdentity()
}

func (t *turn) heartbeat() {
	l := &t.s.Heartbeat
	if l.InFlight || t.s.Unusable || (t.s.Phase != PhaseGate && t.s.Phase != PhaseServing) {
		return
	}
	l.InFlight, l.Armed, l.Began = true, false, t.ev.At
	t.do(SendHeartbeat{Counters: t.s.counters(), Posture: t.s.Posture(), Profile: t.profile(), Challenge: t.s.Challenge})
}

func (t *turn) heartbeatDone(w HeartbeatDone) {
	l := &t.s.Heartbeat
	l.InFlight = false
	if w.Outcome.OK() {
		t.s.Counters.Heartbeats++
	} else {
		t.s.Counters.HeartbeatFailures++
	}
	if t.stopping() {
		return
	}
	t.learnClock(w.Outcome)
	if w.Outcome.OK() {
		t.recovered(l, TimerHeartbeat)
		t.skew(w.Skew)
		t.accepted(l.Began)
		t.nextHeartbeat(w)
	} else {
		t.retry(l, TimerHeartbeat, w.Outcome, "")
		t.rejected(w.Outcome, l.Began)
	}
	if t.s.Phase == PhaseGate { // an unreachable platform must not keep the gate closed for ever
		t.s.Phase = PhaseServing
		t.log(slog.LevelInfo, "taking tasks")
	}
	t.wait()
}

// nextHeartbeat stores the response's challenge and sets the timer for the next heartbeat: now, if the platform
// wants the echo at once. Two immediate echoes never follow each other, so that the platform cannot set this
// node's pace.
func (t *turn) nextHeartbeat(w HeartbeatDone) {
	s, l := &t.s, &t.s.Heartbeat
	s.Challenge = cmp.Or(w.Challenge, s.Challenge)
	l.Armed = true
	if s.Prompt = w.EchoNow && w.Challenge != "" && !s.Prompt; s.Prompt {
		t.do(SetTimer{TimerHeartbeat, 0})
		return
	}
	// Up to a tenth earlier, so that nodes that started together drift apart.
	t.do(SetTimer{TimerHeartbeat, s.Interval - time.Duration(t.ev.Roll*float64(s.Interval)/10)})
}

// skew records a wrong clock once, and its correction once.
func (t *turn) skew(d time.Duration) {
	off := d.Abs() > maxSkew
	if off == t.s.Skewed {
		return
	}
	t.s.Skewed = off
	if off {
		t.do(Record{Decision{Reason: diag.RecClockSkew, About: "agent", What: "report", Failure: diag.ClockSkew,
			Detail: "the platform's clock minus this one: " + d.Round(time.Millisecond).String()}})
		return
	}
	t.log(slog.LevelInfo, "the clock agrees with the platform's again")
}

func (t *turn) timerFired(timer Timer) {
	switch timer {
	case TimerIdentity, TimerRenew:
		t.checkIdentity()
	case TimerWatch: // the event already carries the files' stamp
		if t.s.Identity.Armed && !t.stopping() {
			t.do(SetTimer{TimerWatch, t.s.Interval})
		}
	case TimerHeartbeat:
		t.s.Heartbeat.Armed = false
		t.heartbeat()
	case TimerWait:
		t.s.Wait.Armed = false
		t.wait()
	case TimerPost:
		t.s.Post.Armed = false
		t.post()
	case TimerSummary:
		t.summary()
	case TimerGrace:
		if t.stopping() {
			t.exit()
		}
	}
}

func (t *turn) summary() {
	if t.stopping() {
		return
	}
	now, then := t.s.Counters, t.s.Said
	t.s.Said = now
	t.log(slog.LevelInfo, "summary", slog.String("phase", string(t.s.Phase)),
		slog.String("heartbeats", rate(now.Heartbeats-then.Heartbeats, now.HeartbeatFailures-then.HeartbeatFailures)),
		slog.String("polls", rate(now.Polls-then.Polls, now.PollFailures-then.PollFailures)),
		slog.String("posture", t.s.Posture()), slog.Int64("tasks", now.Tasks-then.Tasks),
		slog.Int("running", len(t.s.Running)), slog.Int("sessions", t.s.Sessions),
		slog.Int("results_waiting", len(t.s.Results)))
	t.do(t.metrics())
	t.saveCounts()
	t.do(SetTimer{TimerSummary, summaryEvery})
}

func rate(good, bad int64) string {
	return strconv.FormatInt(good, 10) + " ok, " + strconv.FormatInt(bad, 10) + " failed"
}

func (t *turn) shutdown(w Shutdown) {
	if t.stopping() {
		return
	}
	t.s.Phase = PhaseStopping
	t.do(Record{Decision{Reason: diag.RecShutdown, About: "agent", What: "stop", Detail: w.Why}})
	t.saveCounts()
	t.do(CancelWork{})
	t.do(SetTimer{TimerGrace, t.s.Grace})
	t.s.Post.Armed = false
	t.post()
}

func (t *turn) exitWhenDone() {
	s := &t.s
	if s.Phase == PhaseStopping && len(s.Running) == 0 && len(s.Results) == 0 && s.Sessions == 0 &&
		!s.Wait.InFlight && !s.Heartbeat.InFlight && !s.Identity.InFlight && !s.Post.InFlight {
		t.exit()
	}
}

func (t *turn) exit() {
	t.log(slog.LevelInfo, "stopped", slog.Int("results_lost", len(t.s.Results)),
		slog.Int("tasks_cut", len(t.s.Running)), slog.Int("sessions_cut", t.s.Sessions))
	t.s.Phase = PhaseExited
	t.do(Exit{})
}

// without returns s minus the first element for which is returns true. It never shares memory with s.
func without[T any](s []T, is func(T) bool) ([]T, bool) {
	i := slices.IndexFunc(s, is)
	if i < 0 {
		return s, false
	}
	return slices.Delete(slices.Clone(s), i, i+1), true
}

// with returns s with v appended. It never shares memory with s.
func with[T any](s []T, v T) []T { return append(slices.Clip(slices.Clone(s)), v) }

// resultFor returns the effect that delivers result.
func resultFor(task *wire.Task, result wire.TaskResult) PostResult {
	return PostResult{TaskID: task.ID, Correlation: task.CorrelationID, Result: result}
}
