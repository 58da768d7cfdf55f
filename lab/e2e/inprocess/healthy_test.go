//go:build linux

package inprocess

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// walksInARow is the number of consecutive walks of a healthy world that must be green.
const walksInARow = 50

// TestHealthyFiftyTimes: every hop passes on measured facts, each time.
func TestHealthyFiftyTimes(t *testing.T) {
	t.Parallel()
	w := start(t, options{})
	n := walksInARow
	if testing.Short() {
		n = 5
	}
	began := time.Now()
	for i := range n {
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
