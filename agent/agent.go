// Package agent is the node agent: it enrolls, sends heartbeats, takes signed tasks and executes them.
//
// One pure function, Step, decides what the agent does next: it has no clock, no randomness and no I/O. Run
// executes the effects that Step returns and feeds their outcomes back as events, so that each decision can be
// tested, replayed and recorded before it takes effect.
//
// The package holds no chaos code and gives no verdicts about the node; the preflight does that. Its caller is
// cmd/gpuaas-agent.
//
// More than 25 files: each task type and each input of a decision has its own file.
package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Decision is what the agent is about to do about a failure, or about itself. It is recorded before it takes
// effect, so that the last entry of a dead agent's record explains why it stopped.
type Decision struct {
	Reason diag.RecordReason
	About  string // heartbeat | task_wait | task_result | task | identity | agent
	// start | enroll | enrolled | renew | retry | suppress | fall_back | quarantine | release | refuse | drop | report |
	// stop
	What        string
	Attempt     int // counts attempts for this reason in this loop, from 1; 0 if nothing is retried
	Delay       time.Duration
	Ceiling     time.Duration // upper bound of the random delay
	Failure     diag.Failure
	Status      int    // HTTP status, 0 without an answer
	Code        string // the platform's or the task's error code
	Detail      string // scrubbed
	Correlation string
	TaskID      string
	Facts       map[string]string // further evidence: digests, endpoints, dates; never a secret
}

// Recorder keeps decisions across restarts. Record returns once the decision is stored. The agent acts on the
// decision even if Record fails.
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

// Outcome is the result of one exchange with the platform. A zero Reason means success.
type Outcome struct {
	Reason      diag.RecordReason
	Failure     diag.Failure
	Status      int
	Code        string        // error.code of the envelope
	Detail      string        // scrubbed
	RetryAfter  time.Duration // requested by the server, 0 if it requested none
	Final       bool          // the platform itself refused this request: do not retry
	Correlation string
	Slow        bool // expensive to retry: use slowRetry instead of the default pace

	Sent  bool          // the request was written, so the server may have acted on it whatever the response was
	Asked bool          // the listener asked for this node's certificate
	Dated bool          // the response carried the platform's time
	Skew  time.Duration // the server's clock minus this one, according to that response
}

// OK reports whether the exchange succeeded.
func (o *Outcome) OK() bool { return o.Reason == "" }

// failed returns a task result that reports code.
func failed(now time.Time, task *wire.Task, code, message string) wire.TaskResult {
	return wire.TaskResult{
		Status: wire.TaskFailed, StartedAt: now, FinishedAt: now,
		Error: &wire.ErrorInfo{Code: code, Message: message, CorrelationID: task.CorrelationID},
	}
}
