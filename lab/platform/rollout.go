package platform

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// noopTTL is how long the no-op of a soak may take.
const noopTTL = 30 * time.Second

// merged adds a node's report to the known state of its rollout. A rollout never goes back to an earlier state or
// leaves a final one, and for each probe the newer result counts, so that reports may arrive in any order, and
// repeatedly.
func merged(known, said wire.Rollout) wire.Rollout {
	out := known
	if wire.RolloutRank(said.State) > wire.RolloutRank(known.State) {
		out.State, out.Result, out.RollbackHint = said.State, said.Result, said.RollbackHint
		out.SoakUntil = said.SoakUntil
	}
	if out.Prior.SHA256 == "" {
		out.Prior = said.Prior
	}
	if said.VerifierSet != "" {
		out.VerifierSet, out.Token = said.VerifierSet, said.Token
	}
	out.Attempts = max(known.Attempts, said.Attempts)
	out.Probes = maps.Clone(known.Probes)
	for probe, s := range said.Probes {
		if ours, ok := out.Probes[probe]; !ok || s.At.After(ours.At) {
			if out.Probes == nil {
				out.Probes = map[string]wire.ProbeState{}
			}
			out.Probes[probe] = s
		}
	}
	return out
}

// arrived adds a boot report to merged: a node that runs the target has started it, even if no event reported the
// start. synthesised is true in that case.
func arrived(r wire.Rollout, running wire.Build) (out wire.Rollout, synthesised bool) {
	if running.SHA256 == "" || running.SHA256 != r.Target.SHA256 || running.SHA256 == r.Prior.SHA256 ||
		wire.RolloutRank(r.State) >= wire.RolloutRank(wire.RolloutActivating) {
		return r, false
	}
	r.State = wire.RolloutActivating
	return r, true
}

// storeRollout stores a node's report of one of its rollouts. A report of another node's rollout is ignored.
func (p *Platform) storeRollout(ctx context.Context, nodeID, instanceID string, said wire.Rollout, running wire.Build,
	why string) error {
	now := p.now()
	r, err := p.store.ChangeRollout(ctx, nodeID, said.ID, now,
		func(old store.Rollout, known bool) (store.Rollout, []store.Evidence) {
			evidence := func(kind, text string, r wire.Rollout) store.Evidence {
				return store.Evidence{At: now, Kind: kind, CorrelationID: r.CorrelationID, NodeID: nodeID, TaskID: r.ID,
					Detail: map[string]any{
						"state": r.State, "was": old.State, "why": text, "version": r.Target.Version, "sha256": r.Target.SHA256,
						"prior_version": r.Prior.Version, "prior_sha256": r.Prior.SHA256, "verifier_set": r.VerifierSet, "token": r.Token,
						"result": r.Result, "rollback_hint": r.RollbackHint, "crashes": r.Attempts, "probes": r.Probes}}
			}
			next := store.Rollout{Rollout: merged(old.Rollout, said), NodeID: nodeID, InstanceID: instanceID,
				CreatedAt: old.CreatedAt}
			var list []store.Evidence
			if !known {
				next.Rollout = said
				list = append(list, evidence(store.RolloutAdopted, why, said))
			}
			var synthesised bool
			if next.Rollout, synthesised = arrived(next.Rollout, running); synthesised {
				list = append(list, evidence(store.RolloutSynthesised, "the node runs the target", next.Rollout))
			}
			if known && !synthesised && toText(next.Rollout) != toText(old.Rollout) {
				list = append(list, evidence(store.RolloutAdvanced, why, next.Rollout))
			}
			return next, list
		})
	if errors.Is(err, store.ErrOtherNode) { // from a host that was another node before, or made up
		p.log.Warn("a node reported another node's rollout", "node_id", nodeID, "node_instance_id", instanceID, "rollout_id",
			said.ID)
		return nil
	}
	if err != nil {
		return err
	}
	return p.settleRollout(ctx, r)
}

// settleRollout gives the rollout's task the rollout's result, since the agent that began it does not survive it.
// A task that has ended already is not changed.
func (p *Platform) settleRollout(ctx context.Context, r store.Rollout) error {
	if !wire.RolloutFinal(r.State) {
		return nil
	}
	res := wire.TaskResult{Status: wire.TaskCompleted, StartedAt: r.CreatedAt.UTC(), FinishedAt: r.UpdatedAt.UTC(),
		Output: []byte(toText(r.Rollout))}
	if r.State != wire.RolloutConverged {
		res.Status, res.Output = wire.TaskFailed, nil
		res.Error = &wire.ErrorInfo{Code: "update_" + r.State,
			Message: r.Result + "; this is about managing the node, not about its workloads", CorrelationID: r.CorrelationID}
	}
	err := p.queue.Finish(ctx, r.NodeID, r.ID, res)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNotClaimed) { // of a platform that was lost
		return nil
	}
	return err
}

// applyEvents applies the consequences of events that were stored.
func (p *Platform) applyEvents(ctx context.Context, nodeID string, in wire.EventsRequest) error {
	for _, e := range in.Events {
		var u wire.UpdateEvent
		if (e.Kind != wire.EventSelfUpdate && e.Kind != wire.EventBoot) ||
			bounded.Unmarshal(e.Detail, &u, bounded.Small()) != nil || bounded.Values(&u) != nil || u.Rollout == nil ||
			u.Rollout.ID == "" {
			continue
		}
		if err := p.storeRollout(ctx, nodeID, in.NodeInstanceID, *u.Rollout, wire.Build{}, u.Decision); err != nil {
			return err
		}
	}
	return nil
}

// answerBoot handles a heartbeat's boot report and completes the response. It ignores a preflight's report.
func (p *Platform) answerBoot(r *http.Request, h wire.HeartbeatRequest, answer *wire.HeartbeatResponse) error {
	if h.Boot == nil || isProbe(r) {
		return nil
	}
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	running, ro, err := p.booted(ctx, nodeID, web.CorrelationID(ctx), h)
	if err != nil {
		return err
	}
	answer.Running = running
	if ro == nil {
		return nil
	}
	for i := range answer.Snapshots {
		if answer.Snapshots[i].TaskID == ro.ID {
			answer.Snapshots[i].Rollout = ro
			return nil
		}
	}
	answer.Snapshots = append(answer.Snapshots,
		wire.Snapshot{TaskID: ro.ID, Type: wire.TaskSelfUpdate, CorrelationID: ro.CorrelationID, Rollout: ro})
	return nil
}

// booted stores the boot report of a heartbeat, and returns the contents of the response: the build that is now
// known, and the node's rollout from the platform's view.
func (p *Platform) booted(ctx context.Context, nodeID, correlationID string,
	h wire.HeartbeatRequest) (*wire.Build, *wire.Rollout, error) {
	b := *h.Boot
	err := p.store.Boot(ctx, nodeID, h.NodeInstanceID, b,
		store.Evidence{At: p.now(), Kind: store.NodeBooted, CorrelationID: correlationID, NodeID: nodeID,
			Detail: map[string]any{"version": b.Running.Version, "sha256": b.Running.SHA256, "package": b.Package.SHA256,
				"hold": b.Hold}})
	if err != nil {
		return nil, nil, err
	}
	if b.Rollout != nil && b.Rollout.ID != "" {
		if err := p.storeRollout(ctx, nodeID, h.NodeInstanceID, *b.Rollout, b.Running, "boot report"); err != nil {
			return nil, nil, err
		}
	}
	known, err := p.store.BootReport(ctx, nodeID) // read back: the response names what is stored
	if err != nil {
		return nil, nil, err
	}
	newest, err := optional(p.store.NewestRollout(ctx, nodeID))
	if err != nil || newest == nil {
		return &known.Running, nil, err
	}
	if err := p.resume(ctx, *newest, b); err != nil {
		return nil, nil, err
	}
	return &known.Running, &newest.Rollout, nil
}

// resume continues a rollout in progress: it hands out the task again if the node does not know of it and does not
// run the target, and enqueues a no-op during the soak.
func (p *Platform) resume(ctx context.Context, r store.Rollout, b wire.BootReport) error {
	if wire.RolloutFinal(r.State) {
		return nil
	}
	if b.Rollout == nil || b.Rollout.ID != r.ID {
		if b.Running.SHA256 == r.Target.SHA256 {
			return nil
		}
		t, err := optional(p.store.Task(ctx, r.ID))
		if err != nil || t == nil || t.Status != wire.TaskDispatched || !p.now().Before(t.ExpiresAt) {
			return err
		}
		if err := p.queue.Return(ctx, *t); err != nil {
			return err
		}
		return p.store.Record(ctx,
			store.Evidence{At: p.now(), Kind: store.RolloutRedispatch, CorrelationID: r.CorrelationID, NodeID: r.NodeID,
				TaskID: r.ID, Detail: map[string]any{"running": b.Running.Version, "state": r.State}})
	}
	if r.State != wire.RolloutSoaking || r.Probes[wire.ProbeNoop].Pass {
		return nil
	}
	open, err := p.store.OpenByCorrelation(ctx, r.NodeID, wire.TaskNoop, r.CorrelationID)
	if err != nil || open > 0 {
		return err
	}
	_, err = p.queue.Enqueue(ctx,
		queue.Spec{NodeID: r.NodeID, Type: wire.TaskNoop, TTL: noopTTL, CorrelationID: r.CorrelationID})
	return err
}

// taskOfRollout applies the end of a task to its rollout: a self-update that the node refused, or that expired
// unclaimed, ends the rollout; and a soak's no-op that failed counts as a failed probe, since the node may be
// unable to count it itself.
func (p *Platform) taskOfRollout(ctx context.Context, t store.Task) error {
	switch {
	case t.Type == wire.TaskSelfUpdate && t.Status == wire.TaskFailed && t.Result != nil && t.Result.Error != nil:
		r, err := optional(p.store.Rollout(ctx, t.ID))
		if err != nil || r == nil || wire.RolloutFinal(r.State) {
			return err
		}
		end := r.Rollout
		end.State, end.Result, end.RollbackHint = wire.RolloutFailed, t.Result.Error.Code+": "+t.Result.Error.Message,
			"none needed: nothing was started"
		return p.storeRollout(ctx, t.NodeID, r.InstanceID, end, wire.Build{}, "the node refused the task")
	case t.Type == wire.TaskSelfUpdate && t.Status == wire.TaskExpired && t.ClaimedAt.IsZero():
		r, err := optional(p.store.Rollout(ctx, t.ID))
		if err != nil || r == nil || r.State != wire.RolloutPending {
			return err
		}
		end := r.Rollout
		end.State, end.Result, end.RollbackHint = wire.RolloutFailed, "the node did not take the task in time",
			"none needed: nothing was started"
		return p.storeRollout(ctx, t.NodeID, r.InstanceID, end, wire.Build{}, "the task expired")
	case t.Type == wire.TaskNoop && t.Status == wire.TaskFailed:
		r, err := optional(p.store.NewestRollout(ctx, t.NodeID))
		if err != nil || r == nil || r.State != wire.RolloutSoaking || r.CorrelationID != t.CorrelationID {
			return err
		}
		seen := r.Rollout
		was := r.Probes[wire.ProbeNoop]
		seen.Probes = map[string]wire.ProbeState{wire.ProbeNoop: {Fails: was.Fails + 1, At: t.CompletedAt}}
		return p.storeRollout(ctx, t.NodeID, r.InstanceID, seen, wire.Build{}, "a no-op failed")
	}
	return nil
}

func toText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
