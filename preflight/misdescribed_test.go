package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestFilesThatOnlyTheAgentLacks: files that the agent's mounts hide are there, so the profile describes this node; and
// neither PKI nor a re-enrollment helps. If a login does not have them either, or the agent works, it uses others.
func TestFilesThatOnlyTheAgentLacks(t *testing.T) {
	identity := hop.FactID(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	noBundle, noCert := failWith(diag.FileMissing, "trust"), failWith(diag.FileMissing, "cert")
	idle := hop.FactID(diag.HopNodeTaskRoundtrip, hop.StepTask)
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

// TestAnAgentThatMayNotReadItsKey: the walk's own requests have the key, and the agent does not: its unit's user is at
// fault, whatever the platform last heard. An agent that does its work has read its key.
func TestAnAgentThatMayNotReadItsKey(t *testing.T) {
	denied := func(f *diag.Fact) { f.Cert.DeniedFile, f.Cert.DeniedUID = "/etc/gpuaas/key.pem", 65534 }
	identity := hop.FactID(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	for name, more := range map[string]answers{
		"no claim": {taskFact: nobodyClaims}, "no claim, and silent": with(silentAgent(), answers{taskFact: nobodyClaims}),
	} {
		r := walkWith(t, with(more, answers{identity: denied}))
		v := r.Verdict
		if v.Blame == nil || v.Owner != "node runtime" || v.Confidence != diag.Observed ||
			!strings.Contains(v.Blame.Text, "has user 65534, which may not read /etc/gpuaas/key.pem") ||
			!strings.Contains(strings.Join(v.Recovery, " "), "User=") ||
			strings.Contains(strings.Join(v.Recovery, " "), "node reenroll") {
			t.Errorf("%s: %s, %s, %+v, %q\n%s", name, v.Owner, v.Confidence, v.Blame, v.Recovery, describe(r))
		}
	}
	claimed := answers{identity: denied, taskFact: allOf(nobodyClaims, setField("task.status", "dispatched"))}
	if b := walkWith(t, claimed).Verdict.Blame; b == nil || b.Hop != diag.HopNodeTaskRoundtrip {
		t.Errorf("an agent that claimed the no-op: %+v", b)
	}
	if r := walkWith(t, answers{identity: denied}); r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("an agent that works: %s", describe(r))
	}
}
