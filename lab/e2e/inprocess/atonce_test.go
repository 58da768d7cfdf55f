//go:build linux

package inprocess

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
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
	n := 10
	if testing.Short() {
		n = 4
	}
	w := start(t, options{})
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

// TestTwoAtOnce: two concurrent walks name the same fault, and both verdicts replay.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: walks every fault twice more")
	}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, f.options)
			if f.do != nil {
				f.do(t, w)
			}
			for _, r := range w.atOnce(t, 2) {
				f.check(t, r)
				again, err := preflight.Replay(r)
				if err != nil {
					t.Fatalf("replay: %v", err)
				}
				if b, a := r.Verdict, again.Verdict; b.Outcome != a.Outcome || b.Confidence != a.Confidence ||
					!slices.Equal(b.Symptoms, a.Symptoms) {
					t.Errorf("%s %s, and %s %s when it is judged again", b.Outcome, b.Confidence, a.Outcome, a.Confidence)
				}
			}
		})
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
