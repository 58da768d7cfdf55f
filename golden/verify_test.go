package golden

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// onlyWalked returns a judged report as a walk with --only would judge it on the same facts: it has those hops and what
// they need and, without an allocation, nothing of one. A hop that the report's own walk left out stays left out.
func onlyWalked(t *testing.T, r *diag.Report, ids []diag.HopID, allocation bool) *diag.Report {
	t.Helper()
	chain := hops.BuiltIn().List()
	ids = hop.WithNeeds(chain, ids, true)
	out := *r
	out.Verdict = diag.Verdict{} // its proof would have to hold
	out.Plan.Hops, out.Facts = slices.Clone(r.Plan.Hops), nil
	left := map[diag.HopID]bool{}
	for i := range out.Plan.Hops {
		row := &out.Plan.Hops[i]
		why := ""
		switch {
		case !slices.Contains(ids, row.ID):
			why = hop.SkipOnly
		case !allocation && hop.In(chain, row.ID).Allocation:
			why = "no --allocation-id given"
		}
		if left[row.ID] = why != ""; left[row.ID] {
			row.Skip = why
		}
	}
	if !allocation {
		out.Subject.AllocationID = ""
	}
	for i := range r.Facts {
		if !left[hop.OfFact(r.Facts[i].ID)] {
			out.Facts = append(out.Facts, r.Facts[i])
		}
	}
	return judged(t, &out)
}

// staysRed describes how a report's command that verifies the repair would miss the fault on the facts that blame it,
// or blame something else; "" if it is red for the same fault, or only knows less.
func staysRed(t *testing.T, r *diag.Report) string {
	t.Helper()
	b := r.Verdict.Blame
	if b == nil {
		return ""
	}
	words := strings.Fields(r.Verdict.RepairProof)
	ids := diag.HopIDs()
	if at := slices.Index(words, "--only"); at >= 0 {
		ids = nil
		for id := range strings.SplitSeq(words[at+1], ",") {
			ids = append(ids, diag.HopID(id))
		}
	}
	// a varied walk may have the facts of an allocation that it does not name
	allocation := slices.Contains(words, "--allocation-id") || r.Subject.AllocationID == ""
	v := &onlyWalked(t, r, ids, allocation).Verdict
	switch {
	case v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn:
		return fmt.Sprintf("it blames %s (%s), and on the same facts %q is a %s", b.Hop, b.Signal, r.Verdict.RepairProof,
			v.Outcome)
	case v.Blame == nil || v.Blame.Status == diag.StatusInconclusive, v.Blame.Hop == b.Hop && v.Blame.Signal == b.Signal:
		return ""
	}
	return fmt.Sprintf("it blames %s (%s), and on the same facts %q blames %s (%s)", b.Hop, b.Signal,
		r.Verdict.RepairProof, v.Blame.Hop, v.Blame.Signal)
}

// TestVerifyIsRedOnTheSameFacts: no recording's command that verifies the repair passes, or blames something else,
// while the fault is in force. TestVariedFacts checks the same of varied facts.
func TestVerifyIsRedOnTheSameFacts(t *testing.T) {
	blamed := 0
	for name, r := range walks(t) {
		if r.Verdict.Blame != nil {
			blamed++
		}
		if why := staysRed(t, r); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	if blamed < 20 && !testing.Short() { // which samples
		t.Errorf("only %d recordings blame a hop", blamed)
	}
}
