package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// Statuses of a workload, from completed probes only.
const (
	appRunning  = "running"
	appDegraded = "degraded" // the unit runs, but its port does not answer
	appStopped  = "stopped"
)

// maxProbeBackoff bounds how much the interval of failing probes grows.
const maxProbeBackoff = 6

// Sweep expires overdue tasks and returns how many; overdue observations return to the queue.
func (p *Platform) Sweep(ctx context.Context) (int, error) {
	n, err := p.queue.Sweep(ctx)
	if err != nil {
		return n, err
	}
	if err := p.endReleases(ctx); err != nil {
		return n, err
	}
	again, err := p.queue.Reclaim(ctx, p.now().Add(-seconds(p.cfg.Policy.TaskLease)))
	for _, t := range again {
		p.log.Info("task reclaimed", "task_id", t.ID, "type", t.Type, "node_id", t.NodeID, "correlation_id", t.CorrelationID)
		p.metrics.add("tasks_reclaimed_total", "type", t.Type)
	}
	return n, err
}

// loop is work that is done at the start, then once per interval, and when it is woken.
type loop struct {
	work     string // its name in the log
	interval time.Duration
	wake     <-chan struct{} // nil: only the interval counts
	do       func(context.Context) error
	apart    bool // FirstRound does not wait for it
}

// repeated returns the loops that Run runs next to the listeners.
func (p *Platform) repeated() []loop {
	all := []loop{
		{work: "sweep", interval: seconds(p.cfg.Policy.TaskStaleSweepInterval), do: p.sweepRound},
		{work: "prune", interval: pruneEvery, do: p.prune},
		{work: "notify the coordinator", interval: gpuRound, wake: p.gpus.changed, do: p.NotifyCoordinator,
			apart: true}, // it may not answer
	}
	if s := p.cfg.Policy.AppStatusProbeInterval; s > 0 {
		all = append(all, loop{work: "probe workloads", interval: seconds(s), do: p.ProbeApps})
	}
	if p.cfg.GPU.Policy != "" {
		all = append(all, loop{work: "judge GPUs", interval: gpuRound, wake: p.gpus.wake, do: p.JudgeGPUs})
	}
	return all
}

// repeat runs a loop until ctx is done.
func (p *Platform) repeat(ctx context.Context, l loop) {
	ticker := time.NewTicker(l.interval)
	defer ticker.Stop()
	begun := sync.OnceFunc(p.first.Done)
	if l.apart {
		begun()
	}
	for {
		if err := l.do(ctx); err != nil && ctx.Err() == nil {
			p.log.Error(l.work+" failed", "error", err)
		}
		begun()
		select {
		case <-ticker.C:
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// pruneEvery is how often old rows are deleted; each round moves the retention by at most twice that.
const pruneEvery = time.Hour

// prune deletes old rows, and reports a clock that is far ahead of the last round: it was wrong, or the platform was
// off.
func (p *Platform) prune(ctx context.Context) error {
	behind, err := p.store.Prune(ctx, p.now(), 2*pruneEvery)
	if err == nil && behind > 0 {
		p.metrics.add("prunes_behind_clock_total")
		p.log.Warn("the clock is ahead of the newest rows: old rows are deleted slowly, two hours' worth an hour",
			"ahead", behind.Round(time.Second).String())
	}
	return err
}

// sweepRound expires tasks, checks the trust again and reports changed reasons.
func (p *Platform) sweepRound(ctx context.Context) error {
	n, err := p.Sweep(ctx)
	if err == nil && n > 0 {
		p.log.Info("tasks expired", "count", n)
	}
	p.checkTrust(ctx, false)
	p.gateway.Review(ctx, "") // sessions that no decision has ended itself
	return errors.Join(err, p.Reclassify(ctx))
}

// FirstRound waits until each loop has completed its first round after Run was called, so that a test's later
// actions and clock changes do not meet a loop at its start.
func (p *Platform) FirstRound() { p.first.Wait() }

// ProbeApps enqueues one status probe for each active workload that is due and has none in flight. The platform
// runs it at the policy's interval.
func (p *Platform) ProbeApps(ctx context.Context) error {
	apps, err := p.store.ActiveApps(ctx)
	if err != nil {
		return err
	}
	interval := seconds(p.cfg.Policy.AppStatusProbeInterval)
	for _, a := range apps {
		if !probeDue(a.App, p.now(), interval) {
			continue
		}
		if open, err := p.store.ProbeInFlight(ctx, a.ID); err != nil || open {
			if err != nil {
				return err
			}
			continue
		}
		payload, err := json.Marshal(wire.StatusProbePayload{Unit: a.App.Unit, Port: a.App.Port})
		if err != nil {
			return err
		}
		_, err = p.queue.Enqueue(ctx,
			queue.Spec{NodeID: a.NodeID, Type: wire.TaskStatusProbe, Payload: payload, TTL: interval,
				CorrelationID: store.NewID("probe-"), AllocationID: a.ID})
		if err != nil {
			return err
		}
	}
	return nil
}

// probeDue reports whether a workload is due for a probe: the interval grows by one for each consecutive failed
// probe.
func probeDue(a store.App, now time.Time, interval time.Duration) bool {
	patience := time.Duration(min(a.ProbeFailures, maxProbeBackoff)) * interval
	return a.ProbeFailedAt.IsZero() || now.Sub(a.ProbeFailedAt) >= patience
}

// taskSettled applies the consequences of a task's end: a completed status probe is an observation; one that did
// not complete is a missing observation and changes no status. An error here does not change the task's end.
func (p *Platform) taskSettled(ctx context.Context, t store.Task) {
	if !t.LateAt.IsZero() { // a late result is history and changes nothing
		p.metrics.add("task_results_late_total", "type", t.Type)
		return
	}
	p.metrics.add("tasks_settled_total", "type", t.Type, "status", t.Status)
	if err := p.taskOfRollout(ctx, t); err != nil {
		p.log.Error("draw a rollout's consequences", "node_id", t.NodeID, "task_id", t.ID, "error", err)
	}
	if t.Type != wire.TaskStatusProbe || t.AllocationID == "" {
		return
	}
	var err error
	if seen, ok := observed(t); ok {
		err = p.store.ObserveApp(ctx, t.AllocationID, appStatus(seen), t.CompletedAt)
	} else {
		err = p.store.RecordAppMissed(ctx, t.AllocationID, t.CompletedAt)
	}
	if err != nil {
		p.log.Error("store observation", "allocation_id", t.AllocationID, "task_id", t.ID, "error", err)
	}
}

// observed returns the state that a completed status probe saw.
func observed(t store.Task) (r wire.StatusProbeResult, ok bool) {
	if t.Status != wire.TaskCompleted || t.Result == nil {
		return r, false
	}
	return r, json.Unmarshal(t.Result.Output, &r) == nil
}

func appStatus(r wire.StatusProbeResult) string {
	switch {
	case !r.Running:
		return appStopped
	case r.PortOK != nil && !*r.PortOK:
		return appDegraded
	}
	return appRunning
}

// seed creates missing nodes and allocations of the seed file, and stores new enrollment tokens.
func (p *Platform) seed(ctx context.Context) error {
	if p.cfg.Seed == "" {
		return nil
	}
	s, err := LoadSeed(p.cfg.Seed)
	if err != nil {
		return err
	}
	now := p.now()
	for _, n := range s.Nodes {
		row := store.Node{ID: n.ID, Status: store.NodeActive, Hostname: n.Hostname, PrivateIP: n.PrivateIP,
			ProviderClass: n.ProviderClass, GuestAgentStatus: n.GuestAgentStatus, EnvironmentProfile: n.EnvironmentProfile,
			CreatedAt: now}
		if n.GuestAgentStatus != "" {
			row.GuestAgentAt = now
		}
		if err := p.store.SeedNode(ctx, row); err != nil {
			return fmt.Errorf("seed node %s: %w", n.ID, err)
		}
		if n.GPUs != nil {
			if p.gpus.expected == nil {
				p.gpus.expected = map[string]int{}
			}
			p.gpus.expected[n.ID] = *n.GPUs
		}
		if n.EnrollmentTokenFile == "" {
			continue
		}
		token, err := readSecret(n.EnrollmentTokenFile)
		if err != nil {
			return fmt.Errorf("seed node %s: load enrollment token: %w", n.ID, err)
		}
		err = p.store.AddToken(ctx, store.Token{NodeID: n.ID, Digest: store.Digest(token.Reveal()), IssuedAt: now,
			ExpiresAt: now.Add(seconds(p.cfg.Policy.RecoveryTokenMaxAge))})
		if err != nil {
			return fmt.Errorf("seed node %s: store enrollment token: %w", n.ID, err)
		}
	}
	for _, a := range s.Allocations {
		row := store.Allocation{ID: a.ID, NodeID: a.NodeID, State: a.State, OSUser: a.OSUser, WorkflowID: a.WorkflowID,
			UpdatedAt: now, App: store.App{Kind: a.App.Kind, Unit: a.App.Unit, Port: a.App.Port, ProductURL: a.App.ProductURL}}
		if err := p.store.SeedAllocation(ctx, row); err != nil {
			return fmt.Errorf("seed allocation %s: %w", a.ID, err)
		}
	}
	return nil
}
