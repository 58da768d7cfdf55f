package compare_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestElsewhereNamesTheRoots compares every recorded fault with the healthy walk: the first hop in the result is a root
// and never a symptom, the blamed hop is in it if it passes there, and no id of the walk counts as a different input. A
// walk does not differ from itself.
func TestElsewhereNamesTheRoots(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "golden", "reports", "*.json"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	healthy := readReport(t, filepath.Join("..", "..", "golden", "reports", "healthy.json"))
	failed, named := 0, 0
	for _, file := range files {
		r := readReport(t, file)
		if e := compare.CompareElsewhere(r, r); len(e.Hops)+len(e.Symptoms) > 0 {
			t.Errorf("%s differs from itself: %+v", file, e)
		}
		if r.Verdict.Outcome != diag.OutcomeFail {
			continue
		}
		failed++
		e := compare.CompareElsewhere(r, healthy)
		blame := slices.IndexFunc(e.Hops, func(h compare.HopDiff) bool { return h.Hop == r.Verdict.Blame.Hop })
		if blame < 0 {
			t.Errorf("%s: the blame %s is not among %+v", file, r.Verdict.Blame.Hop, e.Hops)
			continue
		}
		if len(e.Hops[blame].Inputs) > 0 {
			named++
		}
		for _, h := range e.Hops {
			if slices.Contains(r.Verdict.Symptoms, h.Hop) {
				t.Errorf("%s: %s is a symptom", file, h.Hop)
			}
			for _, in := range h.Inputs {
				if in.Name == "target" && filepath.Base(in.Here) != filepath.Base(in.There) &&
					filepath.Dir(in.Here) == filepath.Dir(in.There) {
					t.Errorf("%s: %s differs by an id alone: %+v", file, h.Hop, in)
				}
			}
		}
	}
	if failed < 20 || named < failed/4 {
		t.Errorf("of %d faults an input was named for %d", failed, named)
	}
	t.Logf("of %d faults an input was named for %d", failed, named)
}

func readReport(t *testing.T, file string) *diag.Report {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r diag.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	again, err := verdict.Replay(hops.BuiltIn(), &r)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestElsewhereNotMeasured: a hop that was not measured there neither passed nor failed there.
func TestElsewhereNotMeasured(t *testing.T) {
	hop := func(s diag.Status) *diag.Report {
		r := &diag.Report{Hops: make([]diag.HopResult, 1)}
		r.Hops[0].ID, r.Hops[0].Status = diag.HopControlPlaneAccess, s
		return r
	}
	here := hop(diag.StatusFail)
	for _, s := range []diag.Status{diag.StatusSkipped, diag.StatusNotReached, diag.StatusInconclusive, ""} {
		if e := compare.CompareElsewhere(here, hop(s)); len(e.NotMeasured) != 1 || len(e.Unknown)+len(e.Hops) != 0 {
			t.Errorf("%s there: %+v", s, e)
		}
	}
	for _, s := range []diag.Status{diag.StatusFail, diag.StatusWarn} {
		if e := compare.CompareElsewhere(here, hop(s)); len(e.Unknown) != 1 || len(e.NotMeasured)+len(e.Hops) != 0 {
			t.Errorf("%s there: %+v", s, e)
		}
	}
}
