package platform_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

func releaseTask(*platformtest.Platform) store.Task {
	now := time.Now()
	return store.Task{ID: "task-cleanup", NodeID: platformtest.NodeID, Type: wire.TaskCleanup, CorrelationID: "release-1",
		AllocationID: platformtest.AllocationID, Payload: []byte(`{}`), QueuedAt: now, ExpiresAt: now.Add(time.Minute)}
}

func releaseDecision() store.Decision {
	return store.Decision{Action: "release", By: "operator", CorrelationID: "release-1", At: time.Now()}
}

type allocationRead struct {
	State, Occupancy string
	Recovery         struct {
		Reason, State string
		UserText      string `json:"user_text"`
		Since         string
		Evidence      []string
	}
	wire.ErrorBody
}

func allocation(t *testing.T, p *platformtest.Platform, id string) (a allocationRead) {
	t.Helper()
	if status, _ := p.Do(http.MethodGet, "/v1/allocations/"+id, nil, &a); status != 200 {
		t.Fatalf("allocation %s: %d", id, status)
	}
	return a
}

// TestRelease: a release is a desired state. It completes with the node's clean-up; otherwise it has failed and is
// shown as failed until it is retried or forced.
func TestRelease(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
	cred := p.Enroll(platformtest.NodeID)
	const id = platformtest.AllocationID
	release := func() (a allocationRead, status int) {
		status, _ = p.Do(http.MethodPost, "/v1/allocations/"+id+"/release",
			map[string]any{"reason": "done", "ttl_seconds": 30}, &a, wire.HeaderCorrelationID, "release-1")
		return a, status
	}
	if a, status := release(); status != 200 || a.State != "releasing" || a.Occupancy != "cleanup" {
		t.Fatalf("release: %d %+v", status, a)
	}
	if a, status := release(); status != 409 || a.Error.Code != "allocation_state" {
		t.Errorf("release again: %d %s", status, a.Error.Code)
	}
	clk.advance(31 * time.Second) // the node does not come
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Reclassify(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := allocation(t, p, id)
	if a.State != "release_failed" || a.Occupancy != "cleanup" || a.Recovery.Reason != "release_failed_cleanup_stuck" ||
		a.Recovery.State != "operator_action_required" ||
		!strings.Contains(a.Recovery.Evidence[0], "release_failed_cleanup_stuck") {
		t.Errorf("release failed: %+v", a)
	}
	n := readNode(t, p)
	if n.Occupancy != "cleanup" || n.LatestOperation.Type != wire.TaskCleanup ||
		n.LatestOperation.Status != wire.TaskFailed {
		t.Errorf("the node: occupancy %s, latest operation %+v", n.Occupancy, n.LatestOperation)
	}
	wantEvidence(t, p, "release-1", "allocation.state_changed", "task.queued", "task.expired", "operation.failed")
	if _, status := release(); status != 200 {
		t.Fatalf("release once more: %d", status)
	}
	var task wire.Task
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	if task.Type != wire.TaskCleanup || !strings.Contains(string(task.Payload), id) {
		t.Fatalf("task %+v", task)
	}
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", task.ID), completed(), nil)
	if a := allocation(t, p, id); a.State != "released" || a.Occupancy != "free" || a.Recovery.Reason != "none" ||
		a.Recovery.State != "normal" {
		t.Errorf("released: %+v", a)
	}
}

// TestForceReleaseIsAudited and only for a release that failed; a clean-up's late result changes nothing any more.
func TestForceReleaseIsAudited(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
	cred := p.Enroll(platformtest.NodeID)
	const id = platformtest.AllocationID
	p.Do(http.MethodPost, "/v1/allocations/"+id+"/release", map[string]any{"ttl_seconds": 30}, nil)
	var task wire.Task
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	clk.advance(31 * time.Second)
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := readNode(t, p); n.Lost != 1 {
		t.Errorf("lost results: %d", n.Lost)
	}
	var a allocationRead
	status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/"+id+"/force-release",
		map[string]any{"reason": "cleaned by hand", "by": "ada", "cleaned": true}, &a, wire.HeaderCorrelationID, "force-1")
	if status != 200 || a.State != "released" || a.Occupancy != "free" {
		t.Errorf("force-release: %d %+v", status, a)
	}
	rows := auditRows(t, p, "?correlation_id=force-1")
	if len(rows) != 1 || rows[0].Action != "allocation.force_release" || rows[0].ActorID != "ada" ||
		rows[0].AppInstanceID != id || rows[0].Reason != "cleaned by hand" {
		t.Errorf("audit %+v", rows)
	}
	late := wire.TaskResult{Status: wire.TaskFailed}
	if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", task.ID),
		late, nil); status != 200 {
		t.Errorf("late result: %d", status)
	}
	if a := allocation(t, p, id); a.State != "released" {
		t.Errorf("after the late result: %+v", a)
	}
	if n := readNode(t, p); n.Lost != 0 || n.LatestOperation.Type != "force_release" {
		t.Errorf("after the late result: %d lost, %+v", n.Lost, n.LatestOperation)
	}
}

// TestWorkloadReasons: a workload is failed because of a completed observation, never a missing one, and a later
// observation clears the failure.
func TestWorkloadReasons(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}},
			Allocations: []platform.SeedAllocation{{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active",
				OSUser: "tenant", App: platform.SeedApp{Kind: "web", Unit: "w.service", Port: 80}}}, Config: slowSweeps})
	cred := p.Enroll(platformtest.NodeID)
	at := func() time.Time { clk.advance(time.Second); return clk.now() }
	for _, c := range []struct {
		name string
		do   func() error
		want string
	}{
		{"running", func() error { return p.Store().ObserveApp(t.Context(), platformtest.AllocationID, "running", at()) },
			"none normal"},
		{"missed", func() error { return p.Store().RecordAppMissed(t.Context(), platformtest.AllocationID, at()) },
			"app_observation_stale normal"},
		{"stopped", func() error { return p.Store().ObserveApp(t.Context(), platformtest.AllocationID, "stopped", at()) },
			"app_runtime_failed temporary"},
		{"missed, and known to be stopped", func() error {
			return p.Store().RecordAppMissed(t.Context(), platformtest.AllocationID, at())
		}, "app_runtime_failed temporary"},
		{"without its port", func() error {
			return p.Store().ObserveApp(t.Context(), platformtest.AllocationID, "degraded", at())
		}, "app_runtime_failed temporary"},
		{"back", func() error { return p.Store().ObserveApp(t.Context(), platformtest.AllocationID, "running", at()) },
			"none normal"},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		beat(t, p, cred, wire.HeartbeatRequest{})
		if a := allocation(t, p, platformtest.AllocationID); a.Recovery.Reason+" "+a.Recovery.State != c.want {
			t.Errorf("%s: %+v, want %s", c.name, a.Recovery, c.want)
		}
	}
	var list struct{ Items []nodeRead }
	if p.Do(http.MethodGet, "/v1/admin/nodes", nil, &list); len(list.Items) != 1 ||
		list.Items[0].Recovery.Reason != "none" {
		t.Errorf("nodes %+v", list)
	}
}

// TestTenantsAreToldApart: one node's reason reaches each active allocation on it, in a separate record without
// any text about the others.
func TestTenantsAreToldApart(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: otherNode}},
			Allocations: []platform.SeedAllocation{
				{ID: "tenant-red", NodeID: platformtest.NodeID, State: "active", OSUser: "red"},
				{ID: "tenant-blue", NodeID: platformtest.NodeID, State: "active", OSUser: "blue"},
				{ID: "tenant-gone", NodeID: platformtest.NodeID, State: "released", OSUser: "gone"},
				{ID: "tenant-far", NodeID: otherNode, State: "active", OSUser: "far"},
			}, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
	near, far := p.Enroll(platformtest.NodeID), p.Enroll(otherNode)
	look := func() {
		t.Helper()
		if err := p.Reclassify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	beat(t, p, near, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	beat(t, p, far, wire.HeartbeatRequest{NodeInstanceID: "host-b"})
	look()
	before := map[string]int{}
	for _, id := range []string{"tenant-red", "tenant-blue", "tenant-gone", "tenant-far"} {
		a := allocation(t, p, id)
		if a.Recovery.Reason != "none" || a.Recovery.State != "normal" || a.Recovery.UserText != "" {
			t.Errorf("%s at first: %+v", id, a.Recovery)
		}
		before[id] = len(a.Recovery.Evidence)
	}
	clk.advance(platformtest.StaleAfter + time.Second)
	beat(t, p, far, wire.HeartbeatRequest{NodeInstanceID: "host-b"})
	look()
	look() // repeats nothing
	for id, want := range map[string]string{"tenant-red": "node_agent_unreachable",
		"tenant-blue": "node_agent_unreachable", "tenant-gone": "none", "tenant-far": "none"} {
		a := allocation(t, p, id)
		if a.Recovery.Reason != want ||
			(want != "none" && (a.Recovery.State != "temporary" || a.Recovery.UserText == "" || a.Recovery.Since == "" ||
				len(a.Recovery.Evidence) != before[id]+1)) {
			t.Errorf("%s: %+v", id, a.Recovery)
		}
	}
	for _, id := range []string{"tenant-red", "tenant-blue"} {
		text := evidenceQuery(t, p, "allocation_id="+id)
		if strings.Count(text, "allocation.recovery_changed") != before[id]+1 ||
			strings.Count(text, "tenant-") != strings.Count(text, id) {
			t.Errorf("records of %s: %s", id, text)
		}
	}
	beat(t, p, near, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	look()
	if a := allocation(t, p, "tenant-red"); a.Recovery.Reason != "none" ||
		len(a.Recovery.Evidence) != before["tenant-red"]+2 {
		t.Errorf("it came back: %+v", a.Recovery)
	}
}

// TestForcedPlaceIsNotFree: an operator may force the end of a release, and the slot becomes free only when the
// node has cleaned up, in time or late, or the operator confirms that the node is clean.
func TestForcedPlaceIsNotFree(t *testing.T) {
	const id = platformtest.AllocationID
	for name, end := range map[string]func(t *testing.T, p *platformtest.Platform, cred platformtest.Credential,
		first wire.Task){
		"cleaned by the node": func(_ *testing.T, p *platformtest.Platform, cred platformtest.Credential, _ wire.Task) {
			var task wire.Task
			p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
			p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", task.ID), completed(),
				nil)
		},
		"cleaned late": func(_ *testing.T, p *platformtest.Platform, cred platformtest.Credential, first wire.Task) {
			p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", first.ID), completed(),
				nil)
		},
		"cleaned by hand": func(t *testing.T, p *platformtest.Platform, cred platformtest.Credential, _ wire.Task) {
			p.Do(http.MethodPost, "/v1/admin/allocations/"+id+"/force-release",
				map[string]any{"reason": "reimaged", "cleaned": true}, nil)
			var task wire.Task
			if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task); status == 200 {
				t.Errorf("the node is still asked for %s: the place may have another tenant", task.Type)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{}
			p := platformtest.StartPlatform(t,
				platformtest.Options{Now: clk.now, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
			cred := p.Enroll(platformtest.NodeID)
			p.Do(http.MethodPost, "/v1/allocations/"+id+"/release", map[string]any{"ttl_seconds": 30}, nil)
			var first wire.Task
			p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &first)
			clk.advance(31 * time.Second)
			if _, err := p.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/"+id+"/force-release",
				map[string]any{"reason": "the tenant left"}, nil); status != 200 {
				t.Fatalf("force-release: %d", status)
			}
			if a, n := allocation(t, p, id), readNode(t, p); a.State != "released" || a.Occupancy != "cleanup" ||
				n.Occupancy != "cleanup" {
				t.Errorf("forced, and what is left is unknown: %+v, the node's occupancy %s", a, n.Occupancy)
			}
			end(t, p, cred, first)
			if a, n := allocation(t, p, id), readNode(t, p); a.State != "released" || a.Occupancy != "free" ||
				n.Occupancy != "free" {
				t.Errorf("afterwards: %+v, the node's occupancy %s", a, n.Occupancy)
			}
			if status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/"+id+"/force-release",
				map[string]any{"reason": "again"}, nil); status != 409 {
				t.Errorf("force-release of a place that is free: %d", status)
			}
		})
	}
}

// TestSharedLoginIsSpared: a release does not end the processes of a login that another active allocation on the
// node uses; the release of the last one does.
func TestSharedLoginIsSpared(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Nodes: []platform.SeedNode{{ID: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{
			{ID: "one", NodeID: platformtest.NodeID, State: "active", OSUser: "shared"},
			{ID: "two", NodeID: platformtest.NodeID, State: "active", OSUser: "shared"},
		}})
	cred := p.Enroll(platformtest.NodeID)
	for _, c := range []struct {
		id   string
		keep bool
	}{{"one", true}, {"two", false}} {
		p.Do(http.MethodPost, "/v1/allocations/"+c.id+"/release", map[string]any{"reason": "done"}, nil)
		var task wire.Task
		var payload wire.CleanupPayload
		p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
		if err := json.Unmarshal(task.Payload, &payload); err != nil || payload.AllocationID != c.id ||
			payload.OSUser != "shared" || payload.KeepProcesses != c.keep {
			t.Errorf("the clean-up of %s: %+v, %v", c.id, payload, err)
		}
	}
}
