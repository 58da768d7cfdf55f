//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/lab"
)

// crashSample is the number of cells in the lab suite: one for each way to die.
const crashSample = 9

// crashCell is one drill in which something dies as soon as one step of the drill was reported.
type crashCell struct {
	tier   string // of its faults; the drill is testdata/crash-TIER.yaml
	at     drill.Kind
	strike string
}

func (c crashCell) name() string { return fmt.Sprintf("%s/%s/%s", c.tier, c.at, c.strike) }

// crashTiers lists the drills, one for each way in which a fault can end.
func crashTiers() []string { return []string{"t0", "t1", "t2", "t3"} }

// crashSteps are the events of a run at which something may die, in order.
func crashSteps() []drill.Kind {
	return []drill.Kind{drill.Arming, drill.Armed, drill.Breaking, drill.Broken, drill.Walked, drill.Reverting,
		drill.Reverted, drill.Compared, drill.Closed}
}

// platform reports whether the cell breaks the platform, and so the walks of all nodes.
func (c crashCell) platform() bool { return c.tier == "t3" }

// crashCells is the whole matrix. The platform's cells come first, since no other cell can run at the same time.
func crashCells() []crashCell {
	var all []crashCell
	for _, tier := range slices.Backward(crashTiers()) {
		for _, at := range crashSteps() {
			for _, s := range strikes() {
				all = append(all, crashCell{tier, at, s.name})
			}
		}
	}
	return all
}

// sampleCells draws as many cells as there are ways to die: each way once, and each tier equally often.
func sampleCells(seed uint64) []crashCell {
	r := rand.New(rand.NewPCG(seed, 0))
	tiers, steps := r.Perm(crashSample), r.Perm(len(crashSteps()))
	var all []crashCell
	for i, s := range strikes() {
		all = append(all, crashCell{crashTiers()[tiers[i]%len(crashTiers())], crashSteps()[steps[i]], s.name})
	}
	slices.SortStableFunc(all, func(a, b crashCell) int { return strings.Compare(b.tier, a.tier) })
	return all
}

// crashSeed is the given seed, or one that changes every hour.
func crashSeed(t *testing.T) uint64 {
	if text := os.Getenv("GPUAASCTL_CRASH_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("GPUAASCTL_CRASH_SEED: %v", err)
		}
		return seed
	}
	h := fnv.New32a()
	fmt.Fprint(h, time.Now().UTC().Format("2006-01-02 15h"))
	return uint64(h.Sum32())
}

// chosenCells returns all cells if they are requested or -run names cells; otherwise a sample.
func chosenCells(t *testing.T) []crashCell {
	named := false
	if f := flag.Lookup("test.run"); f != nil {
		named = strings.Contains(f.Value.String(), "TestCrashMatrix/")
	}
	if named || wholeMatrix() {
		return crashCells()
	}
	seed := crashSeed(t)
	t.Logf("a sample of %d of %d cells; GPUAASCTL_CRASH_SEED=%d draws it again, GPUAASCTL_CRASH=all runs all", crashSample,
		len(crashCells()), seed)
	return sampleCells(seed)
}

// TestCrashMatrix: whatever process dies, and at whatever step of a drill, the machine is restored within the
// drill's TTL and the grace period of the undo, the journal or the log names who reverted it, and closing the
// drill leaves nothing behind.
func TestCrashMatrix(t *testing.T) {
	l := needLab(t)
	m := &crashMatrix{lab: l, free: make(chan string, len(l.Machines())), fault: renamedFault(t)}
	for _, machine := range l.Machines() {
		if machine.IsNode() {
			m.free <- machine.Name
		}
	}
	t.Cleanup(func() { m.say(t, "\n"+m.table()) })
	for _, c := range chosenCells(t) {
		t.Run(c.name(), func(t *testing.T) {
			if needs := strikeOf(c.strike).needs; needs != "" {
				if _, err := exec.LookPath(needs); err != nil {
					t.Skip("skipped: needs " + needs)
				}
			}
			if !c.platform() {
				t.Parallel()
			}
			walked := <-m.free
			defer func() { m.free <- walked }()
			m.try(t, c, walked)
		})
	}
}

// crashMatrix is the shared state of the cells.
type crashMatrix struct {
	lab   *lab.Lab
	free  chan string // nodes on which no drill is
	fault string      // gpuaas-fault under another name, so that it is not taken for one that a drill left

	mu   sync.Mutex // guards what follows
	rows []crashRow
	sure map[string]bool // nodes that were healthy at the end of their last cell
}

// renamedFault copies gpuaas-fault.
func renamedFault(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(tool()), "gpuaas-fault"))
	path := filepath.Join(t.TempDir(), "checker")
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// unsure reports whether the node must be checked before a cell begins. A cell of the platform affects every node.
func (m *crashMatrix) unsure(c *crashTrial) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sure := m.sure[c.walked]
	if c.platform() || m.sure == nil {
		m.sure = map[string]bool{}
	}
	m.sure[c.walked] = true
	return !sure
}

// crashRow is how one cell ended.
type crashRow struct {
	crashCell
	struck  string        // what was hit, and how long after the step was reported
	missed  bool          // the target no longer existed
	reverts string        // who, and why
	within  time.Duration // from the arming until the machine was in its earlier state
	cleared string        // by whom
	took    time.Duration
	failed  bool
}

// say reports progress: immediately if the whole matrix is run, which takes long.
func (m *crashMatrix) say(t *testing.T, text string) {
	if wholeMatrix() {
		fmt.Println(text)
		return
	}
	t.Log(text)
}

func wholeMatrix() bool { return os.Getenv("GPUAASCTL_CRASH") == "all" }

func (m *crashMatrix) add(t *testing.T, r crashRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(t, r.String())
	m.rows = append(m.rows, r)
	if r.failed {
		m.sure = nil
	}
}

func (r crashRow) String() string {
	mark := "ok"
	if r.failed {
		mark = "FAILED"
	}
	return fmt.Sprintf("%-6s %-27s %4.0f s  %-40s as before %4.1f s after arming, by %-55s cleared by %s", mark, r.name(),
		r.took.Seconds(), r.struck, r.within.Seconds(), r.reverts, r.cleared)
}

// table lists every cell that was run, and the counts of each kind.
func (m *crashMatrix) table() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.rows, func(a, b crashRow) int { return strings.Compare(a.name(), b.name()) })
	var b strings.Builder
	failed, missed := 0, 0
	who := map[string]int{}
	for _, r := range m.rows {
		if r.failed {
			failed++
		}
		if r.missed {
			missed++
		}
		fmt.Fprintln(&b, r)
		by, _, _ := strings.Cut(r.reverts, ":")
		who[by]++
	}
	for _, by := range slices.Sorted(maps.Keys(who)) {
		fmt.Fprintf(&b, "%4d reverted by %s\n", who[by], by)
	}
	fmt.Fprintf(&b, "%d cells tried of %d: in %d something was struck, in %d nothing was there any more; %d failed",
		len(m.rows), len(crashCells()), len(m.rows)-missed, missed, failed)
	return b.String()
}

// TestCrashSample: a sample has every way to die and every tier, whatever the seed, and each cell's drill is there.
func TestCrashSample(t *testing.T) {
	if n := len(strikes()); n != crashSample {
		t.Fatalf("%d ways to die, and samples of %d", n, crashSample)
	}
	for seed := range uint64(50) {
		ways, tiers := map[string]bool{}, map[string]int{}
		for _, c := range sampleCells(seed) {
			ways[c.strike] = true
			tiers[c.tier]++
		}
		if len(ways) != crashSample || len(tiers) != len(crashTiers()) {
			t.Errorf("seed %d: %d ways to die, tiers %v", seed, len(ways), tiers)
		}
	}
	for _, tier := range crashTiers() {
		if _, err := os.Stat(filepath.Join("testdata", "crash-"+tier+".yaml")); err != nil {
			t.Error(err)
		}
	}
}
