package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// roundtripBudget is the hop's own budget; a profile may give it more.
	roundtripBudget = 10 * time.Second
	// noopGrace is how long the no-op outlives the hop's budget before it expires.
	noopGrace = 5 * time.Second
)

// nodeTaskRoundtrip: does a typed no-op reach the agent, run, and come back?
func nodeTaskRoundtrip() Hop {
	id := diag.HopNodeTaskRoundtrip
	paths, fields := []string{profile.PathNodeTasks, profile.PathTask}, []string{"task.id", "task.status"}
	return Hop{
		ID: id, Budget: roundtripBudget,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Writes:      true,
		Recorded:    errorsOfTask(func(c *Case) string { return c.Field(id, stepEnqueue, "task.id") }, ""),
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request to enqueue or read the no-op"},
		OfNode: func(c *Case) bool { return agentAnswered(c) != "" },
		Steps: []Step{
			{
				Name: stepEnqueue, From: Operator, Token: true, Changes: true, Timeout: 4 * time.Second,
				Needs: []diag.HopID{diag.HopControlPlaneAccess},
				Paths: paths, Fields: fields, Ask: enqueueNoop, // a task that could not be read again is not enqueued
			},
			{
				Name: stepTask, From: Operator, Token: true, Timeout: 6 * time.Second,
				Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: paths, Fields: fields,
				After: []string{factID(id, stepEnqueue)}, When: func(c *Case) string {
					if c.Field(id, stepEnqueue, "task.id") == "" {
						return "no task was enqueued"
					}
					return ""
				},
				Ask: func(e *Env, c *Case) diag.Request {
					req := e.api("GET", profile.PathTask, map[string]string{"task_id": c.Field(id, stepEnqueue, "task.id")},
						"task.status", "task.queued_at", "task.claimed_at", "task.completed_at", "task.error_code")
					req.Poll = &diag.Poll{Field: "task.status", Until: []string{"completed", "failed", "expired"},
						EveryMS: taskPollEvery.Milliseconds()}
					return req
				},
			},
			{
				Name: stepRecordAfter, From: Node, Timeout: 3 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
				Optional: true, Second: true, NotThere: keepsRecord, Ask: readRecord,
				Fields: fields, After: []string{factID(id, stepTask)}, Unless: func(c *Case) string {
					if resultLate(c) {
						return ""
					}
					return "the task's result came, or no agent claimed it"
				},
			},
			{
				Name: stepBacklogAfter, From: Operator, Token: true, Timeout: sweepWithin,
				Needs:    []diag.HopID{diag.HopControlPlaneAccess},
				Optional: true, Second: true, Paths: []string{profile.PathNode}, Fields: []string{"node.stale_tasks"},
				After: []string{factID(id, stepTask), factID(diag.HopNodeHeartbeat, stepReadModel)}, Unless: func(c *Case) string {
					if lookedAgain(c) {
						return ""
					}
					return "no expired task counted as current work"
				},
				Ask: func(e *Env, _ *Case) diag.Request {
					req := e.api("GET", profile.PathNode, nil, backlogFields[:]...)
					req.Poll = &diag.Poll{Field: "node.stale_tasks", Until: []string{"0"}, EveryMS: 10 * taskPollEvery.Milliseconds()}
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
	ttl := budget(e.Profile, &Hop{ID: diag.HopNodeTaskRoundtrip, Budget: roundtripBudget}) + noopGrace
	body, err := json.Marshal(map[string]any{
		"type": "noop", "payload": map[string]any{}, "ttl_seconds": int(ttl.Seconds()), "correlation_id": e.CorrelationID,
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
		return []diag.Finding{notTaken(put)}
	}
	if got == nil {
		return nil
	}
	st, claimed, why := taskStatus(c), taskClaimed(c), c.Field(id, stepTask, "task.error_code")
	switch {
	case st == "":
		return []diag.Finding{undecided(got, "the task could not be read: %s", saw(got))}
	case !slices.Contains(taskStates[:], st):
		return []diag.Finding{unknownWord(got, "the no-op's status", st, taskStates[:])}
	case st == "failed":
		return []diag.Finding{refusedNoop(c, got, why)}
	case st != "completed" && st != "expired" && !waitedFor(got):
		return []diag.Finding{undecided(got, "the no-op was %s; its outcome could not be read: %s", st, saw(got))}
	case st != "completed" && !claimed && unasked(got, "task.claimed_at"):
		return []diag.Finding{undecided(got, "the no-op is %s after %d ms, and this platform does not report node claims", st,
			got.DurationMS)}
	case st != "completed" && claimed:
		return []diag.Finding{observed(diag.SigResultPostFailed, got,
			"the agent claimed the no-op, but its result has not arrived (%s)", taskAfter(st, got))}
	case st != "completed":
		f := observed(diag.SigTaskClaimFailed, got, "no agent claimed the no-op (%s)", taskAfter(st, got))
		locateUnclaimed(c, &f)
		return []diag.Finding{f}
	}
	return judgeBacklog(c)
}

// notTaken is the finding for a task that the platform did not accept.
func notTaken(put *diag.Fact) diag.Finding {
	switch {
	case foreignPage(put):
		return undecided(put, "no task was taken: %s in place of the platform's: nothing of the platform is in it",
			pageFrom(put))
	case redirects(put):
		return redirected(put)
	}
	return undecided(put, "the platform took no task: %s%s", saw(put), signer(put))
}

// judgeBacklog judges expired tasks that the platform still counts as current work after a sweep was due. A report from
// before the second reading existed has only the first one.
func judgeBacklog(c *Case) []diag.Finding {
	hop, step := diag.HopNodeHeartbeat, stepReadModel
	first := staleTasks(c, hop, step)
	if first <= 0 {
		return nil
	}
	if lookedAgain(c) {
		hop, step = diag.HopNodeTaskRoundtrip, stepBacklogAfter
		switch n := staleTasks(c, hop, step); {
		case n < 0, n > 0 && !waitedFor(c.Fact(hop, step)):
			return []diag.Finding{undecided(c.Fact(diag.HopNodeHeartbeat, stepReadModel), "%d expired tasks counted as current "+
				"work; whether the next sweep removed them is not known", first)}
		case n == 0:
			return nil
		case !sweptSince(c):
			return []diag.Finding{warn(diag.SigTaskBacklogStale, c.Fact(hop, step), "%d expired tasks count as current work; "+
				"this platform sweeps every %s: walk again after that", n, sweepInterval(c))}
		}
	}
	f := observed(diag.SigTaskBacklogStale, c.Fact(hop, step), "%d expired tasks still count as current work",
		staleTasks(c, hop, step))
	f.Direct = true
	return []diag.Finding{f}
}

// resultLate reports whether the agent claimed the no-op, and its result has not come.
func resultLate(c *Case) bool {
	switch taskStatus(c) {
	case "dispatched", "queued", "expired":
		return taskClaimed(c)
	}
	return false
}
