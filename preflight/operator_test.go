package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
)

const loginFact = string(diag.HopNodeOpsAccess) + "/" + hop.StepSSH

// TestOperatorsWords: a login that ended on the operator's side decides nothing about the node, whether or not the
// operator reaches the API, and the report has the next command.
func TestOperatorsWords(t *testing.T) {
	for word, want := range map[diag.Failure]struct{ phase, first string }{
		diag.SSHSetup: {"config", "true`"}, diag.SSHJump: {"tcp", "true`"}, diag.SSHNoKey: {"auth", "`ssh-add`"},
		diag.SSHHostKeyUnknown: {"host_key", "`gpuaasctl ssh trust node-1 --profile test`"},
		diag.DNSNXDomain:       {"dns", "true`"}, diag.DNSTimeout: {"dns", "true`"}, diag.DNSServFail: {"dns", "true`"},
		diag.TCPDenied: {"tcp", "true`"}, diag.TCPNetUnreachable: {"tcp", "true`"}, diag.TCPNoRoute: {"tcp", "true`"},
	} {
		for _, api := range []diag.Failure{diag.OK, diag.TCPRefused, diag.TCPTimeout, diag.DNSNXDomain, diag.TLSUnknownCA,
			diag.TLSExpired, diag.TLSNotYetValid} {
			answers := map[string]func(*diag.Fact){loginFact: failWith(word, want.phase)}
			phase, _, _ := strings.Cut(string(api), "_")
			for _, step := range []string{hop.StepHealthz, hop.StepAuth} {
				if api != diag.OK {
					answers[hop.FactID(diag.HopControlPlaneAccess, step)] = failWith(api, phase)
				}
			}
			r := walkWith(t, answers)
			h, v := hopOf(r, diag.HopNodeOpsAccess), r.Verdict
			if h.Status != diag.StatusInconclusive || v.Reason != diag.ReasonNone ||
				!strings.HasPrefix(v.Owner, "operator access") {
				t.Errorf("%s, and %q at the API: %s, reason %s, owner %q\n%s", word, api, h.Status, v.Reason, v.Owner, describe(r))
			}
			if api != diag.OK {
				continue
			}
			if v.Outcome != diag.OutcomeInconclusive || v.Because != h.Because || len(v.Recovery) == 0 ||
				(!strings.HasSuffix(v.Recovery[0], want.first) && !strings.Contains(v.Recovery[0], want.first)) {
				t.Errorf("%s: %s because %q, next %q", word, v.Outcome, v.Because, v.Recovery)
			}
		}
	}
}

// TestNodesWords: a refusal by the node, or its silence, is not attributed to the operator's setup.
func TestNodesWords(t *testing.T) {
	for word, phase := range map[diag.Failure]string{
		diag.SSHHostKey: "host_key", diag.SSHAuth: "auth", diag.SSHExec: "exec", diag.SSHTransport: "banner",
		diag.SSHPenalty: "banner", diag.TCPRefused: "tcp", diag.TCPTimeout: "tcp", diag.TCPReset: "tcp",
		diag.Timeout: "banner",
	} {
		r := walkWith(t, map[string]func(*diag.Fact){loginFact: failWith(word, phase)})
		if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusFail || h.Signal != diag.SigOpsSSHFailed {
			t.Errorf("%s: %s %s", word, h.Status, h.Signal)
		}
		if word == diag.SSHAuth && r.Verdict.Reason != diag.ReasonNone {
			t.Errorf("one refused key makes %s", r.Verdict.Reason)
		}
	}
	r := walkWith(t, map[string]func(*diag.Fact){loginFact: func(f *diag.Fact) {
		f.Failure, f.Phase, f.SSH = diag.SSHAuth, "auth", &diag.SSHFacts{NotOffered: 1}
	}})
	if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusInconclusive ||
		h.Signal != diag.SigOperatorKeyMissing {
		t.Errorf("keys that were not offered: %s %s", h.Status, h.Signal)
	}
	// If the node accepted a key, the others decide nothing.
	r = walkWith(t, map[string]func(*diag.Fact){loginFact: func(f *diag.Fact) {
		f.Failure, f.Phase, f.SSH = diag.SSHAuth, "auth", &diag.SSHFacts{NotOffered: 1, AuthMethod: "key"}
	}})
	if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusFail {
		t.Errorf("a key that was accepted: %s %s", h.Status, h.Because)
	}
	// If the platform does not hear from the node either, no route to it is a fault of the node or its network.
	stale := setField("node.last_seen_at", noon.Add(-time.Hour).Format(time.RFC3339))
	r = walkWith(t, map[string]func(*diag.Fact){
		loginFact: failWith(diag.TCPNoRoute, "tcp"), hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel): stale,
	})
	if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusFail {
		t.Errorf("no route to a silent node: %s %s", h.Status, h.Because)
	}
}

// shifted returns the measurements of an operator whose clock is off by d; with dated, the platform's answers have a
// date.
func shifted(d, node time.Duration, dated bool) map[string]func(*diag.Fact) {
	answers := map[string]func(*diag.Fact){}
	for _, h := range hops.BuiltIn().List() {
		for _, s := range h.Steps {
			answers[hop.FactID(h.ID, s.Name)] = func(f *diag.Fact) {
				f.At = diag.At(noon.Add(d))
				if f.HTTP != nil && dated {
					f.HTTP.Date = diag.At(noon)
				}
				if f.Clock != nil {
					offset := (node - d).Milliseconds()
					f.Clock.OffsetMS = &offset
				}
			}
		}
	}
	return answers
}

// TestOperatorsClock: a wrong clock of the operator is not blamed on the node, whose clock is compared with the
// platform's.
func TestOperatorsClock(t *testing.T) {
	for _, d := range []time.Duration{-400 * 24 * time.Hour, -time.Hour, -20 * time.Second, 20 * time.Second, time.Hour,
		400 * 24 * time.Hour} {
		r := walkWith(t, shifted(d, 0, true))
		h := hopOf(r, diag.HopNodeReadiness)
		if h.Status != diag.StatusWarn || h.Signal != diag.SigOperatorClockSkew || r.Verdict.Outcome != diag.OutcomeWarn ||
			r.Verdict.Reason != diag.ReasonNone {
			t.Errorf("%s: %s %s, %s, reason %s\n%s", d, h.Status, h.Signal, r.Verdict.Outcome, r.Verdict.Reason, describe(r))
		}
		r = walkWith(t, shifted(d, 0, false))
		h = hopOf(r, diag.HopNodeReadiness)
		if h.Status != diag.StatusInconclusive || !strings.HasPrefix(r.Verdict.Owner, "operator access") ||
			r.Verdict.Reason != diag.ReasonNone {
			t.Errorf("%s, and no date: %s, owner %q, reason %s", d, h.Status, r.Verdict.Owner, r.Verdict.Reason)
		}
		for _, own := range []time.Duration{0, d} { // the node's clock is wrong, and perhaps the operator's is as wrong
			r = walkWith(t, shifted(own, d+own/2, true))
			if h := hopOf(r, diag.HopNodeReadiness); h.Status != diag.StatusFail || h.Signal != diag.SigClockSkew {
				t.Errorf("the node is %s off, this machine %s: %s %s", d+own/2, own, h.Status, h.Signal)
			}
		}
	}
}

// TestProfileOfAnotherMachine: a file that is missing at the profile's path is not a fault of a node that reports.
func TestProfileOfAnotherMachine(t *testing.T) {
	gone := func(word diag.Failure, phase string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP, f.TLS, f.Cert, f.Unit, f.Binary = word, phase, nil, nil, nil, nil, nil
		}
	}
	unit, identity, reach := hop.FactID(diag.HopNodeReadiness, hop.StepProcess), hop.FactID(diag.HopNodeRecoveryStatus,
		hop.StepIdentity), hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach)
	for name, answers := range map[string]map[string]func(*diag.Fact){
		"the unit has another name": {unit: gone(diag.UnitMissing, "")},
		"the files are elsewhere":   {identity: gone(diag.FileMissing, "cert"), reach: gone(diag.FileMissing, "trust")},
		"a machine without any of it": {unit: gone(diag.UnitMissing, ""), identity: gone(diag.FileMissing, "cert"),
			reach: gone(diag.FileMissing, "env")},
		"another node": {
			hop.FactID(diag.HopNodeRecoveryStatus,
				hop.StepProfile): func(f *diag.Fact) { f.Env.Values["GPUAAS_NODE_ID"] = "node-2" },
			identity: func(f *diag.Fact) { no := false; f.Cert.NodeBound, f.Cert.BoundTo = &no, "node:node-2" },
		},
	} {
		r := walkWith(t, answers)
		if v := r.Verdict; v.Outcome != diag.OutcomeInconclusive || v.Reason != diag.ReasonNone ||
			!strings.HasPrefix(v.Owner, "operator access") {
			t.Errorf("%s: %s, reason %s, owner %q\n%s", name, v.Outcome, v.Reason, v.Owner, describe(r))
		}
		answers[hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel)] = setField("node.last_seen_at",
			noon.Add(-time.Hour).Format(time.RFC3339))
		if name != "another node" {
			if r := walkWith(t, answers); r.Verdict.Outcome != diag.OutcomeFail {
				t.Errorf("%s, of a silent node: %s", name, r.Verdict.Outcome)
			}
		}
	}
	// A node whose environment alone names another node is at fault.
	r := walkWith(t, map[string]func(*diag.Fact){
		hop.FactID(diag.HopNodeRecoveryStatus,
			hop.StepProfile): func(f *diag.Fact) { f.Env.Values["GPUAAS_NODE_ID"] = "node-2" },
	})
	if h := hopOf(r, diag.HopNodeRecoveryStatus); h.Status != diag.StatusFail {
		t.Errorf("GPUAAS_NODE_ID alone: %s", h.Status)
	}
}

// TestNamesNearAnUnknownOne: at most five names are suggested, and none for a node that the profile has.
func TestNamesNearAnUnknownOne(t *testing.T) {
	p := profile.Profile{Nodes: map[string]profile.Node{}}
	for _, id := range []string{"gpu-7", "a", "b", "c", "node-1", "node-2", "node-11"} {
		p.Nodes[id] = profile.Node{Host: "h"}
	}
	near := strings.Split(hop.NewSubject(p, "node-12", "", "", "").Expected["other_nodes"], ", ")
	if len(near) != 5 || !slices.Equal(near[:3], []string{"node-1", "node-11", "node-2"}) {
		t.Errorf("near names %q", near)
	}
	if s := hop.NewSubject(p, "node-1", "", "", ""); s.Expected["other_nodes"] != "" {
		t.Errorf("a node of the profile: %q", s.Expected)
	}
}

// TestPlatformsClock: tasks expire early where the platform's clock is behind those of node and operator.
func TestPlatformsClock(t *testing.T) {
	for behind, owner := range map[time.Duration]string{10 * time.Minute: "control plane API", 0: "operator access"} {
		refused := allOf(setField("task.status", "failed"), setField("task.error_code", "task_expired"))
		read := allOf(setField("node.now", at(-behind)), setField("node.last_seen_at", at(-behind)))
		r := walkWith(t, answers{taskFact: refused, readModelFact: read})
		if b := r.Verdict.Blame; r.Verdict.Owner != owner || (b != nil) != (behind > 0) ||
			(b != nil && !strings.Contains(b.Text, "clock is 10m0s behind those of node and operator")) {
			t.Errorf("%s: owner %q, blame %+v\n%s", behind, r.Verdict.Owner, b, describe(r))
		}
	}
}
