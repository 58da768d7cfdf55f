//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/goldentest"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// TestDrills runs every built-in drill in an order that is drawn, and wants each to pass and nothing to be left: by what the
// drills say, and by what plain tools say before the first and after the last. The seed is printed: GPUAASCTL_DRILL_SEED
// draws the same order again. With GPUAASCTL_UPDATE_GOLDEN the runs are kept as recordings.
func TestDrills(t *testing.T) {
	l := needLab(t)
	green(t)
	before := snapshots(t, l)
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
	asBefore(t, l, before)
}

// asBefore wants every machine to be as before by plain tools. A unit that was just restarted takes its moment.
func asBefore(t *testing.T, l *lab.Lab, before map[string]string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(300 * time.Millisecond) {
		left := map[string]string{}
		for machine, now := range snapshots(t, l) {
			if lines := unexplained(t, lost(before[machine], now)); lines != "" {
				left[machine] = lines
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(began) > 10*time.Second {
			for machine, lines := range left {
				t.Errorf("%s is not as before, by plain tools:\n%s", machine, lines)
			}
			return
		}
	}
}

// snapshots are what plain tools say of every machine of the lab.
func snapshots(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range l.Machines() {
		all[m.Name] = on(t, l, m.Name, snapshot)
	}
	return all
}

// unexplained is lines without those of files that a drill declares to leave changed.
func unexplained(t *testing.T, lines string) string {
	t.Helper()
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	declared := func(word string) bool {
		return slices.ContainsFunc(all, func(s chaos.Scenario) bool {
			return slices.ContainsFunc(s.Recovery.AllowedChanges, func(a chaos.Allowed) bool {
				is, _ := path.Match(a.Key, word)
				return is && a.Class == step.ClassFile
			})
		})
	}
	var b strings.Builder
	for line := range strings.Lines(lines) {
		if !slices.ContainsFunc(strings.Fields(line), declared) {
			b.WriteString(line)
		}
	}
	return b.String()
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

// TestUnexplained: only what a drill declares to leave changed is passed over.
func TestUnexplained(t *testing.T) {
	const new, old = "  + /etc/gpuaas/generations/3/cert.pem 644 0:0 900\n", "  - /etc/gpuaas/current 777 0:0 13\n"
	const hosts, rule = "  + /etc/hosts 644 0:0 200\n", "  - table inet left\n"
	if left := unexplained(t, new+hosts+old+rule); left != hosts+rule {
		t.Errorf("left:\n%s", left)
	}
}
