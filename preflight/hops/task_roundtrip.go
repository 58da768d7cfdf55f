package hops

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// roundtripBudget is the hop's own budget; a profile may give it more.
	roundtripBudget = 10 * time.Second
	// noopGrace is how long the no-op outlives the hop's budget before it expires.
	noopGrace = 5 * time.Second
)

// nodeTaskRoundtrip: does a typed no-op reach the agent, run, and come back?
func nodeTaskRoundtrip() hop.Hop {
	id := diag.HopNodeTaskRoundtrip
	paths, fields := []string{profile.PathNodeTasks, profile.PathTask}, []string{"task.id", "task.status"}
	return hop.Hop{
		ID: id, Absent: noTask, Agent: true, Budget: roundtripBudget,
		Causes: hop.Causes{
			ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		},
		About:    hop.About{OfNode: func(c *hop.Case) bool { return world.AgentAnswered(c) != "" }},
		Role:     hop.Role{Writes: true},
		Recorded: world.ErrorsOfTask(func(c *hop.Case) string { return c.Field(id, hop.StepEnqueue, "task.id") }, ""),
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request to enqueue or read the no-op"},
		Steps: []hop.Step{
			{
				Name: hop.StepEnqueue, From: hop.Operator, Timeout: 4 * time.Second,
				Needs:  hop.Needs{Hops: []diag.HopID{diag.HopControlPlaneAccess}, Token: true, Paths: paths, Fields: fields},
				Policy: hop.Policy{Changes: true}, // so a task that could not be read again is not enqueued
				Ask:    enqueueNoop,
			},
			{
				Name: hop.StepTask, From: hop.Operator, Timeout: 6 * time.Second,
				Needs: hop.Needs{
					Hops: []diag.HopID{diag.HopControlPlaneAccess}, Facts: []string{hop.FactID(id, hop.StepEnqueue)}, Token: true,
					Paths: paths, Fields: fields,
				},
				When: hop.WaitIf(func(c *hop.Case) string {
					if c.Field(id, hop.StepEnqueue, "task.id") == "" {
						return "no task was enqueued"
					}
					return ""
				}),
				Ask: func(e *hop.Env, c *hop.Case) diag.Request {
					req := e.Request("GET", profile.PathTask, map[string]string{"task_id": c.Field(id, hop.StepEnqueue, "task.id")},
						"task.status", "task.queued_at", "task.claimed_at", "task.completed_at", "task.error_code")
					req.Poll = &diag.Poll{Field: "task.status", Until: e.Profile.Task.Final(),
						EveryMS: cmp.Or(e.Profile.Task.Every, world.TaskPollEvery).Milliseconds()}
					return req
				},
			},
			{
				Name: hop.StepRecordAfter, From: hop.Node, Timeout: 3 * time.Second,
				Needs: hop.Needs{
					Hops: []diag.HopID{diag.HopNodeOpsAccess}, Facts: []string{hop.FactID(id, hop.StepTask)}, Fields: fields,
					Profile: hop.NeverIf(keepsRecord),
				},
				Policy: hop.Policy{Turn: hop.AfterFault, Optional: true},
				When: hop.SkipIf(func(c *hop.Case) string {
					if resultLate(c) {
						return ""
					}
					return "the task's result came, or no agent claimed it"
				}),
				Ask: readRecord,
			},
			{
				Name: world.StepBacklogAfter, From: hop.Operator, Timeout: world.SweepWithin,
				Needs: hop.Needs{Hops: []diag.HopID{diag.HopControlPlaneAccess},
					Facts: []string{hop.FactID(id, hop.StepTask), hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel)},
					Token: true, Paths: []string{profile.PathNode}, Fields: []string{"node.stale_tasks"}},
				Policy: hop.Policy{Turn: hop.AfterFault, Optional: true},
				When: hop.SkipIf(func(c *hop.Case) string {
					if world.LookedAgain(c) {
						return ""
					}
					return "no expired task counted as current work"
				}),
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					req := e.Request("GET", profile.PathNode, nil, world.BacklogFields[:]...)
					req.Poll = &diag.Poll{Field: "node.stale_tasks", Until: []string{"0"},
						EveryMS: 10 * world.TaskPollEvery.Milliseconds()}
					return req
				},
			},
		},
		Judge: judgeRoundtrip,
		Pass: func(c *hop.Case) string {
			q, d := c.Time(id, hop.StepTask, "task.queued_at"), c.Time(id, hop.StepTask, "task.completed_at")
			if q.IsZero() || d.IsZero() {
				return "a no-op came back"
			}
			return fmt.Sprintf("a no-op came back in %d ms", max(1, d.Sub(q).Milliseconds()))
		},
	}
}

// noTask says why a platform has no tasks.
func noTask(p *profile.Profile) string {
	if p.Task.Kind == profile.TaskNone {
		return "the profile declares no task (task.kind: none)"
	}
	return ""
}

func enqueueNoop(e *hop.Env, _ *hop.Case) diag.Request {
	req := e.Request("", profile.PathNodeTasks, nil, "task.id")
	if req.Op == "" {
		return req // nothing is sent to a path that the platform does not have
	}
	ttl := hop.Budget(e.Profile, &hop.Hop{ID: diag.HopNodeTaskRoundtrip, Budget: roundtripBudget}) + noopGrace
	contentType := ""
	req.Method, contentType, req.Body = e.Profile.Task.Request(map[string]string{
		"node_id": e.Subject.NodeID, "allocation_id": e.Subject.AllocationID, "correlation_id": e.CorrelationID,
		"ttl_seconds": strconv.Itoa(int(ttl.Seconds())),
	})
	if contentType != "" {
		req.Header["Content-Type"] = contentType
	}
	return req
}

func judgeRoundtrip(c *hop.Case) []diag.Finding {
	id := diag.HopNodeTaskRoundtrip
	put, got := c.Fact(id, hop.StepEnqueue), c.Fact(id, hop.StepTask)
	if put != nil && c.Field(id, hop.StepEnqueue, "task.id") == "" {
		return []diag.Finding{notTaken(put)}
	}
	if got == nil {
		return nil
	}
	st, claimed, why := world.TaskStatus(c), world.TaskClaimed(c), c.Field(id, hop.StepTask, "task.error_code")
	switch {
	case st == "":
		return []diag.Finding{reading.Undecided(got, "the task could not be read: %s", reading.Saw(got))}
	case !slices.Contains(world.TaskStates[:], st):
		return []diag.Finding{reading.UnknownWord(got, "the no-op's status", world.TaskWord(c), world.TaskWords(c))}
	case st == "failed":
		return []diag.Finding{world.RefusedNoop(c, got, why)}
	case st != "completed" && st != "expired" && !world.WaitedFor(got):
		return []diag.Finding{reading.Undecided(got, "the no-op was %s; its outcome could not be read: %s", st,
			reading.Saw(got))}
	case st != "completed" && !claimed && reading.Unasked(got, "task.claimed_at"):
		return []diag.Finding{reading.Undecided(got,
			"the no-op is %s after %d ms, and this platform does not report node claims", st, got.DurationMS)}
	case st != "completed" && claimed:
		return []diag.Finding{observed(diag.SigResultPostFailed, got,
			"the agent claimed the no-op, but its result has not arrived (%s)", reading.TaskAfter(st, got))}
	case st != "completed":
		f := observed(diag.SigTaskClaimFailed, got, "no agent claimed the no-op (%s)", reading.TaskAfter(st, got))
		locateUnclaimed(c, &f)
		return []diag.Finding{f}
	}
	return judgeBacklog(c)
}

// notTaken is the finding for a task that the platform did not accept.
func notTaken(put *diag.Fact) diag.Finding {
	switch {
	case reading.ForeignPage(put):
		return reading.Undecided(put, "no task was taken: %s in place of the platform's: nothing of the platform is in it",
			world.PageFrom(put))
	case reading.Redirects(put):
		return reading.Redirected(put)
	}
	return reading.Undecided(put, "the platform took no task: %s%s", reading.Saw(put), world.Signer(put))
}

// judgeBacklog judges expired tasks that the platform still counts as current work after a sweep was due. A report from
// before the second reading existed has only the first one.
func judgeBacklog(c *hop.Case) []diag.Finding {
	id, step := diag.HopNodeHeartbeat, hop.StepReadModel
	first := world.StaleTasks(c, id, step)
	if first <= 0 {
		return nil
	}
	if world.LookedAgain(c) {
		id, step = diag.HopNodeTaskRoundtrip, world.StepBacklogAfter
		switch n := world.StaleTasks(c, id, step); {
		case n < 0, n > 0 && !world.WaitedFor(c.Fact(id, step)):
			return []diag.Finding{reading.Undecided(c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel),
				"%d expired tasks counted as current "+
					"work; whether the next sweep removed them is not known", first)}
		case n == 0:
			return nil
		case !world.SweptSince(c):
			return []diag.Finding{reading.Warn(diag.SigTaskBacklogStale, c.Fact(id, step),
				"%d expired tasks count as current work; "+
					"this platform sweeps every %s: walk again after that", n, world.SweepInterval(c))}
		}
	}
	f := observed(diag.SigTaskBacklogStale, c.Fact(id, step), "%d expired tasks still count as current work",
		world.StaleTasks(c, id, step))
	f.Direct = true
	return []diag.Finding{f}
}

// resultLate reports whether the agent claimed the no-op, and its result has not come.
func resultLate(c *hop.Case) bool {
	switch world.TaskStatus(c) {
	case "dispatched", "queued", "expired":
		return world.TaskClaimed(c)
	}
	return false
}
