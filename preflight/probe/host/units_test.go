//go:build linux

package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// manyUnits makes systemctl know every unit, and counts how often it is run.
func manyUnits(t *testing.T, more string) (asked func() int) {
	t.Helper()
	f := kit.NewFakes(t)
	count := filepath.Join(f.Dir, "count")
	f.Script(t, "systemctl", `echo asked >>`+count+`
`+more+`
shift 4; gap=
for u; do printf "${gap}LoadState=loaded\nActiveState=active\nFragmentPath=/units/$u\nMainPID=0\n"; gap='\n'; done`)
	return func() int {
		b, err := os.ReadFile(count)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
}

func fragments(facts []diag.Fact) string {
	var all []string
	for _, f := range facts {
		if f.Unit == nil {
			all = append(all, string(f.Failure))
			continue
		}
		all = append(all, filepath.Base(f.Unit.Fragment))
	}
	return strings.Join(all, " ")
}

func unitRequests(names ...string) (reqs []diag.Request) {
	for _, n := range names {
		reqs = append(reqs, diag.Request{Op: diag.OpUnit, Target: n})
	}
	return reqs
}

func TestUnitsOfOneMomentAreAskedTogether(t *testing.T) {
	asked := manyUnits(t, "")
	u := &units{}
	first, leads := u.join("a.service")
	for _, name := range []string{"b.service", "a.service"} {
		if again, leadsToo := u.join(name); again != first || !leads || leadsToo {
			t.Fatalf("%s: another question, or another one who sends it", name)
		}
	}
	u.ask(kit.Patient(t), first)
	if first.err != nil || len(first.all) != 2 || first.all[1]["FragmentPath"] != "/units/b.service" || asked() != 1 {
		t.Errorf("got %v by %d runs: %v", first.all, asked(), first.err)
	}
	if later, leads := u.join("a.service"); later == first || !leads {
		t.Error("a later question took an old answer")
	}
	if got := fragments(kit.Probe(kit.Patient(t), &Prober{},
		unitRequests("a.service", "b.service", "a.service"))); got != "a.service b.service a.service" {
		t.Errorf("got %s", got)
	}
}

func TestUnitsFailApart(t *testing.T) {
	manyUnits(t, `case $# in 5) ;; *) echo "Failed to get properties" >&2; exit 1 ;; esac`)
	if got := fragments(kit.Probe(kit.Patient(t), &Prober{},
		unitRequests("a.service", "b.service"))); got != "a.service b.service" {
		t.Errorf("got %s: each should have asked for itself", got)
	}
}

func TestUnitsOfAnImpatientLeader(t *testing.T) {
	tier.NeedsHost(t)
	manyUnits(t, "sleep 0.2")
	p := &Prober{}
	hasty := make(chan diag.Fact, 1)
	go func() {
		hasty <- kit.Run(t.Context(), p, diag.Request{Op: diag.OpUnit, Target: "a.service", TimeoutMS: 20})
	}()
	time.Sleep(time.Millisecond / 2)
	if f := kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpUnit, Target: "b.service",
		TimeoutMS: 60_000}); !f.Passed() ||
		f.Unit.Fragment != "/units/b.service" {
		t.Errorf("the patient one: %q %s", f.Failure, f.Detail)
	}
	if f := <-hasty; f.Failure != diag.Timeout {
		t.Errorf("the hasty one: %q", f.Failure)
	}
}

func TestAHangingSystemdIsNotAskedAgain(t *testing.T) {
	tier.NeedsHost(t)
	asked := manyUnits(t, "sleep 600")
	for _, f := range kit.Probe(t.Context(), &Prober{}, unitRequests("a.service", "b.service")) {
		if f.Failure != diag.Timeout {
			t.Errorf("%s: %q", f.Request.Target, f.Failure)
		}
	}
	if asked() > 2 {
		t.Errorf("%d questions", asked())
	}
}

func TestUnitsCancelled(t *testing.T) {
	manyUnits(t, "sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	for _, f := range kit.Probe(ctx, &Prober{}, unitRequests("a.service", "b.service")) {
		if f.Failure != diag.Cancelled {
			t.Errorf("%s: %q", f.Request.Target, f.Failure)
		}
	}
}
