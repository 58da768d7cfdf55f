//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/internal/goldentest"
)

// TestDrills runs every built-in drill in an order that is drawn, and wants each to pass and nothing to be left. The seed
// is printed: GPUAASCTL_DRILL_SEED draws the same order again. With GPUAASCTL_UPDATE_GOLDEN the runs are kept as recordings.
func TestDrills(t *testing.T) {
	needLab(t)
	green(t)
	seed := os.Getenv("GPUAASCTL_DRILL_SEED")
	if seed == "" {
		seed = fmt.Sprint(time.Now().Unix() % 1_000_000)
	}
	t.Logf("GPUAASCTL_DRILL_SEED=%s", seed)
	out, stderr, code := try(t, 30*time.Minute, "chaos", "run", "--book", "everything", "--seed", seed, "--profile", "lab",
		"--node-id", node, "--allocation-id", "alloc-01", "-o", "json")
	var r drill.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit %d, no report: %v\n%s", code, err, stderr)
	}
	for _, d := range r.Drills {
		t.Run(d.Scenario, func(t *testing.T) {
			t.Logf("%s: detected %s, recovered %s, in %s", d.Verdict.Word, d.Detect, d.Recover, drill.Seconds(d.DurationMS))
			if d.Verdict.Word != drill.Pass {
				t.Errorf("%s: %s (%s)", d.Verdict.Word, d.Verdict.Text, d.Log)
				for _, c := range d.Claims {
					t.Logf("%-10s %-50s %s", c.State, c.Title, c.Text)
				}
			}
			if goldentest.Writing() && d.Verdict.Word == drill.Pass {
				record(t, d)
			}
		})
	}
	if code != 0 || len(r.NotRun) > 0 {
		t.Errorf("exit code %d, %s; not run: %v", code, r.Verdict.Text, r.NotRun)
	}
	if out, stderr, code := try(t, time.Minute, "chaos", "residue", "--profile", "lab"); code != 0 {
		t.Errorf("residue: exit code %d\n%s%s", code, out, stderr)
	}
}

// record keeps a run's events as the drill's recording.
func record(t *testing.T, d drill.Drill) {
	t.Helper()
	events, err := os.ReadFile(filepath.Join(d.Log, drill.EventsFile))
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "golden", "drills", d.Scenario+".ndjson"), events, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
