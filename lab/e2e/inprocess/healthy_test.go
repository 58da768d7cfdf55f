//go:build linux

package inprocess

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// walksInARow and usualWalks are the numbers of consecutive walks of a healthy world that must be green, in a deep run
// and in any other. One walk in processWalks starts the node's helper as a process.
const walksInARow, usualWalks, processWalks = 50, 4, 4

// TestHealthyFiftyTimes: every hop passes on measured facts, each time.
func TestHealthyFiftyTimes(t *testing.T) {
	t.Parallel()
	here, process := start(t, options{}), start(t, options{process: true})
	began, n := time.Now(), deepOr(walksInARow, usualWalks)
	for i := range n {
		w := here
		if i%processWalks == 0 {
			w = process
		}
		r := w.walk(t)
		if r.Verdict.Outcome != diag.OutcomePass {
			t.Fatalf("walk %d:\n%s", i, describe(r))
		}
		for _, h := range r.Hops {
			if h.ID == diag.HopGPUHealth {
				continue
			}
			if h.Status != diag.StatusPass || h.Text == "" || len(h.Evidence) == 0 {
				t.Fatalf("walk %d: %s is %s, text %q, evidence %v", i, h.ID, h.Status, h.Text, h.Evidence)
			}
		}
		if i == 0 {
			t.Logf("\n%s", describe(r))
		}
	}
	t.Logf("%d walks in %s", n, time.Since(began))
}
