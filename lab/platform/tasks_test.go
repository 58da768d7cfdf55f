package platform_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// TestSeveralTasksInOneAnswer: a node that can take several tasks gets the queued ones, each signed, up to its
// number and to the bound; a node that names no number, like older agents, gets one.
func TestSeveralTasksInOneAnswer(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	verify, err := wire.ParseVerifiers(p.TaskPubkeys)
	if err != nil {
		t.Fatal(err)
	}
	var queued []string
	for range wire.MaxTasks + 6 {
		queued = append(queued, enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30}))
	}
	for query, want := range map[string]int{"": 1, "&tasks=none": 1, "&tasks=-4": 1} {
		if got := claim(t, p, cred, verify, query); len(got) != want {
			t.Errorf("asked %q: %d tasks", query, len(got))
		}
	}
	if got := claim(t, p, cred, verify, "&tasks=2"); !slices.Equal(got, queued[3:5]) {
		t.Errorf("the next two are %v, want %v", got, queued[3:5])
	}
	if got := claim(t, p, cred, verify, "&tasks=1000"); !slices.Equal(got, queued[5:5+wire.MaxTasks]) {
		t.Errorf("%d tasks at once, want %d", len(got), wire.MaxTasks)
	}
	if got := claim(t, p, cred, verify, "&tasks=1000"); !slices.Equal(got, queued[5+wire.MaxTasks:]) {
		t.Errorf("the last is %v", got)
	}
}

// claim waits for tasks as the node, and returns their ids.
func claim(t *testing.T, p *platformtest.Platform, cred platformtest.Credential, verify wire.Verifiers,
	query string) (ids []string) {
	t.Helper()
	var batch wire.TaskBatch
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0"+query, nil, &batch); status != http.StatusOK {
		t.Fatalf("wait: %d", status)
	}
	for _, task := range append([]wire.Task{batch.Task}, batch.More...) {
		if err := verify.Verify(&task); err != nil {
			t.Errorf("task %s: %v", task.ID, err)
		}
		ids = append(ids, task.ID)
	}
	return ids
}

func TestTaskLife(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
	cred := p.Enroll(platformtest.NodeID)
	result := func(id string, r wire.TaskResult) (int, string) {
		var e wire.ErrorBody
		status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), r, &e)
		return status, e.Error.Code
	}
	id := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30})
	if status, code := result(id, completed()); status != 409 || code != "task_not_claimed" {
		t.Errorf("result before the claim: %d %s", status, code)
	}
	if status, code := result("task-none", completed()); status != 404 || code != "task_not_found" {
		t.Errorf("result of no task: %d %s", status, code)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath, nil, nil); status != 200 {
		t.Fatalf("claim: %d", status)
	}
	if status, code := result(id, wire.TaskResult{Status: "great"}); status != 400 || code != "status_invalid" {
		t.Errorf("result in another word: %d %s", status, code)
	}
	r := completed()
	r.Output = []byte(`{"n":1}`)
	if status, _ := result(id, r); status != 200 {
		t.Errorf("result: %d", status)
	}
	if status, _ := result(id, wire.TaskResult{Status: wire.TaskFailed}); status != 200 {
		t.Errorf("result again: %d", status)
	}
	if task := readTask(t, p, id); task.Status != wire.TaskCompleted || task.Result.Output["n"] != 1.0 {
		t.Errorf("task %+v", task)
	}

	late, never := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30}),
		enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30})
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath, nil, nil); status != 200 {
		t.Fatalf("claim: %d", status)
	}
	clk.advance(31 * time.Second)
	if n := readNode(t, p); n.StaleTasks != 2 || n.Recovery.Checklist[4].Status != "fail" {
		t.Errorf("before the sweep: %d stale tasks, %+v", n.StaleTasks, n.Recovery)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil); status != 204 {
		t.Errorf("an expired task was handed out: %d", status)
	}
	if n, err := p.Sweep(t.Context()); err != nil || n != 2 {
		t.Errorf("sweep: %d %v", n, err)
	}
	if n := readNode(t, p); n.StaleTasks != 0 || n.LatestOperation.ID == "" ||
		n.LatestOperation.Status != wire.TaskCompleted {
		t.Errorf("after the sweep: %+v", n)
	}
	for _, id := range []string{late, never} {
		if task := readTask(t, p, id); task.Status != wire.TaskExpired {
			t.Errorf("task %+v", task)
		}
	}
	if status, code := result(never, completed()); status != 409 {
		t.Errorf("result of an unclaimed, expired task: %d %s", status, code)
	}
	status, _ := result(late, completed())
	if task := readTask(t, p, late); status != 200 || task.Status != wire.TaskExpired || task.LateAt == "" ||
		task.Result.Status != wire.TaskCompleted {
		t.Errorf("a late result is kept, and the task stays expired: %d %+v", status, task)
	}
	if status, _ := result(late, wire.TaskResult{Status: wire.TaskFailed}); status != 200 ||
		readTask(t, p, late).Result.Status != wire.TaskCompleted {
		t.Errorf("a late result, twice: %d", status)
	}
	wantEvidence(t, p, correlationID, "task.queued", "task.dispatched", "task.completed", "task.expired",
		"task.result_late")
}
