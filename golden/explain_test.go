package golden

import (
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestExplainForKnowsTheBlame: the failure of every recorded finding is one that its signal's row lists, so that
// `gpuaasctl explain SIGNAL --for FAILURE` takes it, and the steps of the report are among those that it keeps.
func TestExplainForKnowsTheBlame(t *testing.T) {
	blames := 0
	for name, r := range walks(t) {
		for i := range r.Hops {
			for _, f := range append([]diag.Finding{r.Hops[i].Finding}, r.Hops[i].Also...) {
				row, known := diag.LookupSignal(f.Signal)
				if known && f.Failure != diag.OK && !slices.Contains(row.Failures, f.Failure) {
					t.Errorf("%s: %s is not a failure of %s in diag/catalogue/signals.yaml", name, f.Failure, f.Signal)
				}
			}
		}
		b := r.Verdict.Blame
		if b == nil || b.Failure == diag.OK {
			continue
		}
		blames++
		row, _ := diag.LookupSignal(b.Signal)
		for _, step := range row.Recovery {
			if _, kept := step.ForFailure(b.Failure); kept {
				continue
			}
			for _, next := range r.Verdict.Steps {
				if filled, ok := step.Filled(nil); ok && next.Text == filled.Text {
					t.Errorf("%s: explain --for %s lacks the step %q", name, b.Failure, next.Text)
				}
			}
		}
	}
	if !testing.Short() && blames < 30 {
		t.Errorf("only %d blames with a failure", blames)
	}
}
