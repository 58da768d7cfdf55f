package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// pathFacts are of a healthy path to an API, from here and from the node.
func pathFacts() []diag.Fact {
	facts := wellHost()
	for _, from := range []string{hop.Operator, hop.Node} {
		f := nodeFact("network_path/api_"+from, diag.OpPath)
		f.Vantage, f.Request.Target = from, "https://api.test"
		f.TCP, f.TLS = &diag.TCPFacts{Remote: "192.0.2.1:443"}, &diag.TLSFacts{}
		f.Path = &diag.PathFacts{Interface: "eth0", MTU: 1500, PathMTU: 1500, MSS: 1448,
			Addresses: []diag.TCPAttempt{{Remote: "192.0.2.1:443", Connected: true}, {Remote: "192.0.2.2:443", Connected: true},
				{Remote: "192.0.2.3:443", Connected: true}}}
		facts = append(facts, f)
	}
	return facts
}

// TestNetworkPath: a path that drops large packets is proven by the size of segments alone.
func TestNetworkPath(t *testing.T) {
	stall := func(f *diag.Fact) { f.Failure, f.Phase = diag.Timeout, "tls" }
	// runs are those of one request, of the step's own without its first
	runs := func(of *diag.Fact, name string, mss int, failure diag.Failure) (all []diag.Fact) {
		for n := range verdict.SilentRepeats {
			k, id := *of, of.ID
			if name != "" {
				id += "~" + name
			}
			if n > 0 {
				id = hop.RepeatID(id, n)
			} else if name == "" {
				continue
			}
			k.ID, k.Request.ID, k.Request.MSS = id, id, mss
			if k.Failure, k.Phase = failure, ""; failure != diag.OK {
				k.Phase = "tls"
			}
			all = append(all, k)
		}
		return all
	}
	for name, c := range map[string]struct {
		change     func(facts []diag.Fact) []diag.Fact
		outcome    diag.Outcome
		signal     diag.Signal
		confidence diag.Confidence
		text       string
	}{
		"all is well": {func(f []diag.Fact) []diag.Fact { return f }, diag.OutcomePass, "", "", ""},
		"large packets are lost": {func(facts []diag.Fact) []diag.Fact {
			f := factOf(facts, "network_path/api_node")
			stall(f)
			small, large := runs(f, "small-segments", 536, diag.OK), runs(f, "", 0, diag.Timeout)
			return slices.Concat(facts, small, large)
		}, diag.OutcomeFail, diag.SigLargePacketsLost, diag.Proven, "between the node and https://api.test"},
		"it is silent at any size": {func(facts []diag.Fact) []diag.Fact {
			f := factOf(facts, "network_path/api_node")
			stall(f)
			return append(facts, runs(f, "small-segments", 536, diag.Timeout)...)
		}, diag.OutcomeFail, diag.SigEndpointFails, "", "does not work from the node"},
		"one address of three is dead": {func(facts []diag.Fact) []diag.Fact {
			a := &factOf(facts, "network_path/api_node").Path.Addresses[2]
			a.Connected, a.Failure = false, diag.TCPTimeout
			return facts
		}, diag.OutcomeWarn, diag.SigAddressDead, "", "192.0.2.3:443"},
		"a family that this machine lacks": {func(facts []diag.Fact) []diag.Fact {
			a := &factOf(facts, "network_path/api_node").Path.Addresses[2]
			a.Connected, a.Failure = false, diag.TCPNetUnreachable
			return facts
		}, diag.OutcomePass, "", "", ""},
		"the name does not exist for the node": {func(facts []diag.Fact) []diag.Fact {
			f := factOf(facts, "network_path/api_node")
			f.Failure, f.Phase, f.TCP, f.TLS, f.Path = diag.DNSNXDomain, "dns", nil, nil, nil
			f.DNS = &diag.DNSFacts{Name: "api.test"}
			return facts
		}, diag.OutcomeFail, diag.SigEndpointFails, "", "does not work from the node"},
		"an own CA": {func(facts []diag.Fact) []diag.Fact {
			f := factOf(facts, "network_path/api_node")
			f.Failure, f.Phase = diag.TLSUnknownCA, "tls"
			return facts
		}, diag.OutcomeWarn, diag.SigEndpointFails, "", "own trust"},
		"errors of the link": {func(facts []diag.Fact) []diag.Fact {
			factOf(facts, "network_path/api_node").Path.While = &diag.LinkCounters{Errors: 5}
			return facts
		}, diag.OutcomeWarn, diag.SigLinkFaulty, "", "5 errors"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bareNode(profile.Profile{APIBase: "https://api.test"}, c.change(pathFacts())...)
			got := hopResult(r, diag.HopNetworkPath)
			if r.Verdict.Outcome != c.outcome || got.Signal != c.signal || !strings.Contains(got.Text, c.text) ||
				(c.confidence != "" && r.Verdict.Confidence != c.confidence) {
				t.Errorf("%s (%s): %s %s %q: %s%s", r.Verdict.Outcome, r.Verdict.Because, r.Verdict.Confidence, got.Status,
					got.Signal, got.Text, got.Because)
			}
		})
	}
}

// TestSmallSegmentsAreTried: a handshake that stalls is tried with small segments, and nothing else of it changes.
func TestSmallSegmentsAreTried(t *testing.T) {
	h := hop.In(hops.BuiltIn().List(), diag.HopNetworkPath)
	f := nodeFact("network_path/api_node", diag.OpPath)
	f.Failure, f.Phase = diag.Timeout, "tls"
	counters := h.Counter(nil, nil, &f)
	if len(counters) != 1 {
		t.Fatalf("%d counter-probes", len(counters))
	}
	if got := diag.Changed(&f.Request, &counters[0].Request); len(got) != 1 || got[0] != "mss" {
		t.Errorf("it changes %v", got)
	}
	if f.Phase = "tcp"; len(h.Counter(nil, nil, &f)) > 0 {
		t.Error("it is tried where nothing was connected")
	}
}
