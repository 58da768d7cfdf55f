//go:build linux

package e2e

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestHealthyAgainAndAgain: every walk on a healthy lab passes, on measured evidence. The default is twenty walks;
// GPUAASCTL_WALKS overrides it.
func TestHealthyAgainAndAgain(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	times := 20
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_WALKS")); err == nil {
		times = n
	}
	var slowest time.Duration
	for i := range times {
		r, code, written := walk(t, machine)
		if code != 0 || r.Verdict.Outcome != diag.OutcomePass {
			t.Fatalf("walk %d of %d: exit %d\n%s", i+1, times, code, describe(r))
		}
		measured := map[string]bool{}
		for _, f := range r.Facts {
			measured[f.ID] = true
		}
		for _, h := range r.Hops {
			if h.ID == diag.HopGPUHealth {
				continue
			}
			if h.Status != diag.StatusPass || len(h.Evidence) == 0 {
				t.Errorf("walk %d: %s is %s on %v", i+1, h.ID, h.Status, h.Evidence)
			}
			for _, id := range h.Evidence {
				if !measured[id] {
					t.Errorf("walk %d: %s rests on %s, which is not among the facts", i+1, h.ID, id)
				}
			}
		}
		slowest = max(slowest, time.Duration(r.Run.DurationMS)*time.Millisecond)
		noSecrets(t, l, written)
	}
	t.Logf("%d walks passed, the slowest in %s", times, slowest)
	if second := oracle(t, l, machine); second != nil {
		r, _, _ := walk(t, machine)
		agree(t, l, machine, r, second())
	}
}
