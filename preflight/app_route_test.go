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

// leftOfApp returns the steps of hop 17 that the plan leaves out, with the reasons.
func leftOfApp(p profile.Profile) map[string]string {
	plan := hops.BuiltIn().NewPlan(p, hop.NewSubject(p, "node-1", "", "alloc-1", ""), hop.Options{Session: true,
		Token: true, SSH: true})
	return (&hop.Case{Plan: plan}).Planned(diag.HopAppUserRoute).Left
}

// TestAppStepsAreAskedFor: a step about something that is not known of the workload is left out, with the reason in the
// plan.
func TestAppStepsAreAskedFor(t *testing.T) {
	p := testProfile()
	if left := leftOfApp(p); len(left) > 0 {
		t.Errorf("left out: %v", left)
	}
	p.App, p.PlatformSSH = profile.App{}, profile.SSH{}
	p.Mapping.Fields[hop.FieldWebsocket] = profile.Absent
	left := leftOfApp(p)
	for step, why := range map[string]string{"upgrade": "app.websocket", "headers": "app.injected_headers",
		"endpoint": "platform_ssh.host"} {
		if !strings.Contains(left[step], why) {
			t.Errorf("%s: %q", step, left[step])
		}
	}
}

// TestAppRoute has the results of a browser's requests to a workload. Only a route that fails behind its edge is worth
// a login on the platform's host.
func TestAppRoute(t *testing.T) {
	const of = "app_user_route/"
	refused := func(f *diag.Fact) {
		f.Failure, f.Phase = diag.WSUpgradeRejected, "ws"
		f.WS, f.HTTP = &diag.WSFacts{Status: 200}, &diag.HTTPFacts{Status: 200}
	}
	login := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPEdgeAuth, "http", &diag.HTTPFacts{Status: 302}
	}
	names := func(list string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.HTTP = &diag.HTTPFacts{Status: 200, Fields: map[string]string{"app.header_names": list}}
		}
	}
	status := func(code int) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPEdgePage, "http", &diag.HTTPFacts{Status: code}
		}
	}
	unreached := func(f *diag.Fact) {
		f.Failure, f.Phase, f.TCP = diag.TCPTimeout, "tcp", &diag.TCPFacts{Remote: "192.0.2.101:8888"}
	}
	lostWay := func(f *diag.Fact) { f.Failure, f.Phase, f.TCP = diag.SSHAuth, "ssh", nil }
	for name, c := range map[string]struct {
		answers answers
		want    diag.Status
		text    string
	}{
		"all is well": {nil, diag.StatusPass,
			"takes a WebSocket, and has the edge's headers: X-Forwarded-Proto"},
		"an edge without upgrade": {answers{of + "upgrade": refused}, diag.StatusFail,
			"https://a.apps.test answers HTTP 200, and refuses the WebSocket upgrade of /ws"},
		"a login before it": {answers{of + "upgrade": login}, diag.StatusInconclusive,
			"login before the WebSocket upgrade"},
		"a header that is missing": {answers{of + "headers": names(`["Host"]`)}, diag.StatusFail,
			"the workload received no X-Forwarded-Proto, which the edge has to inject"},
		"a workload that lists nothing": {answers{of + "headers": names("")}, diag.StatusInconclusive,
			"lists no header names"},
		"a page that is not there": {answers{of + "headers": status(404)}, diag.StatusInconclusive,
			"could not be read"},
		"a route that fails at the edge": {answers{of + hop.StepRoute: status(502)}, diag.StatusFail,
			"the workload's endpoint 192.0.2.101:8888 answers the platform's host"},
		"a route that fails behind it": {answers{of + hop.StepRoute: status(502), of + "endpoint": unreached},
			diag.StatusFail, "the workload's endpoint 192.0.2.101:8888 does not answer the platform's host either: " +
				"tcp_timeout in tcp (192.0.2.101:8888) after 3 ms; the port answers on the node itself, so the fault is between"},
		"a fault before the edge": {answers{of + hop.StepRoute: failWith(diag.TCPTimeout, "tcp")},
			diag.StatusFail, "fails: tcp_timeout"},
		"a platform that could not say so": {answers{of + hop.StepRoute: status(502), of + "endpoint": lostWay},
			diag.StatusFail, "fails: http_edge_page"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			h := hopOf(r, diag.HopAppUserRoute)
			if h.Status != c.want || !strings.Contains(h.Text+h.Because, c.text) {
				t.Errorf("%s: %s%s", h.Status, h.Text, h.Because)
			}
			asked := slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.ID == of+"endpoint" })
			if want := strings.HasPrefix(name, "a route") || strings.HasPrefix(name, "a platform"); asked != want {
				t.Errorf("the workload's endpoint was asked: %v, want %v", asked, want)
			}
			if b := r.Verdict.Blame; (b != nil) != (c.want == diag.StatusFail) || (b != nil &&
				b.Signal != diag.SigAppRouteFailed) {
				t.Errorf("blame %+v", b)
			}
			onTheWay := strings.Contains(c.text, "is between")
			if named := strings.HasPrefix(r.Verdict.Owner, "environment networking"); named != onTheWay {
				t.Errorf("owner %s", r.Verdict.Owner)
			}
			replaysToItself(t, r)
		})
	}
}

// TestPortOfAnother: the report names who answers at the workload's port if that is not the workload, and a workload
// that listens nowhere is not the proxy's fault.
func TestPortOfAnother(t *testing.T) {
	heldBy := func(name, unit string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.TCP = &diag.TCPFacts{Remote: "127.0.0.1:8888", Listener: &diag.Listener{Name: name, PID: 7, Unit: unit}}
		}
	}
	listens := func(f *diag.Fact) { f.Unit.Listening = []string{"[::]:8888"} }
	exited := func(f *diag.Fact) { f.Unit = &diag.UnitFacts{Active: "active", Sub: "exited"} }
	refused := func(f *diag.Fact) {
		f.Failure, f.Phase, f.WS = diag.WSUpgradeRejected, "ws", &diag.WSFacts{Status: 200}
	}
	const upgrade = "app_user_route/" + "upgrade"
	other := heldBy("perl", "other.service")
	for name, c := range map[string]struct {
		answers     answers
		hop         diag.HopID
		owner, text string
	}{
		"stopped": {answers{appPortFact: other, appUnitFact: unitIs(diag.UnitInactive, "inactive", "dead")},
			diag.HopAppRuntimeLiveness, "app runtime", "; port 8888 is held by perl (pid 7, other.service)"},
		"runs": {answers{appPortFact: other}, diag.HopAppRuntimeLiveness, "",
			"runs, port 8888 answers on the node; port 8888 is held by perl (pid 7, other.service)"},
		"exited": {answers{appPortFact: other, appUnitFact: exited}, diag.HopAppRuntimeLiveness, "",
			"app.service has ended well, and has no process, port"},
		"listens": {answers{appPortFact: other, appUnitFact: listens}, diag.HopAppRuntimeLiveness, "", "answers on the node"},
		"a route of another": {answers{appPortFact: other, upgrade: refused}, diag.HopAppUserRoute, "app runtime",
			"held by perl (pid 7, other.service), and app.service listens on no port"},
		"a route of a container": {answers{appPortFact: heldBy("docker-proxy", "docker.service"), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "held by docker-proxy (pid 7, docker.service)"},
		"a route of a proxy": {answers{appPortFact: heldBy("nginx", "nginx.service"), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "held by nginx (pid 7, nginx.service)"},
		"a route of a container in the machine's network": {
			answers{appPortFact: heldBy("python3", "docker-0123.scope"), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "held by python3 (pid 7, docker-0123.scope)"},
		"a route of a container by a user's manager": {
			answers{appPortFact: heldBy("rootlesskit", "user@1000.service"), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "held by rootlesskit (pid 7, user@1000.service)"},
		"a route of a login's program": {answers{appPortFact: heldBy("python3", "session-3.scope"), upgrade: refused},
			diag.HopAppUserRoute, "app runtime", "held by python3 (pid 7, session-3.scope), and"},
		"a route of a process without a unit": {answers{appPortFact: heldBy("python3", ""), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "held by python3 (pid 7)"},
		"a route of its own": {answers{appPortFact: heldBy("app", "app.service"), upgrade: refused},
			diag.HopAppUserRoute, "proxy runtime", "refuses the WebSocket upgrade"},
	} {
		r := walkWith(t, c.answers)
		h := hopOf(r, c.hop)
		if !strings.Contains(h.Text, c.text) || !strings.HasPrefix(r.Verdict.Owner, c.owner) ||
			(r.Verdict.Blame == nil) != (c.owner == "") ||
			(strings.Contains(h.Text, "held by") && !strings.Contains(c.text, "held by") && name != "exited") {
			t.Errorf("%s: owner %q, %s: %s", name, r.Verdict.Owner, h.Status, h.Text)
		}
		replaysToItself(t, r)
	}
}

// TestNoWebSocketIsNoFault: if neither profile nor platform reports that the workload uses a WebSocket, none is
// requested.
func TestNoWebSocketIsNoFault(t *testing.T) {
	for word, want := range map[string]string{"": "", "false": "", "true": "https://a.apps.test/",
		"/api/ws": "https://a.apps.test/api/ws"} {
		e := testEnv()
		e.Profile.App.Websocket = ""
		e.Subject = hop.NewSubject(e.Profile, "node-1", "", "alloc-1", "")
		declared := answers{"allocation_binding/allocation": setField(hop.FieldWebsocket, word)}
		vantages := map[string]hop.Vantage{}
		for _, v := range []string{hop.Operator, hop.Node, hop.Platform} {
			vantages[v] = &scripted{name: v, answers: declared}
		}
		facts, ended := walkPlan(t, e, testPlan(e), vantages, nil)
		i := slices.IndexFunc(facts, func(f diag.Fact) bool { return f.ID == "app_user_route/"+"upgrade" })
		got := ""
		if i >= 0 {
			got = facts[i].Request.Target
		}
		if got != want {
			t.Errorf("%q: asked %q, want %q", word, got, want)
		}
		hops := verdict.Assess(hops.BuiltIn().List(), hops.BuiltIn().NewCase(e.Subject, testPlan(e), ended, facts))
		if h := byID(hops)[diag.HopAppUserRoute]; h.Status != diag.StatusPass {
			t.Errorf("%q: %s %s", word, h.Status, h.Because)
		}
	}
}

// TestAWorkloadThatListensOnlyAtLoopback: its port answers on the node, and the platform's proxy cannot connect. The
// address at which it listens is the cause, and it was measured.
func TestAWorkloadThatListensOnlyAtLoopback(t *testing.T) {
	const theWay, ofPort = "environment networking, app runtime", "127.0.0.1:8888"
	for name, tc := range map[string]struct {
		listening []string
		failure   diag.Failure // of the platform's connection
		owner     string
	}{
		"loopback only":      {[]string{ofPort}, diag.TCPRefused, "app runtime"},
		"both loopbacks":     {[]string{ofPort, "[::1]:8888"}, diag.TCPRefused, "app runtime"},
		"another port there": {[]string{ofPort, "0.0.0.0:9090"}, diag.TCPRefused, "app runtime"},
		"every address":      {[]string{"0.0.0.0:8888"}, diag.TCPRefused, theWay},
		"not by itself":      {nil, diag.TCPRefused, theWay},
		"a filter drops":     {[]string{ofPort}, diag.TCPTimeout, theWay},
		"no route":           {[]string{ofPort}, diag.TCPNoRoute, theWay},
	} {
		r := walkWith(t, answers{
			appUnitFact: func(f *diag.Fact) { f.Unit.Listening = tc.listening },
			"app_user_route/route": func(f *diag.Fact) {
				f.Failure, f.Phase, f.HTTP = diag.HTTPEdgePage, "http", &diag.HTTPFacts{Status: 502}
			},
			"app_user_route/endpoint": func(f *diag.Fact) {
				f.Failure, f.Phase, f.TCP = tc.failure, "tcp", &diag.TCPFacts{Remote: "192.0.2.101:8888"}
			},
		})
		b, measured := r.Verdict.Blame, tc.owner == "app runtime"
		if b == nil || b.Hop != diag.HopAppUserRoute || r.Verdict.Owner != tc.owner ||
			strings.Contains(b.Text, "the workload listens only at 127.0.0.1:8888") != measured ||
			strings.Contains(b.Text, "the fault is between") == measured ||
			(r.Verdict.Observation != nil) != measured {
			t.Errorf("%s: owner %s, %s (%s)\n%s", name, r.Verdict.Owner, r.Verdict.Confidence, b.Unproven, describe(r))
		}
		replaysToItself(t, r)
	}
}
