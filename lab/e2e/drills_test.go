//go:build linux

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/scenarios"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// TestDrills runs every built-in drill of the platform in a random order. Each must pass and leave nothing behind, by
// its own claims and by independent tools before the first drill and after the last. Drills that concern several nodes
// form one game day; the others run on several nodes concurrently. The seed is printed: GPUAASCTL_DRILL_SEED
// repeats the order. GPUAASCTL_DRILLS names, with commas, the only ones that run. With GPUAASCTL_UPDATE_GOLDEN the
// runs become recordings.
func TestDrills(t *testing.T) {
	l := needLab(t)
	green(t, node)
	before := snapshots(t, l)
	seed := os.Getenv("GPUAASCTL_DRILL_SEED")
	if seed == "" {
		seed = fmt.Sprint(time.Now().Unix() % 1_000_000)
	}
	t.Logf("GPUAASCTL_DRILL_SEED=%s", seed)
	ofAll, ofNodes := drawn(t, seed, os.Getenv("GPUAASCTL_DRILLS"))
	t.Run("platform", func(t *testing.T) {
		if len(ofAll) > 0 {
			runDrills(t, node, "--book", gameDayOf(t, ofAll), "--seed", seed, "--peer-id", split)
		}
	})
	t.Run("nodes", func(t *testing.T) {
		for _, id := range ofNodes {
			t.Run(id, func(t *testing.T) {
				n := ownNode(t, l)
				runDrills(t, n, id)
				settled(t, l, n)
			})
		}
	})
	if out, stderr, code := try(t, time.Minute, "chaos", "residue", "--profile", "lab"); code != 0 {
		t.Errorf("residue: exit code %d\n%s%s", code, out, stderr)
	}
	asBefore(t, l, before)
}

// settled waits until a node has no open task that can expire. The task of an agent that was stopped or killed is
// found expired up to 20 s later, by a walk of the next test on the node.
func settled(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	var open []string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
		var doc struct {
			Items []struct {
				Kind string
				Task string `json:"task_id"`
			}
		}
		get(t, l, "/v1/admin/evidence?node_id="+machine+"&since="+began.Add(-2*time.Minute).UTC().Format(time.RFC3339), &doc)
		ended := map[string]bool{}
		for _, e := range doc.Items {
			if slices.Contains([]string{"task.completed", "task.failed", "task.expired"}, e.Kind) {
				ended[e.Task] = true
			}
		}
		open = nil
		for _, e := range doc.Items {
			if e.Kind == "task.queued" && !ended[e.Task] {
				open = append(open, e.Task)
			}
		}
		if len(open) == 0 {
			return
		}
	}
	t.Logf("tasks of %s are still open: %v", machine, open)
}

// drawn returns built-in drills in the order of the seed: those that concern several nodes, and those of one. only
// names some of them, with commas; "" is all.
func drawn(t *testing.T, seed, only string) (ofAll, ofNodes []string) {
	t.Helper()
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for id := range strings.SplitSeq(only, ",") {
		if id != "" && !slices.ContainsFunc(all, func(s chaos.Scenario) bool { return s.Metadata.ID == id }) {
			t.Fatalf("GPUAASCTL_DRILLS: no drill %s", id)
		}
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatalf("GPUAASCTL_DRILL_SEED: %v", err)
	}
	for _, i := range (chaos.GameDay{}).Order(len(all), n) {
		s := all[i]
		if s.Expect.MustStayGreen.WasGreen { // see TestBareDrills
			continue
		}
		if only != "" && !slices.Contains(strings.Split(only, ","), s.Metadata.ID) {
			continue
		}
		elsewhere := func(f chaos.Fault) bool { return cmp.Or(f.On, s.Target.Role) != chaos.RoleNode }
		if slices.ContainsFunc(s.Faults, elsewhere) {
			ofAll = append(ofAll, s.Metadata.ID)
		} else {
			ofNodes = append(ofNodes, s.Metadata.ID)
		}
	}
	return ofAll, ofNodes
}

// gameDayOf writes a game day of these drills.
func gameDayOf(t *testing.T, ids []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "of-all.yaml")
	const head = "metadata:\n  id: of-all\n  title: What concerns more than one node\n"
	if err := os.WriteFile(path, []byte(head+"drills: ["+strings.Join(ids, ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runDrills runs drills on a node; each must pass.
func runDrills(t *testing.T, machine string, drills ...string) {
	t.Helper()
	runDrillsBy(t, "lab", machine, append(slices.Clone(drills), subject(machine)...)...)
}

// runDrillsBy runs drills by a profile; words are their ids, and what they are about.
func runDrillsBy(t *testing.T, profile, machine string, words ...string) {
	t.Helper()
	argv := append([]string{"chaos", "run"}, words...)
	out, stderr, code := try(t, 30*time.Minute, append(argv, "--profile", profile, "-o", "json")...)
	var r drill.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit %d, no report: %v\n%s", code, err, stderr)
	}
	for _, d := range r.Drills {
		t.Logf("%s on %s: %s, detected %s, recovered %s, in %s", d.Scenario, machine, d.Verdict.Word, d.Detect, d.Recover,
			drill.Seconds(d.DurationMS))
		if d.Verdict.Word != drill.Pass {
			t.Errorf("%s: %s (%s)", d.Verdict.Word, d.Verdict.Text, d.Log)
			for _, c := range d.Claims {
				t.Logf("%-10s %-50s %s", c.State, c.Title, c.Text)
			}
		}
		if goldentest.Writing() && d.Verdict.Word == drill.Pass {
			record(t, d)
		}
	}
	if code != 0 || len(r.NotRun) > 0 {
		t.Errorf("exit code %d, %s; not run: %v", code, r.Verdict.Text, r.NotRun)
	}
}

// asBefore checks with independent tools that every machine in the map is in its earlier state. A unit that was just
// restarted takes a moment.
func asBefore(t *testing.T, l *lab.Lab, before map[string]string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(300 * time.Millisecond) {
		left := map[string]string{}
		for machine, then := range before {
			if lines := unexplained(t, lost(then, on(t, l, machine, snapshot))); lines != "" {
				left[machine] = lines
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(began) > settle {
			for machine, lines := range left {
				t.Errorf("%s is not as before, by independent tools:\n%s", machine, lines)
			}
			return
		}
	}
}

// snapshots returns the output of independent tools about every machine of the lab.
func snapshots(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range l.Machines() {
		all[m.Name] = on(t, l, m.Name, snapshot)
	}
	return all
}

// unexplained returns lines without those about files that a drill may leave changed.
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

// record stores a run's events as the drill's recording.
func record(t *testing.T, d drill.Drill) {
	t.Helper()
	events, err := os.ReadFile(filepath.Join(d.Log, drill.EventsFile))
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "..", "golden", "drills", d.Scenario+".ndjson"), events, 0o644)
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
