package platform_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

const releasePath = "/v1/allocations/" + platformtest.AllocationID + "/release"

// releaseRig is a platform with a node, whose clean-ups a test takes and answers.
type releaseRig struct {
	*platformtest.Platform
	t    *testing.T
	clk  *clock
	cred platformtest.Credential
}

func newReleaseRig(t *testing.T) *releaseRig {
	r := &releaseRig{t: t, clk: &clock{}}
	r.Platform = platformtest.StartPlatform(t, platformtest.Options{Now: r.clk.now, Config: slowSweeps})
	r.cred = r.Enroll(platformtest.NodeID)
	return r
}

func (r *releaseRig) release(body map[string]any, want int) {
	r.t.Helper()
	if status, _ := r.Do(http.MethodPost, releasePath, body, nil); status != want {
		r.t.Fatalf("release %v: %d, want %d", body, status, want)
	}
}

func (r *releaseRig) claim() (task wire.Task) {
	r.DoNode(r.cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	return task
}

func (r *releaseRig) complete(task wire.Task) {
	r.DoNode(r.cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", task.ID), completed(),
		nil)
}

func (r *releaseRig) sweep() {
	r.t.Helper()
	if _, err := r.Sweep(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// is checks a state, an occupancy and the status of the release.
func (r *releaseRig) is(when, state, occupancy, word string) {
	r.t.Helper()
	var out struct{ Release string }
	r.Do(http.MethodGet, releasePath, nil, &out)
	a := allocation(r.t, r.Platform, platformtest.AllocationID)
	if a.State != state || a.Occupancy != occupancy || out.Release != word {
		r.t.Errorf("%s: %s, %s, release %s; want %s, %s, %s", when, a.State, a.Occupancy, out.Release, state, occupancy, word)
	}
}

// TestReleaseForAWhile: a temporary release cleans up like any other one, its status does not change while the
// node cleans up, and the tenant gets the allocation back when the release is withdrawn or expires.
func TestReleaseForAWhile(t *testing.T) {
	while := map[string]any{"reason": "drill", "for_seconds": 60}
	t.Run("withdrawn before the node came", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(while, 200)
		r.is("asked for", "releasing", "cleanup", "for_a_while")
		if status, _ := r.Do(http.MethodDelete, releasePath, nil, nil, wire.HeaderCorrelationID, "end-1"); status != 200 {
			t.Errorf("end: %d", status)
		}
		r.is("ended", "active", "occupied", "none")
		if task := r.claim(); task.Type == wire.TaskCleanup {
			t.Error("the node is still asked to clean up after an allocation that is in use")
		}
		rows := auditRows(t, r.Platform, "?correlation_id=end-1")
		if len(rows) != 1 || rows[0].Action != "allocation.end_release" {
			t.Errorf("audit %+v", rows)
		}
	})
	t.Run("withdrawn while the node cleans up", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(while, 200)
		task, status := r.claim(), make(chan int, 1)
		go func() {
			s, _ := r.Do(http.MethodDelete, releasePath, nil, nil)
			status <- s
		}()
		select {
		case s := <-status:
			t.Fatalf("ended with %d while the node is cleaning up", s)
		case <-time.After(300 * time.Millisecond):
		}
		r.is("the end waits", "releasing", "cleanup", "for_a_while")
		r.clk.advance(time.Minute)
		cleaned := r.clk.now()
		r.complete(task)
		if s := <-status; s != 200 {
			t.Errorf("end: %d", s)
		}
		r.is("ended", "active", "occupied", "none")
		if rows := auditRows(t, r.Platform, "?action=allocation.end_release"); len(rows) != 1 ||
			rows[0].FirstSeenAt < cleaned.UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("cleaned at %s, and the end of the release is noted before that: %+v", cleaned, rows)
		}
	})
	t.Run("its time is over", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(while, 200)
		task := r.claim()
		r.clk.advance(61 * time.Second)
		r.sweep()
		r.is("the node is at it", "releasing", "cleanup", "for_a_while")
		r.complete(task)
		r.is("cleaned", "released", "occupied", "for_a_while")
		if n := readNode(t, r.Platform); n.Occupancy != "occupied" {
			t.Errorf("the node's place is %q, and its tenant comes back", n.Occupancy)
		}
		if status, code := decide(t, r.Platform, platformtest.NodeID, "retire", nil); status != 409 || code != "node_in_use" {
			t.Errorf("a node whose tenant comes back is retired: %d %s", status, code)
		}
		r.sweep()
		r.is("swept", "active", "occupied", "none")
	})
	t.Run("the node never came", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(map[string]any{"reason": "drill", "for_seconds": 60, "ttl_seconds": 30}, 200)
		r.claim()
		r.clk.advance(31 * time.Second)
		r.sweep()
		r.is("failed", "release_failed", "cleanup", "for_a_while")
		r.clk.advance(30 * time.Second)
		r.sweep()
		r.is("swept", "active", "occupied", "none")
	})
	t.Run("made final", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(map[string]any{"reason": "drill", "for_seconds": 60, "ttl_seconds": 30}, 200)
		r.clk.advance(31 * time.Second)
		r.sweep()
		r.release(map[string]any{"reason": "the tenant left"}, 200)
		r.complete(r.claim())
		r.is("released", "released", "free", "for_good")
		r.clk.advance(time.Hour)
		r.sweep()
		r.Do(http.MethodDelete, releasePath, nil, nil)
		r.is("an end that has nothing to end", "released", "free", "for_good")
	})
	t.Run("made final while the node cleans up, and when it has", func(t *testing.T) {
		for name, cleaned := range map[string]bool{"cleaning": false, "cleaned": true} {
			r := newReleaseRig(t)
			r.release(while, 200)
			task := r.claim()
			if cleaned {
				r.complete(task)
			}
			r.release(map[string]any{"reason": "the tenant left"}, 200)
			if !cleaned {
				r.is(name, "releasing", "cleanup", "for_good")
				r.complete(task)
			}
			r.Do(http.MethodDelete, releasePath, nil, nil)
			r.clk.advance(time.Hour)
			r.sweep()
			r.is(name+", an hour later", "released", "free", "for_good")
			if rows := auditRows(t, r.Platform, "?action=allocation.release"); len(rows) != 2 {
				t.Errorf("%s: audit %+v", name, rows)
			}
			r.release(while, 409)
			r.release(map[string]any{"reason": "again"}, 409)
		}
	})
	t.Run("no time", func(t *testing.T) {
		r := newReleaseRig(t)
		r.release(map[string]any{"for_seconds": -1}, 400)
		r.release(map[string]any{"for_seconds": 90000}, 400)
		r.is("refused", "active", "occupied", "none")
	})
}

// TestWhoIsBackIsSpared: a clean-up that was queued while the login's other user was temporarily released does not
// end the processes of that user once it is back.
func TestWhoIsBackIsSpared(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{
		Nodes: []platform.SeedNode{{ID: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{
			{ID: "gone", NodeID: platformtest.NodeID, State: "active", OSUser: "shared"},
			{ID: "back", NodeID: platformtest.NodeID, State: "active", OSUser: "shared"},
		},
	})
	cred := p.Enroll(platformtest.NodeID)
	release := func(id string, seconds int) {
		p.Do(http.MethodPost, "/v1/allocations/"+id+"/release", map[string]any{"reason": "test", "for_seconds": seconds}, nil)
	}
	release("back", 60)
	release("gone", 0)
	if status, _ := p.Do(http.MethodDelete, "/v1/allocations/back/release", nil, nil); status != http.StatusOK {
		t.Fatalf("end: %d", status)
	}
	var task wire.Task
	var payload wire.CleanupPayload
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	if err := json.Unmarshal(task.Payload, &payload); err != nil || payload.AllocationID != "gone" ||
		!payload.KeepProcesses {
		t.Errorf("the clean-up: %+v, %v", payload, err)
	}
}
