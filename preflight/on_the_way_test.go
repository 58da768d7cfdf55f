package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestHalfAnAnswerToTheNode: a node whose task waits are answered by halves is not let in, and its certificate has no
// part in it.
func TestHalfAnAnswerToTheNode(t *testing.T) {
	yes := true
	for _, word := range []diag.Failure{diag.HTTPClosed, diag.HTTPMalformed} {
		for _, issuer := range []string{"CN=signing", "CN=other"} {
			r := walkWith(t, answers{"node_recovery_status/task_wait": func(f *diag.Fact) {
				f.Failure, f.Phase = word, "http"
				f.HTTP = &diag.HTTPFacts{Status: 200, ContentType: "application/json"}
				f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes, CertSent: "serial",
					AcceptableCAs: []string{issuer}}
			}})
			if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigAPIUnreachable {
				t.Errorf("%s: %s", word, describe(r))
			}
		}
	}
}
