//go:build linux

package inprocess

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// atOnce runs n concurrent walks of a world, each with its own login, terminal and task.
func (w *world) atOnce(t *testing.T, n int) []*diag.Report {
	t.Helper()
	reports := make([]*diag.Report, n)
	var wg sync.WaitGroup
	for i := range reports {
		j := w.prepare(t)
		wg.Go(func() { reports[i] = j.run(t.Context(), t) })
	}
	wg.Wait()
	return reports
}

// TestTenAtOnce: ten concurrent walks of one healthy node pass, each with its own task and terminal, and leave
// nothing behind that affects the next walk. It runs before the parallel tests, since ten walks are load enough.
func TestTenAtOnce(t *testing.T) {
	n := deepOr(10, 4)
	w := start(t, options{process: true})
	began, used := time.Now(), processCPU(t)
	for range n {
		w.walk(t)
	}
	alone, aloneCPU := time.Since(began), processCPU(t)-used
	began, used = time.Now(), processCPU(t)
	reports := w.atOnce(t, n)
	took, cpu := time.Since(began), processCPU(t)-used
	t.Logf("%d walks one after another %s with %s of CPU, at once %s with %s", n, alone, aloneCPU, took, cpu)
	seen := map[string]bool{}
	for i, r := range append(reports, w.walk(t)) {
		if r.Verdict.Outcome != diag.OutcomePass {
			t.Errorf("walk %d:\n%s", i, describe(r))
		}
		for _, e := range r.Evidence {
			if e.CorrelationID != r.Run.CorrelationID {
				t.Errorf("walk %d pulled in %s of %s", i, e.Kind, e.CorrelationID)
			}
		}
		for _, f := range r.Facts {
			if f.HTTP == nil {
				continue
			}
			for _, field := range []string{"task.id", "token.session_id"} {
				id := f.HTTP.Fields[field]
				if (f.ID == "node_task_roundtrip/enqueue" || f.ID == "terminal_token_mint/mint") && id != "" {
					if seen[id] {
						t.Errorf("two walks have %s %s", field, id)
					}
					seen[id] = true
				}
			}
		}
	}
	if len(seen) != 2*(n+1) {
		t.Errorf("%d tasks and sessions in %d walks", len(seen), n+1)
	}
}

// processCPU returns the CPU time of this process and of its exited helpers.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}
