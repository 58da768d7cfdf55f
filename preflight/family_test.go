package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	v6, v4   = "2001:db8::10", "192.0.2.10"
	healthz  = "control_plane_access/healthz"
	reachAPI = "node_runtime_api_reachability/reach"
)

// dual gives a fact a name with addresses of both families, one of which was connected.
func dual(used string, attempts ...diag.TCPAttempt) func(*diag.Fact) {
	remote := used + ":443"
	if reading.Six(used) {
		remote = "[" + used + "]:443"
	}
	return func(f *diag.Fact) {
		f.DNS = &diag.DNSFacts{Name: "api.test", Source: "dns", Addresses: []string{v6, v4}}
		f.TCP = &diag.TCPFacts{Remote: remote, Attempts: attempts, DurationMS: 301}
		f.Request.Resolve = ""
	}
}

// dialFails makes the bare connection to the other family fail.
func dialFails(word diag.Failure) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.HTTP, f.TCP = nil, &diag.TCPFacts{Remote: f.Request.Resolve + ":443"}
		if f.Failure = word; word != diag.OK {
			f.Phase = "tcp"
		}
	}
}

var blackHole = []diag.TCPAttempt{{Remote: "[" + v6 + "]:443", DurationMS: 301}, {Remote: v4 + ":443",
	Connected: true, AfterMS: 300, DurationMS: 1}}

// twoAddresses is a name with two IPv4 addresses, of which the first is used.
func twoAddresses(f *diag.Fact) {
	dual(v4, diag.TCPAttempt{Remote: v4 + ":443", Connected: true})(f)
	f.DNS.Addresses = []string{v4, "192.0.2.12"}
}

// TestDeadFamilyIsAWarning: the walk passes with a warning that has the dead address and the delay, once per name and
// vantage.
func TestDeadFamilyIsAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		step  func(*diag.Fact)
		other func(*diag.Fact)
		want  string
	}{
		"a black hole beside a good A": {dual(v4, blackHole...), dialFails(diag.TCPTimeout),
			"the IPv6 address 2001:db8::10 of api.test does not answer (tcp_timeout in tcp"},
		"and its price": {dual(v4, blackHole...), dialFails(diag.TCPTimeout),
			"its IPv4 address 192.0.2.10 does: every connection costs 300 ms more"},
		"a good AAAA beside a dead A": {dual(v6, diag.TCPAttempt{Remote: "[" + v6 + "]:443", Connected: true}),
			dialFails(diag.TCPTimeout),
			"the IPv4 address 192.0.2.10 of api.test does not answer"},
		"which costs nothing now": {dual(v6, diag.TCPAttempt{Remote: "[" + v6 + "]:443", Connected: true}),
			dialFails(diag.TCPRefused),
			"connections are not delayed as long as IPv6 answers first"},
		"a second, dead IPv4 address": {twoAddresses, nil,
			"the IPv4 address 192.0.2.12 of api.test does not answer (tcp_timeout in tcp"},
		"which is tried second": {twoAddresses, nil,
			"connections are not delayed as long as 192.0.2.10 is tried first"},
		"a way that loses packets": {func(f *diag.Fact) {
			again := int64(2)
			dual(v4, blackHole...)(f)
			f.TCP.Resent = &again
		}, dialFails(diag.TCPTimeout), ""},
		"a slow family":       {dual(v4, blackHole...), dialFails(diag.OK), ""},
		"a host without IPv6": {dual(v4), dialFails(diag.TCPNetUnreachable), ""},
		"a walk cut short":    {dual(v4, blackHole...), dialFails(diag.Cancelled), ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := answers{}
			again := "terminal_public_route/healthz" // the same name from the same vantage
			for _, step := range []string{healthz, again} {
				all[step], all[step+"~other-address-1"] = c.step, dialFails(diag.TCPTimeout)
				if c.other != nil {
					all[step+"~other-family"] = c.other
				}
			}
			r := walkWith(t, all)
			h := hopOf(r, diag.HopControlPlaneAccess)
			if c.want == "" {
				if r.Verdict.Outcome != diag.OutcomePass && h.Signal != diag.SigNetworkUnstable {
					t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
				}
				return
			}
			if r.Verdict.Outcome != diag.OutcomeWarn || h.Status != diag.StatusWarn || !strings.Contains(h.Text, c.want) {
				t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
			}
			if h := hopOf(r, diag.HopTerminalPublicRoute); h.Status != diag.StatusPass {
				t.Errorf("it is said twice: %s", h.Text)
			}
			if r.Classification == nil || !r.Classification.Healthy {
				t.Errorf("%+v", r.Classification)
			}
			replaysToItself(t, r)
		})
	}
}

// TestOneFamilyLeadsElsewhere: if one address of a name has another certificate, the other address proves it by that
// one input.
func TestOneFamilyLeadsElsewhere(t *testing.T) {
	wrong := func(f *diag.Fact) {
		dual(v6)(f)
		f.Failure, f.Phase, f.HTTP = diag.TLSUnknownCA, "tls", nil
	}
	right := func(f *diag.Fact) {
		f.DNS = &diag.DNSFacts{Name: "api.test", Source: "pinned", Addresses: []string{v4}}
		f.TCP = &diag.TCPFacts{Remote: v4 + ":443"}
	}
	r := walkWith(t, answers{reachAPI: wrong, reachAPI + "~other-family": right,
		reachAPI + "~pinned": wrong, reachAPI + "~host-view": wrong, reachAPI + "~active-bundle": wrong})
	b, proof := r.Verdict.Blame, r.Verdict.Proof
	if b == nil || proof == nil || proof.Changed != "resolve" || !strings.HasSuffix(proof.Passing, "~other-family") {
		t.Fatalf("%+v\n%s", b, describe(r))
	}
	if !strings.Contains(b.Text, "this is at its IPv6 address 2001:db8::10; at its IPv4 address 192.0.2.10 the request "+
		"passes") {
		t.Error(b.Text)
	}
}

// TestIPv6OnlyNameOnAHostWithout: the text says why nothing could be dialled.
func TestIPv6OnlyNameOnAHostWithout(t *testing.T) {
	r := walkWith(t, answers{reachAPI: func(f *diag.Fact) {
		f.Failure, f.Phase, f.Errno, f.HTTP = diag.TCPNetUnreachable, "tcp", "ENETUNREACH", nil
		f.DNS = &diag.DNSFacts{Name: "api.test", Addresses: []string{v6}}
		f.TCP = &diag.TCPFacts{Remote: "[" + v6 + "]:443"}
	}})
	if b := r.Verdict.Blame; b == nil || !strings.Contains(b.Text,
		"the name has IPv6 addresses only, and there is no IPv6 route here") {
		t.Errorf("%+v", b)
	}
}
