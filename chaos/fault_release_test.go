package chaos

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// TestReleaseKindAgainstThePlatform runs the kind's own commands against the reference platform, whose node is
// absent: the slot is not free, undo returns the allocation to the tenant, even if it runs twice, and without undo
// the release expires.
func TestReleaseKindAgainstThePlatform(t *testing.T) {
	var ahead atomic.Int64 // of the platform's clock
	p := platformtest.StartPlatform(t, platformtest.Options{
		Now:    func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 },
	})
	params := &releaseParams{Allocation: platformtest.AllocationID, API: p.APIBase, For: Duration(2 * time.Minute)}
	made, do := onPlatform(t, p, "release", params)
	run := made.Changes[1].Run
	if !run.Late {
		t.Error("its state is read before there is a token")
	}
	before := do(run.State)
	for range 2 {
		do(run.Do)
		if now := do(run.State); now != run.Injected || now == before {
			t.Fatalf("it was %s and is %s, want %s", before, now, run.Injected)
		}
		if check := made.Verify[0]; !strings.Contains(do(check.Exec), check.Has) {
			t.Errorf("nobody has cleaned up: %s, want %s", do(check.Exec), check.Has)
		}
		do(run.Undo)
		do(run.Undo)
		if now := do(run.State); now != before {
			t.Fatalf("after undo it is %s, and was %s", now, before)
		}
	}
	do(run.Do)
	ahead.Store(int64(3 * time.Minute))
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := do(run.State); now != before {
		t.Errorf("nobody withdrew it: after its time it is %s, and was %s", now, before)
	}
}
