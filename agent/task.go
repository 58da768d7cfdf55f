package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Result codes of tasks that were executed and failed, in addition to those of package wire.
const (
	CodeTaskUnsupported = "task_unsupported"
	CodeTaskInvalid     = "task_invalid"
	CodeTaskTimeout     = "task_timeout"
	CodeTaskInternal    = "task_internal"
)

// maxOutput bounds a result's output in bytes; longer output is reported as a failure and never truncated.
const maxOutput = 1 << 20

// runner executes one type of task. It returns an output to marshal and, if a session continues after the task, a
// function that is called once the result was handed over and returns why the session ended.
type runner func(ctx context.Context, r *runtime,
	task *wire.Task) (output any, after func(context.Context) string, err error)

// runners maps every task type that this agent executes to its runner.
var runners = map[string]runner{
	wire.TaskNoop:         runNoop,
	wire.TaskProbe:        runProbe,
	wire.TaskStatusProbe:  runStatusProbe,
	wire.TaskTerminalOpen: runTerminalOpen,
	wire.TaskCleanup:      runCleanup,
	wire.TaskSelfUpdate:   runSelfUpdate,
	wire.TaskRotateToken:  runRotateToken,
}

// taskError is a failure with a code for the platform and, if the record has one, a reason.
type taskError struct {
	code   string
	reason diag.RecordReason
	err    error
}

func (e *taskError) Error() string { return e.err.Error() }
func (e *taskError) Unwrap() error { return e.err }

// runTask executes one task and feeds back its result, then the end of its session, if any.
func (r *runtime) runTask(task wire.Task) {
	started := time.Now()
	output, after, err := r.guarded(&task)
	if errors.Is(err, errElsewhere) {
		r.feed(TaskFinished{TaskID: task.ID, Correlation: task.CorrelationID, Elsewhere: true})
		return
	}
	if task.Type == wire.TaskNoop && err == nil {
		r.observe(wire.ProbeNoop, Outcome{})
	}
	finished := TaskFinished{TaskID: task.ID, Correlation: task.CorrelationID, Session: after != nil,
		Note: recordEntry(&task, output)}
	finished.Result, finished.Reason = taskResult(&task, started, output, err)
	r.feed(finished)
	if after == nil {
		return
	}
	began := time.Now()
	why := after(r.work)
	r.feed(SessionEnded{TaskID: task.ID, Correlation: task.CorrelationID, Why: why, Lasted: time.Since(began)})
}

// guarded runs the task's runner until the task expires. A runner that panics fails its task, not the agent.
func (r *runtime) guarded(task *wire.Task) (output any, after func(context.Context) string, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Log.Error("task panicked", "task_id", task.ID, "type", task.Type, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			after, err = nil, &taskError{code: CodeTaskInternal, err: fmt.Errorf("the agent failed: %v", p)}
		}
	}()
	run, ok := runners[task.Type]
	if !ok {
		return nil, nil, &taskError{code: CodeTaskUnsupported, err: fmt.Errorf("this agent has no task %q", task.Type)}
	}
	ctx := r.work
	if !task.ExpiresAt.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, task.ExpiresAt)
		defer cancel()
	}
	return run(ctx, r, task)
}

// taskResult converts a runner's return values to the result to post.
func taskResult(task *wire.Task, started time.Time, output any, err error) (wire.TaskResult, diag.RecordReason) {
	res := wire.TaskResult{Status: wire.TaskCompleted, StartedAt: started.UTC(), FinishedAt: time.Now().UTC()}
	if err == nil && output != nil {
		res.Output, err = json.Marshal(output)
		if err == nil && len(res.Output) > maxOutput {
			err = fmt.Errorf("the output has %d bytes, more than %d", len(res.Output), maxOutput)
		}
	}
	if err == nil {
		return res, ""
	}
	e := &taskError{code: CodeTaskInternal, err: err}
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		e.code = CodeAgentStopping
	case errors.Is(err, context.DeadlineExceeded):
		e.code = CodeTaskTimeout
	}
	res.Status, res.Output = wire.TaskFailed, nil
	res.Error = &wire.ErrorInfo{Code: e.code, Message: scrubbed(e), CorrelationID: task.CorrelationID}
	return res, e.reason
}

// payload decodes a task's payload; without one, v is unchanged.
func payload(task *wire.Task, v any) error {
	if len(task.Payload) == 0 {
		return nil
	}
	if err := bounded.Unmarshal(task.Payload, v, bounded.Answer()); err != nil {
		return &taskError{code: CodeTaskInvalid, err: fmt.Errorf("payload of %s: %w", task.Type, err)}
	}
	return nil
}

// runNoop runs for as long as the payload asks for.
func runNoop(ctx context.Context, _ *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.NoopPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	timer := time.NewTimer(time.Duration(p.HoldMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, nil, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}
