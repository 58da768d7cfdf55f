package verdict

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// wholeJudgement returns the blame of a part of a walk by a report of that part's own facts, judged in full.
func wholeJudgement(r diag.Report, walked []diag.HopID) named {
	r.Plan.Hops = slices.Clone(r.Plan.Hops)
	left := map[diag.HopID]bool{}
	for i := range r.Plan.Hops {
		if row := &r.Plan.Hops[i]; !slices.Contains(walked, row.ID) {
			row.Skip, row.Left, left[row.ID] = hop.SkipOnly, nil, true
		}
	}
	r.Facts = slices.DeleteFunc(slices.Clone(r.Facts), func(f diag.Fact) bool { return left[hop.OfFact(f.ID)] })
	chain := hops.BuiltIn()
	c := chain.CaseOf(&r)
	if v, _ := Decide(chain.List(), Assess(chain.List(), c), c); v.Blame != nil {
		return named{v.Blame.Hop, v.Blame.Signal}
	}
	return named{}
}

// TestPartOfACaseIsJudgedAlike: the blame of a part, which is judged on the facts of the whole walk's case and no
// further than to its roots, is that of a report of this part: for each recording with one fact less than it has, and
// for each hop that a walk may be limited to.
func TestPartOfACaseIsJudgedAlike(t *testing.T) {
	files, err := filepath.Glob("../../golden/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	blames, chain := map[named]bool{}, hops.BuiltIn()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		whole := r.Facts
		for lacks := -1; lacks < len(whole); lacks += 24 { // -1: none
			without := ""
			if r.Facts = whole; lacks >= 0 {
				r.Facts, without = slices.Delete(slices.Clone(whole), lacks, lacks+1), whole[lacks].ID
			}
			c := chain.CaseOf(&r)
			Assess(chain.List(), c) // a part takes over nothing that was derived from the whole
			for _, id := range diag.HopIDs() {
				walked := hop.WithNeeds(chain.List(), []diag.HopID{id}, true)
				want, got := wholeJudgement(r, walked), blameOfPart(c, walked)
				if got != want {
					t.Errorf("%s without %q, --only %s: blames %v, and in full %v", file, without, id, got, want)
				}
				blames[want] = true
			}
		}
	}
	if len(blames) < 20 {
		t.Errorf("only %d different blames", len(blames))
	}
}
