package agent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestRevokedInTheMiddleOfABatch: results of tasks that the node had taken wait until it is accepted again, and
// each is delivered once; a clean-up among them releases only then. On a busy machine a task may end before the
// node has taken the last one: the test then retries with longer tasks.
func TestRevokedInTheMiddleOfABatch(t *testing.T) {
	for hold := 4 * time.Second; ; hold *= 2 {
		cut := true
		t.Run(hold.String(), func(t *testing.T) { cut = revokedInABatch(t, hold) })
		if cut || t.Failed() {
			return
		}
		if hold > 20*time.Second {
			t.Fatalf("tasks of %s are done before the node has taken the last", hold)
		}
	}
}

// revokedInABatch returns false if the node was revoked only after a task had ended.
func revokedInABatch(t *testing.T, hold time.Duration) bool {
	tier.NeedsHost(t)
	p, _ := tenantPlatform(t)
	const all = wire.MaxTasks
	var ids []string
	for range all - 1 {
		var task struct{ ID string }
		in := map[string]any{"type": "noop", "payload": map[string]int64{"hold_ms": hold.Milliseconds()}, "ttl_seconds": 200}
		if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/tasks", in, &task); status != 201 {
			t.Fatalf("enqueue: %d", status)
		}
		ids = append(ids, task.ID)
	}
	read := func(id string) (task struct{ Status string }) {
		p.Do(http.MethodGet, "/v1/admin/tasks/"+id, nil, &task)
		return task
	}
	wait.For(t, "the node takes them", func() bool { return read(ids[all-2]).Status != wire.TaskQueued })
	decide := func(action string) {
		if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/"+action,
			map[string]any{"reason": "test"}, nil); status != 200 {
			t.Fatalf("%s: %d", action, status)
		}
	}
	decide("revoke")
	for _, id := range ids {
		if read(id).Status == wire.TaskCompleted {
			return false
		}
	}
	release(t, p)
	time.Sleep(hold + 2*time.Second) // they are done by now
	for _, id := range ids {
		if got := read(id); got.Status != wire.TaskDispatched {
			t.Errorf("task %s is %s while the node is revoked", id, got.Status)
		}
	}
	if a := stateOf(p); a.Occupancy != "cleanup" {
		t.Errorf("the place is %s while the node is revoked", a.Occupancy)
	}
	decide("reactivate")
	wait.For(t, "the results come", func() bool {
		for _, id := range ids {
			if read(id).Status != wire.TaskCompleted {
				return false
			}
		}
		return stateOf(p).Occupancy == "free"
	})
	if n := countEvidence(t, p, "task.completed"); n < all {
		t.Errorf("%d tasks completed, want %d", n, all)
	}
	return true
}

// countEvidence counts the node's evidence of a kind.
func countEvidence(t *testing.T, p *platformtest.Platform, kind string) (n int) {
	t.Helper()
	rows, err := p.Store().EvidenceOf(t.Context(), platformtest.NodeID, "", time.Time{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if strings.HasPrefix(r.Kind, kind) {
			n++
		}
	}
	return n
}
