package hops

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestOverlapIsNoDrift: an ingress that accepts the old CA and the new one during a replacement has not drifted.
func TestOverlapIsNoDrift(t *testing.T) {
	for _, tc := range []struct {
		word  string
		drift bool
	}{{"true", false}, {"false", true}, {"", true}} {
		fields := map[string]string{"trust.signing_ca": "old", "trust.ingress_ca": "new",
			"trust.ingress_trusts_signing_ca": tc.word}
		c := BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, diag.EndedCompleted, []diag.Fact{
			{ID: hop.FactID(diag.HopControlPlaneAccess, hop.StepAuth), HTTP: &diag.HTTPFacts{Status: 200, Fields: fields}},
		})
		if f := judgeTrustDrift(c); (f != nil) != tc.drift {
			t.Errorf("the platform says %q: %+v", tc.word, f)
		}
	}
}
