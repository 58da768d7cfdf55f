// Package agent is the node agent: it enrolls, reports that it is alive, takes signed tasks and executes them.
//
// What it does next is decided by one pure function, Step: no clock, no randomness, no I/O. Run executes the effects
// that Step asks for and feeds back what came of them. So a decision can be tested, replayed and written down before
// it takes effect.
//
// It holds no chaos code and gives no verdicts about the node; the preflight does that. Its caller is
// cmd/gpuaas-agent.
//
// More than 25 files: each type of task has its own, and so has each thing that a decision is made of.
package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Decision is what the agent is about to do about something that went wrong, or about itself. It is recorded before
// it takes effect, so that the last one written explains why the agent did nothing more.
type Decision struct {
	Reason diag.RecordReason
	About  string // heartbeat | task_wait | task_result | task | identity | agent
	// start | enroll | enrolled | renew | retry | suppress | fall_back | quarantine | release | refuse | drop | report |
	// stop
	What        string
	Attempt     int // of this reason in this loop, from 1; 0 where nothing is retried
	Delay       time.Duration
	Ceiling     time.Duration // the delay was drawn below this
	Failure     diag.Failure
	Status      int    // HTTP status, 0 without an answer
	Code        string // the platform's or the task's error code
	Detail      string // scrubbed
	Correlation string
	TaskID      string
	Facts       map[string]string // further evidence: digests, endpoints, dates; never a secret
}

// Recorder keeps decisions where they survive. Record returns once the decision is kept; the decision is acted upon
// also when it could not be.
type Recorder interface {
	Record(Decision) error
}

// LogRecorder writes decisions to the operational log, which journald keeps.
type LogRecorder struct{ Log *slog.Logger }

// Record implements Recorder.
func (r LogRecorder) Record(d Decision) error {
	level := slog.LevelWarn
	if d.Failure == diag.OK && d.Attempt == 0 && d.Code == "" {
		level = slog.LevelInfo
	}
	r.Log.LogAttrs(context.Background(), level, "decision", d.attrs()...)
	return nil
}

func (d Decision) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("reason", string(d.Reason)), slog.String("about", d.About), slog.String("decision", d.What),
	}
	add := func(key, v string) {
		if v != "" {
			attrs = append(attrs, slog.String(key, v))
		}
	}
	if d.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", d.Attempt), slog.Duration("delay", d.Delay.Round(time.Millisecond)),
			slog.Duration("ceiling", d.Ceiling))
	}
	add("failure", string(d.Failure))
	if d.Status != 0 {
		attrs = append(attrs, slog.Int("status", d.Status))
	}
	add("code", d.Code)
	add("detail", d.Detail)
	add("correlation_id", d.Correlation)
	add("task_id", d.TaskID)
	return attrs
}

// Outcome is what came of one exchange. A zero Reason means that it went well.
type Outcome struct {
	Reason      diag.RecordReason
	Failure     diag.Failure
	Status      int
	Code        string        // error.code of the envelope
	Detail      string        // scrubbed
	RetryAfter  time.Duration // what the far side asked for, 0 when it did not
	Final       bool          // the platform itself refused this very request: asking again cannot help
	Correlation string
	Slow        bool // asking for it is dear: not at the pace of what recovers by itself

	Sent  bool          // the request was written: the far side may have acted on it, whatever came back
	Asked bool          // the listener asked for this node's certificate
	Dated bool          // an answer came with the platform's time
	Skew  time.Duration // the far side's clock minus this one, by that answer
}

// OK reports whether it went well.
func (o *Outcome) OK() bool { return o.Reason == "" }

// failed builds a task result that reports code.
func failed(now time.Time, task *wire.Task, code, message string) wire.TaskResult {
	return wire.TaskResult{
		Status: wire.TaskFailed, StartedAt: now, FinishedAt: now,
		Error: &wire.ErrorInfo{Code: code, Message: message, CorrelationID: task.CorrelationID},
	}
}
