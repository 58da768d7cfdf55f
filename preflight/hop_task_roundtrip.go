package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	stepEnqueue = "enqueue"
	stepTask    = "task"

	// noopTTL is how long the platform may keep the no-op before it is history: a little more than we wait.
	noopTTL = 15 * time.Second
	// taskPollEvery is short against any round trip that people notice, and long against the platform's store.
	taskPollEvery = 60 * time.Millisecond
)

// taskStates are the words for a task's status that the judges know. Another one says neither that a task was claimed
// nor that it was not.
var taskStates = [...]string{"queued", "dispatched", "completed", "failed", "expired"}

// nodeTaskRoundtrip: does a typed no-op reach the agent, run, and come back?
func nodeTaskRoundtrip() Hop {
	id := diag.HopNodeTaskRoundtrip
	paths, fields := []string{profile.PathNodeTasks, profile.PathTask}, []string{"task.id", "task.status"}
	return Hop{
		ID: id, Title: "node claims and answers a task", Layer: diag.LayerManagement, Budget: 10 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Steps: []Step{
			{
				Name: stepEnqueue, From: Operator, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopControlPlaneAccess},
				Paths: paths, Fields: fields, Ask: enqueueNoop, // a task that could not be read again is not enqueued
			},
			{
				Name: stepTask, From: Operator, Timeout: 6 * time.Second, Needs: []diag.HopID{diag.HopControlPlaneAccess},
				Paths: paths, Fields: fields, After: []string{factID(id, stepEnqueue)},
				When: func(c *Case) string {
					if c.Field(id, stepEnqueue, "task.id") == "" {
						return "no task was enqueued"
					}
					return ""
				},
				Ask: func(e *Env, c *Case) diag.Request {
					req := e.api("GET", profile.PathTask, map[string]string{"task_id": c.Field(id, stepEnqueue, "task.id")},
						"task.status", "task.queued_at", "task.claimed_at", "task.completed_at", "task.error_code")
					req.Poll = &diag.Poll{Field: "task.status", Until: []string{"completed", "failed", "expired"}, EveryMS: taskPollEvery.Milliseconds()}
					return req
				},
			},
		},
		Judge: judgeRoundtrip,
		Pass: func(c *Case) string {
			q, d := c.Time(id, stepTask, "task.queued_at"), c.Time(id, stepTask, "task.completed_at")
			if q.IsZero() || d.IsZero() {
				return "a no-op came back"
			}
			return fmt.Sprintf("a no-op came back in %d ms", max(1, d.Sub(q).Milliseconds()))
		},
	}
}

func enqueueNoop(e *Env, _ *Case) diag.Request {
	req := e.api("POST", profile.PathNodeTasks, nil, "task.id")
	body, err := json.Marshal(map[string]any{
		"type": "noop", "payload": map[string]any{}, "ttl_seconds": int(noopTTL.Seconds()), "correlation_id": e.CorrelationID,
	})
	if err == nil {
		req.Body = string(body)
	}
	return req
}

func judgeRoundtrip(c *Case) []diag.Finding {
	id := diag.HopNodeTaskRoundtrip
	put, got := c.Fact(id, stepEnqueue), c.Fact(id, stepTask)
	if put != nil && c.Field(id, stepEnqueue, "task.id") == "" {
		return []diag.Finding{undecided(put, "the platform took no task: %s", saw(put))}
	}
	if got == nil {
		return nil
	}
	st := c.Field(id, stepTask, "task.status")
	claimed := st == "dispatched" || !c.Time(id, stepTask, "task.claimed_at").IsZero()
	switch {
	case st == "":
		return []diag.Finding{undecided(got, "the task could not be read: %s", saw(got))}
	case !slices.Contains(taskStates[:], st):
		return []diag.Finding{unknownWord(got, "the no-op's status", st, taskStates[:])}
	case st == "failed":
		why := c.Field(id, stepTask, "task.error_code")
		f := fail(diag.SigTaskClaimFailed, got, "the agent refused the no-op: %s", orUnknown(why))
		f.Direct = true // it answered, so nothing before it is broken
		return []diag.Finding{f}
	case st != "completed" && !claimed && unasked(got, "task.claimed_at"):
		return []diag.Finding{undecided(got, "the no-op is %s after %d ms, and this platform does not report node claims", st,
			got.DurationMS)}
	case st != "completed" && claimed:
		return []diag.Finding{observed(diag.SigResultPostFailed, got, "the agent claimed the no-op, and its result never came (task is %s after %d ms)", st, got.DurationMS)}
	case st != "completed":
		f := observed(diag.SigTaskClaimFailed, got, "nobody claimed the no-op (task is %s after %d ms)", st, got.DurationMS)
		f.Reason = unclaimed(c)
		if silentNode(c) {
			f.Culprit = culpritSilentNode
		}
		return []diag.Finding{f}
	}
	stale := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if n, err := strconv.Atoi(c.Field(diag.HopNodeHeartbeat, stepReadModel, "node.stale_tasks")); err == nil && n > 0 && stale != nil {
		f := fail(diag.SigTaskBacklogStale, stale, "%d expired tasks still count as current work", n)
		f.Direct = true
		return []diag.Finding{f}
	}
	return nil
}

// unclaimed is the reason behind a task that nobody claimed: the agent's version where that is known to differ. An
// agent that refuses a task says so; one that does not come for it says nothing of its version.
func unclaimed(c *Case) diag.ReasonCode {
	have, want := readModel(c, "agent_version"), readModel(c, "agent_desired_version")
	if have != "" && want != "" && !diag.SameVersion(have, want) && !silentNode(c) {
		return diag.ReasonAgentVersionDrift
	}
	return diag.ReasonNodeAgentUnreachable
}

// observed is a finding from an answer that says what is wrong: that the poll for another one timed out is no failure.
func observed(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	out := fail(sig, f, format, args...)
	out.Failure = diag.OK
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}
