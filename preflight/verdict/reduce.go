package verdict

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Reduced returns why a report can be neither judged again nor compared, "" if it can be.
func Reduced(r *diag.Report) string {
	if r.FactsKept == "" {
		return ""
	}
	return "it keeps only the facts that its verdict rests on (--facts " + r.FactsKept + ")"
}

// Reduce returns r with only the facts that its verdict rests on: those that failing, warning and inconclusive hops
// cite, proofs, and observations. Everything that was judged stays, and r is not changed.
func Reduce(r *diag.Report) *diag.Report {
	cited := map[string]bool{}
	for i := range r.Hops {
		h := &r.Hops[i]
		for f := range FindingsOf(h) {
			switch f.Status {
			case diag.StatusFail, diag.StatusWarn, diag.StatusInconclusive:
				for _, id := range f.Evidence {
					cited[id] = true
				}
			}
		}
	}
	v := &r.Verdict
	for _, b := range append([]diag.Blame{{Proof: v.Proof, Observation: v.Observation}}, v.OtherFindings...) {
		if b.Proof != nil {
			cited[b.Proof.Failing], cited[b.Proof.Passing] = true, true
		}
		if b.Observation != nil {
			cited[b.Observation.Fact] = true
		}
	}
	small := *r
	small.FactsKept, small.Facts = diag.FactsBlame, []diag.Fact{}
	for i := range r.Facts {
		if cited[r.Facts[i].ID] {
			small.Facts = append(small.Facts, r.Facts[i])
		}
	}
	return &small
}

// asStated returns a reduced report as it was judged, or an error if its facts refute a proof.
func asStated(r *diag.Report) (*diag.Report, error) {
	facts := diag.FactsByID(r.Facts)
	for _, p := range proofsOf(r) {
		a, b := facts[p.Failing], facts[p.Passing]
		if a == nil || b == nil {
			return nil, fmt.Errorf("%w: the proof names facts %q and %q, and not both are there", ErrInvalidReport, p.Failing,
				p.Passing)
		}
		changed := diag.Changed(&a.Request, &b.Request)
		if len(changed) == 0 {
			changed = []string{diag.ChangedNothing}
		}
		if len(changed) != 1 || changed[0] != p.Changed {
			return nil, fmt.Errorf("%w: the proof says that %s changed between %q and %q; really changed: %v",
				ErrInvalidReport, p.Changed, p.Failing, p.Passing, changed)
		}
	}
	return new(*r), nil
}

// proofsOf returns the proofs of a verdict.
func proofsOf(r *diag.Report) (all []*diag.Proof) {
	if p := r.Verdict.Proof; p != nil {
		all = append(all, p)
	}
	for _, b := range r.Verdict.OtherFindings {
		if b.Proof != nil {
			all = append(all, b.Proof)
		}
	}
	return all
}
