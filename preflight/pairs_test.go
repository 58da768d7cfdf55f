package preflight

import (
	"net"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// failures has failure words for the phases of the ladder.
var failures = []struct {
	word  diag.Failure
	phase string
}{
	{diag.DNSTimeout, "dns"}, {diag.DNSNXDomain, "dns"}, {diag.TCPTimeout, "tcp"}, {diag.TCPRefused, "tcp"},
	{diag.FileMissing, "trust"}, {diag.TLSUnknownCA, "tls"}, {diag.MTLSUnknownCA, "mtls"}, {diag.MTLSIngress400, "http"},
	{diag.HTTPTimeout, "http"}, {diag.HTTPEdgePage, "http"}, {diag.WSUpgradeRejected, "ws"},
}

// TestCountersAskWhereSomebodyNamed: whichever step fails in whichever phase, every request of the walk goes to an
// address and port that the profile or an answer names.
func TestCountersAskWhereSomebodyNamed(t *testing.T) {
	named := []string{
		"api.test:443", "term.test:443", "node-api.test:443", "term.test:18443", // the profile's endpoints
		"192.0.2.10:443", "192.0.2.11:443", "192.0.2.10:18443", // at the profile's addresses
		"a.apps.test:443", "192.0.2.101:8888", "127.0.0.1:8888", // the platform's answers
	}
	pins := []string{"", "192.0.2.10", "192.0.2.11"}
	asked := 0
	for _, h := range hops.BuiltIn().List() {
		for _, step := range h.Steps {
			for _, f := range failures {
				id := hop.FactID(h.ID, step.Name)
				r := walkWith(t, answers{id: failWith(f.word, f.phase)})
				for i := range r.Facts {
					req := r.Facts[i].Request
					switch req.Op {
					case diag.OpTCP, diag.OpTLS, diag.OpHTTP, diag.OpWS, diag.OpSession:
					default:
						continue
					}
					asked++
					at := hop.HostPortOf(reading.Target(&r.Facts[i]))
					if at == "" {
						at = reading.Target(&r.Facts[i])
					}
					if at[0] == '$' { // nothing was expanded in this world
						continue
					}
					if !slices.Contains(named, at) || !slices.Contains(pins, req.Resolve) {
						t.Errorf("%s fails in %s: %s goes to %s at %q", id, f.phase, r.Facts[i].ID, at, req.Resolve)
					}
				}
			}
		}
	}
	if asked < 1000 {
		t.Errorf("%d requests", asked)
	}
}

// TestNoOtherListenerNoPort: a node whose profile has only one listener gets no pair for it.
func TestNoOtherListenerNoPort(t *testing.T) {
	e := testEnv()
	f := &diag.Fact{Vantage: hop.Node, Target: "https://node-api.test/healthz",
		TCP: &diag.TCPFacts{Remote: "192.0.2.11:443"}}
	got := reading.TCPCounters(e, f)
	if len(got) != 2 || got[0].Request.Target != f.TCP.Remote ||
		got[1].Request.Target != net.JoinHostPort("192.0.2.10", "18443") {
		t.Errorf("%+v", got)
	}
	e.Profile.NodeTerminalURL = ""
	if got := reading.TCPCounters(e, f); got != nil {
		t.Errorf("one listener: %+v", got)
	}
}

// TestCertificateIsNotTakenByAListenerThatAsksForNone: another listener's answer proves a refusal by the first one only
// if it requested the certificate, got it and accepted it.
func TestCertificateIsNotTakenByAListenerThatAsksForNone(t *testing.T) {
	yes, no := true, false
	refused := diag.Fact{ID: "node_recovery_status/task-wait", Failure: diag.MTLSIngress400, Phase: "http",
		HTTP: &diag.HTTPFacts{Status: 400}}
	c := hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, diag.EndedCompleted, []diag.Fact{refused})
	for _, tc := range []struct {
		name string
		f    diag.Fact
		took bool
	}{
		{"a public edge", diag.Fact{TLS: &diag.TLSFacts{CertRequested: &no}, HTTP: &diag.HTTPFacts{Status: 200}}, false},
		{"asked and sent nothing", diag.Fact{TLS: &diag.TLSFacts{CertRequested: &yes},
			HTTP: &diag.HTTPFacts{Status: 200}}, false},
		{"asked and answers 403", diag.Fact{Failure: diag.HTTPStatus, Phase: "ws",
			TLS:  &diag.TLSFacts{CertRequested: &yes, CertSent: "1"},
			HTTP: &diag.HTTPFacts{Status: 403}}, false},
		{"asked and answers 404 of anybody", diag.Fact{Failure: diag.WSUpgradeRejected, Phase: "ws",
			TLS: &diag.TLSFacts{CertRequested: &yes, CertSent: "1"}, HTTP: &diag.HTTPFacts{Status: 404}}, false},
		{"asked and says that nobody waits", diag.Fact{Failure: diag.WSUpgradeRejected, Phase: "ws",
			TLS: &diag.TLSFacts{CertRequested: &yes, CertSent: "1"}, HTTP: &diag.HTTPFacts{Status: 404,
				ErrorCode: "session_not_found"}}, true},
		{"asked and answers", diag.Fact{TLS: &diag.TLSFacts{CertRequested: &yes, CertSent: "1"},
			HTTP: &diag.HTTPFacts{Status: 204}}, true},
	} {
		if got := world.Passes(c, refused.ID, &tc.f); got != tc.took {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestOtherListenerIsShownARefusedCertificate: the other listener is asked only if the first one requested the
// certificate and refused it. If it did not request one, the profile's own listener is asked.
func TestOtherListenerIsShownARefusedCertificate(t *testing.T) {
	e := testEnv()
	f := &diag.Fact{Vantage: hop.Node, Target: "https://node-api.test/x", Phase: "mtls", Failure: diag.MTLSUnknownCA}
	vars := map[string]string{"session_id": hop.UnknownSessionID}
	ask := func() []hop.Counter {
		return world.OtherListener(e, f, e.Profile.NodeTerminalURL, profile.PathNodeTerminal, vars)
	}
	if got := ask(); len(got) != 1 || hop.HostPortOf(got[0].Request.Target) != "term.test:18443" {
		t.Errorf("%+v", got)
	}
	f.Failure = diag.MTLSNotRequested
	if got := ask(); got != nil {
		t.Errorf("nobody asked for it: %+v", got)
	}
}

// TestQueryIsShownToNobodyElse: a product URL's query may hold a login, and is not sent to another name.
func TestQueryIsShownToNobodyElse(t *testing.T) {
	e := testEnv()
	f := &diag.Fact{Request: diag.Request{Op: diag.OpHTTP, Target: "https://a.apps.test/"},
		HTTP: &diag.HTTPFacts{Status: 502}}
	ask := func() []hop.Counter {
		return world.OtherRoute(e, f, "192.0.2.10", e.Profile.APIBase, "192.0.2.10", "healthz")
	}
	if got := ask(); len(got) != 1 || reading.HostOf(got[0].Request.Target) != "api.test" {
		t.Errorf("%+v", got)
	}
	f.Request.Query = diag.NewSecret("token=canary")
	if got := ask(); got != nil {
		t.Errorf("with a query: %+v", got)
	}
}

// TestPairs: each pair changes the one input that it is for, and is a proof if that input alone passes.
func TestPairs(t *testing.T) {
	e := testEnv()
	e.Profile.NodeNameServers = []string{"192.0.2.53", "192.0.2.54:5353", "192.0.2.55", "192.0.2.56"}
	e.Profile.NodeRuntimeResolveAddress = ""
	reach := diag.Request{Op: diag.OpHTTP, Target: "${GPUAAS_API_URL}/healthz", CABundle: "/etc/gpuaas/ca-bundle.crt"}
	ladder := func(f *diag.Fact) []hop.Counter { return reading.NetworkCounters(e, f) }
	h := func(h hop.Hop) func(*diag.Fact) []hop.Counter {
		return func(f *diag.Fact) []hop.Counter {
			return h.Counter(e, hops.BuiltIn().NewCase(e.Subject, diag.Plan{}, diag.EndedCompleted, nil), f)
		}
	}
	for _, tc := range []struct {
		name, counter, changed string
		f                      diag.Fact
		asks                   func(*diag.Fact) []hop.Counter
	}{
		{"a name server that fails", "name-server-2", "resolver", diag.Fact{Vantage: hop.Node, Request: reach,
			Target: "https://node-api.test/healthz", Failure: diag.DNSTimeout, Phase: "dns",
			DNS: &diag.DNSFacts{Name: "node-api.test"}}, ladder},
		{"a bundle that only the agent lacks", reading.CounterHostView, "view", diag.Fact{Vantage: hop.Node, Request: reach,
			Target: "https://node-api.test/healthz", Failure: diag.FileMissing, Phase: "trust"}, ladder},
		{"a folder that only the agent may not write", reading.CounterHostView, "view", diag.Fact{Vantage: hop.Node,
			Request: diag.Request{Op: diag.OpDisk, Target: "/var/lib/gpuaas/diag", Write: 8}, Failure: diag.DiskReadOnly,
			Phase: "write"},
			h(*hop.In(hops.BuiltIn().List(), diag.HopNodeReadiness))},
		{"a certificate that only the agent sees so", reading.CounterHostView, "view", diag.Fact{Vantage: hop.Node,
			Request: diag.Request{Op: diag.OpCert, Cert: "/etc/gpuaas/cert.pem"}, Failure: diag.FileUnparseable, Phase: "cert"},
			h(*hop.In(hops.BuiltIn().List(), diag.HopNodeRecoveryStatus))},
		{"an upgrade that is refused", "plain", "op", diag.Fact{Vantage: hop.Operator,
			Request: diag.Request{Op: diag.OpWS, Target: "https://a.apps.test/ws"}, Failure: diag.WSUpgradeRejected,
			Phase: "ws",
			HTTP:  &diag.HTTPFacts{Status: 403}}, h(*hop.In(hops.BuiltIn().List(), diag.HopAppUserRoute))},
		{"an API's route that is broken", reading.CounterOtherRoute, "target", diag.Fact{ID: "control_plane_access/healthz",
			Vantage: hop.Operator,
			Request: diag.Request{Op: diag.OpHTTP, Target: "https://api.test/healthz", Resolve: "192.0.2.10"},
			Failure: diag.HTTPEdgePage,
			Phase:   "http", HTTP: &diag.HTTPFacts{Status: 502}}, h(*hop.In(hops.BuiltIn().List(), diag.HopControlPlaneAccess))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.f
			if f.ID == "" {
				f.ID = "a/b"
			}
			counters := tc.asks(&f)
			i := slices.IndexFunc(counters, func(k hop.Counter) bool { return k.Name == tc.counter })
			if i < 0 {
				t.Fatalf("%+v", counters)
			}
			k := diag.Fact{ID: f.ID + "~" + tc.counter, Vantage: counters[i].From, Request: counters[i].Request,
				Failure: f.Failure, Phase: f.Phase}
			if p, _, _ := verdict.Prove(askedAgain(f, k), diag.SigControlPlaneUnreachable, f.ID); p != nil {
				t.Errorf("both fail: %+v", p)
			}
			k.Failure, k.Phase, k.HTTP = diag.OK, "", &diag.HTTPFacts{Status: 200}
			p, why, _ := verdict.Prove(askedAgain(f, k), diag.SigControlPlaneUnreachable, f.ID)
			if p == nil || p.Changed != tc.changed {
				t.Errorf("%+v %s, want %s", p, why, tc.changed)
			}
		})
	}
	if n := len(reading.NameServers(e, &diag.Fact{Vantage: hop.Node}, reach)); n != reading.MaxServers {
		t.Errorf("%d name servers", n)
	}
	if n := len(reading.NameServers(e, &diag.Fact{Vantage: hop.Operator}, reach)); n != 0 {
		t.Errorf("%d name servers for the operator", n)
	}
}

// askedAgain returns a case in which each fact has as many equal runs as a proof needs.
func askedAgain(facts ...diag.Fact) *hop.Case {
	var all []diag.Fact
	for _, f := range facts {
		all = append(all, f)
		for n := 2; n <= verdict.SilentRepeats; n++ {
			again := f
			again.ID = hop.RepeatID(f.ID, n)
			all = append(all, again)
		}
	}
	return hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, diag.EndedCompleted, all)
}
