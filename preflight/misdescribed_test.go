package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestFilesThatOnlyTheAgentLacks: files that the agent's mounts hide are there, so the profile describes this node; and
// neither PKI nor a re-enrollment helps. If a login does not have them either, or the agent works, it uses others.
func TestFilesThatOnlyTheAgentLacks(t *testing.T) {
	identity := factID(diag.HopNodeRecoveryStatus, stepIdentity)
	noBundle, noCert := failWith(diag.FileMissing, "trust"), failWith(diag.FileMissing, "cert")
	idle := factID(diag.HopNodeTaskRoundtrip, stepTask)
	v := walkWith(t, answers{reach: noBundle, identity: noCert, idle: nobodyClaims}).Verdict
	if v.Blame == nil || v.Blame.Signal != diag.SigAPITLSFailed || v.Owner != "node runtime" ||
		!strings.Contains(v.Blame.Text, "the agent's own mounts are at fault") ||
		strings.Contains(strings.Join(v.Recovery, " "), "node reenroll") {
		t.Errorf("%s, %+v, %q", v.Owner, v.Blame, v.Recovery)
	}
	for _, world := range []answers{
		{reach: noBundle, identity: noCert},
		{reach: noBundle, reach + "~host-view": noBundle, identity: noCert, identity + "~host-view": noCert},
	} {
		if v := walkWith(t, world).Verdict; v.Blame != nil || v.Outcome != diag.OutcomeInconclusive {
			t.Errorf("%s, %+v", v.Outcome, v.Blame)
		}
	}
}
