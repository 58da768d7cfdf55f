package preflight

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// foreignAgents are agents of other platforms, as their profiles describe them.
func foreignAgents() map[string]profile.Profile {
	node := map[string]profile.Node{"node-1": {Host: "192.0.2.101"}}
	return map[string]profile.Profile{
		"a kubelet": {Name: "k", Kind: profile.KindKubernetesNode, Nodes: node, Agent: profile.Agent{
			Container: profile.Container{Name: "kubelet"}, PEM: "/var/lib/kubelet/pki/kubelet-client-current.pem",
			CABundle: "/etc/kubernetes/pki/ca.crt",
			API:      profile.Setting{File: "/etc/kubernetes/kubelet.conf", Key: "clusters.0.cluster.server"},
		}, Mapping: profile.Mapping{Paths: map[string]string{profile.PathHealthz: "/livez"}}},
		"like Teleport's": {Name: "t", Kind: profile.KindTeleportLike, Nodes: node, Agent: profile.Agent{
			Unit: "teleport.service", Binary: "/usr/local/bin/teleport", CABundle: "/etc/teleport/cas",
			API:            profile.Setting{File: "/etc/teleport.yaml", Key: "teleport.proxy_server"},
			NodeID:         profile.Setting{File: "/etc/teleport.yaml", Key: "teleport.nodename"},
			VersionCommand: []string{"/usr/local/bin/teleport", "version"},
		}},
		"a bare daemon": {Name: "d", Kind: profile.KindSSHHTTPS, Nodes: node, Agent: profile.Agent{
			Process: "fleetd", API: profile.Setting{Literal: "https://fleet.test"}, CABundle: profile.SystemCAs,
		}, Mapping: profile.Mapping{Paths: map[string]string{profile.PathHealthz: "/ping"}}},
	}
}

// answersOfForeign answers as a healthy node with such an agent.
func answersOfForeign() answers {
	return answers{
		"node_runtime_api_reachability/reach": func(f *diag.Fact) {
			f.Failure, f.Phase, f.Target = diag.OK, "", ""
			f.HTTP = &diag.HTTPFacts{Status: 200, ContentType: "text/plain"}
			if f.Request.Op == diag.OpTLS {
				f.HTTP, f.TLS = nil, &diag.TLSFacts{Verified: true}
			}
		},
		"node_recovery_status/profile": func(f *diag.Fact) {
			f.Env = &diag.EnvFacts{Source: "file", Values: map[string]string{}}
			for _, name := range f.Request.Env {
				f.Env.Values[name] = "https://fleet.test"
				if strings.HasSuffix(name, "nodename") {
					f.Env.Values[name] = "node-1"
				}
			}
		},
		"node_readiness/binary": func(f *diag.Fact) {
			f.Binary = &diag.BinaryFacts{Path: f.Request.Target, OurAgent: new(bool)}
		},
	}
}

// TestForeignAgents: a walk over a node with another platform's agent passes by its profile alone, names nothing of
// gpuaas-agent's, and is judged the same without the profile.
func TestForeignAgents(t *testing.T) {
	for name, p := range foreignAgents() {
		r := walkOf(t, p, hop.Options{SSH: true, Session: true}, answersOfForeign())
		if r.Verdict.Outcome != diag.OutcomePass {
			t.Errorf("%s: %s\n%s", name, r.Verdict.Outcome, describe(r))
		}
		var asked []diag.Request
		for i := range r.Facts {
			asked = append(asked, r.Facts[i].Request)
		}
		text, err := json.Marshal([]any{asked, r.Subject, r.Plan, r.Hops, r.Verdict})
		if err != nil {
			t.Fatal(err)
		}
		for _, ours := range []string{"GPUAAS_", "/etc/gpuaas", "gpuaas-node-agent", "/var/lib/gpuaas"} {
			if strings.Contains(string(text), ours) {
				t.Errorf("%s: the report has %s", name, ours)
			}
		}
		if !slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.ID == "node_runtime_api_reachability/reach" }) {
			t.Errorf("%s: its API was not asked", name)
		}
		again, err := verdict.Replay(hops.BuiltIn(), r)
		if err != nil || again.Verdict.Outcome != r.Verdict.Outcome {
			t.Errorf("%s: replayed: %v", name, err)
		}
	}
}

// TestForeignAgentsFaults: what is wrong with such an agent is blamed at its hop.
func TestForeignAgentsFaults(t *testing.T) {
	const reach, identity, process = "node_runtime_api_reachability/reach", "node_recovery_status/identity",
		"node_readiness/process"
	fails := func(failure diag.Failure, phase string) func(f *diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP, f.TLS, f.Unit = failure, phase, nil, nil, nil
			f.Target = "https://fleet.test"
		}
	}
	for _, fault := range []struct {
		name, fact string
		change     func(f *diag.Fact)
		hop        diag.HopID
		signal     diag.Signal
	}{
		{"a stale bundle", reach, fails(diag.TLSUnknownCA, "tls"), diag.HopNodeRuntimeAPI, diag.SigAPITLSFailed},
		{"a wrong URL", reach, fails(diag.DNSNXDomain, "dns"), diag.HopNodeRuntimeAPI, diag.SigAPIUnreachable},
		{"an expired certificate", identity, func(f *diag.Fact) {
			f.Failure, f.Phase = diag.MTLSCertExpired, "dates"
		}, diag.HopNodeRecoveryStatus, diag.SigAuthFailed},
		{"a stopped process", process, func(f *diag.Fact) {
			f.Failure, f.Unit = diag.UnitInactive, &diag.UnitFacts{Load: "loaded", Active: "inactive", Sub: "dead"}
		}, diag.HopNodeReadiness, diag.SigProcessDown},
	} {
		for name, p := range foreignAgents() {
			all := answersOfForeign()
			all[fault.fact] = fault.change
			r := walkOf(t, p, hop.Options{SSH: true, Session: true}, all)
			if !slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.ID == fault.fact }) {
				continue // it has no such thing
			}
			b := r.Verdict.Blame
			if r.Verdict.Outcome != diag.OutcomeFail || b == nil || b.Hop != fault.hop || b.Signal != fault.signal {
				t.Errorf("%s, %s: %s\n%s", name, fault.name, r.Verdict.Outcome, describe(r))
			}
			if text := strings.Join(r.Verdict.Recovery, "\n"); strings.Contains(text, "GPUAAS_") ||
				strings.Contains(text, "/etc/gpuaas") || strings.Contains(text, "gpuaas-node-agent") {
				t.Errorf("%s, %s: the steps name gpuaas-agent's things:\n%s", name, fault.name, text)
			}
		}
	}
}
