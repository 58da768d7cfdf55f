package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLackIsNoWordOfAText: what a walk lacked is a field of its finding, whatever text an answer has.
func TestLackIsNoWordOfAText(t *testing.T) {
	refused := func(f *diag.Fact) {
		f.Failure, f.Phase = diag.HTTPStatus, "http"
		f.HTTP = &diag.HTTPFacts{Status: 403, ErrorCode: "see mapping.fields in the profile"}
	}
	for name, tc := range map[string]struct {
		allocation func(f *diag.Fact)
		step       string
	}{
		"refused": {refused, "token"},
		"unmapped": {func(f *diag.Fact) { delete(f.HTTP.Fields, "allocation.node_id") },
			"compare the platform's answer with mapping.fields"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{"allocation_binding/allocation": tc.allocation})
			if r.Verdict.Outcome != diag.OutcomeInconclusive ||
				!strings.Contains(strings.Join(r.Verdict.Recovery, "; "), tc.step) {
				t.Errorf("%s: %q\n%s", r.Verdict.Outcome, r.Verdict.Recovery, describe(r))
			}
		})
	}
}
