package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestEndIsAHabitOnlyIfItIsTheSameForAll: the node API's listener ends the node's connections without a word, with and
// without its certificate. Whose doing that is depends on what the operator's connection gets there.
func TestEndIsAHabitOnlyIfItIsTheSameForAll(t *testing.T) {
	const wait = "node_recovery_status/task_wait"
	ended := func(f *diag.Fact) {
		failWith(diag.TCPReset, "http")(f)
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: new(true)}
	}
	withCert := func(f *diag.Fact) {
		ended(f)
		f.TLS.CertSent = "serial"
	}
	for name, tc := range map[string]struct {
		operator   func(*diag.Fact)
		blame      diag.HopID
		says, wont string
		proven     bool // whether it may be
	}{
		"the operator is answered": {refusal(400, ""), diag.HopNodeRuntimeAPI, "ends the node's", "", false},
		"so is everybody":          {ended, diag.HopNodeRecoveryStatus, "", "ends the node's", true},
		"the operator cannot ask": {failWith(diag.TCPTimeout, "tcp"), diag.HopNodeRecoveryStatus, "", "ends the node's",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{reachFact: ended, wait: withCert, wait + "~from-operator": tc.operator})
			b := blameOf(r)
			if b.Hop != tc.blame || !strings.Contains(b.Text, tc.says) || (tc.wont != "" && strings.Contains(b.Text, tc.wont)) {
				t.Errorf("%s: %s\n%s", b.Hop, b.Text, describe(r))
			}
			if b.Confidence == diag.Proven && !tc.proven {
				t.Errorf("proven: %+v", b.Proof)
			}
			if tc.says != "" {
				if h := hopOf(r, diag.HopNodeRuntimeAPI); !slices.Contains(h.Evidence, wait) ||
					!strings.Contains(r.Verdict.RepairProof, string(diag.HopNodeRecoveryStatus)) {
					t.Errorf("the repair is verified without what showed the fault: %v, %s", h.Evidence, r.Verdict.RepairProof)
				}
			}
			replaysToItself(t, r)
		})
	}
}
