package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// byFacts judges a healthy walk whose answers over HTTP are changed, by a profile that is changed.
func byFacts(change func(p *profile.Profile), answer func(f *diag.Fact)) *diag.Report {
	e := testEnv()
	e.Profile.Kind, e.Profile.Mapping = "", profile.Mapping{}
	change(&e.Profile)
	e.Profile = e.Profile.WithDefaults()
	e.Subject = hop.NewSubject(e.Profile, "node-1", "", "alloc-1", "")
	r := &diag.Report{Subject: e.Subject, Plan: testPlan(e), Run: diag.Run{EndedBy: diag.EndedCompleted}}
	list := hops.BuiltIn().List()
	for i := range list {
		for k := range list[i].Steps {
			s := &list[i].Steps[k]
			if s.Pure() || s.Uses != "" || s.Policy.Turn != hop.Always || s.From == hop.Platform {
				continue
			}
			req := s.Ask(e, hops.BuiltIn().CaseOf(r))
			if req.Op == "" || strings.HasSuffix(req.Target, "/") { // nothing was enqueued or opened

				continue
			}
			req.ID = hop.FactID(list[i].ID, s.Name)
			f := healthy(req)
			f.Vantage = s.From
			if list[i].ID != diag.HopAppUserRoute && (f.HTTP != nil || req.Op == diag.OpWS || req.Op == diag.OpSession) {
				answer(&f)
			}
			r.Facts = append(r.Facts, f)
		}
	}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// noPage answers as a server without this page.
func noPage(status int, kind, code string) func(f *diag.Fact) {
	return func(f *diag.Fact) {
		f.WS, f.PTY = nil, nil
		f.HTTP = &diag.HTTPFacts{Status: status, ContentType: kind, ErrorCode: code}
		if f.Failure, f.Phase = diag.OK, ""; status >= 400 {
			f.Failure, f.Phase = diag.HTTPStatus, "http"
		}
		if f.Request.Op != diag.OpHTTP {
			f.Failure, f.Phase = diag.WSUpgradeRejected, "ws"
			f.WS = &diag.WSFacts{Status: status}
		}
	}
}

// TestDefaultPathIsNoEvidence: what a server says of a path that the profile did not set is about nothing, unless the
// server is the reference platform's; the report has the line to write.
func TestDefaultPathIsNoEvidence(t *testing.T) {
	unset := func(*profile.Profile) {}
	for name, answer := range map[string]func(*diag.Fact){
		"404": noPage(404, "text/plain", ""), "404 in JSON": noPage(404, "application/json", ""),
		"404 with a page": noPage(404, "text/html", ""), "405": noPage(405, "", ""), "410": noPage(410, "", ""),
		"501": noPage(501, "", ""), "one page for all": noPage(200, "text/html; charset=utf-8", ""),
		"a gateway's code": noPage(404, "application/json", "route_not_found"),
	} {
		r := byFacts(unset, answer)
		if r.Verdict.Outcome != diag.OutcomeInconclusive {
			t.Errorf("%s: %s\n%s", name, r.Verdict.Outcome, describe(r))
		}
		for _, h := range r.Hops {
			if h.Status == diag.StatusFail {
				t.Errorf("%s: %s fails: %s", name, h.ID, h.Text)
			}
		}
		if text := describe(r); !strings.Contains(text, "healthz: /its/path") {
			t.Errorf("%s: nothing says what to write:\n%s", name, text)
		}
	}
	for name, set := range map[string]func(p *profile.Profile){
		"the profile says what it is": func(p *profile.Profile) { p.Kind = profile.KindGPUaaS },
		"the profile sets the path": func(p *profile.Profile) {
			p.Mapping.Paths = map[string]string{profile.PathHealthz: "/healthz"}
		},
	} {
		r := byFacts(set, noPage(404, "text/plain", ""))
		if h := hopOf(r, diag.HopControlPlaneAccess); h.Status != diag.StatusFail {
			t.Errorf("%s: %s %s", name, h.Status, h.Because)
		}
	}
	shown := func(f *diag.Fact) {
		if noPage(404, "application/json", "")(f); f.ID == "node_recovery_status/task_wait" {
			f.HTTP.ErrorCode, f.HTTP.Status = "revoked", 403
		}
	}
	if r := byFacts(unset, shown); r.Verdict.Outcome != diag.OutcomeFail {
		t.Errorf("the platform shows itself: %s", r.Verdict.Outcome)
	}
}

// TestKindHasItsPathsAlone: a platform of another kind is asked for what its profile maps, and nothing else.
func TestKindHasItsPathsAlone(t *testing.T) {
	for _, kind := range profile.Kinds()[1:] {
		r := byFacts(func(p *profile.Profile) {
			p.Kind, p.Mapping.Paths = kind, map[string]string{profile.PathHealthz: "/live"}
		}, func(*diag.Fact) {})
		for i := range r.Facts {
			req := &r.Facts[i].Request
			if req.Op == diag.OpHTTP && req.Target != "https://api.test/live" &&
				!strings.HasPrefix(req.ID, string(diag.HopAppUserRoute)) && !strings.HasSuffix(req.Target, "/live") {
				t.Errorf("%s: %s asks for %s", kind, req.ID, req.Target)
			}
		}
		if r.Verdict.Outcome == diag.OutcomeFail {
			t.Errorf("%s: %s\n%s", kind, r.Verdict.Outcome, describe(r))
		}
	}
}
