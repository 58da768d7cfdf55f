package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAnEdgesPageIsTheEdges: what a known edge says in place of the API is quoted with its name, as the platform's
// side; a login that it asks for is no fault, and says what a check needs.
func TestAnEdgesPageIsTheEdges(t *testing.T) {
	edge := func(status int, name, says string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			answerOf(status, diag.HTTPEdgePage)(f)
			f.HTTP.ContentType, f.HTTP.Page, f.HTTP.Edge, f.HTTP.EdgeSays = "text/html", "edge_error", name, says
		}
	}
	login := func(name string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			answerOf(302, diag.HTTPEdgeAuth)(f)
			f.HTTP.Page, f.HTTP.Edge = "edge_login", name
		}
	}
	const route = "terminal_public_route/healthz"
	tunnel := edge(530, "Cloudflare", "error 1033: its tunnel is down")
	for what, c := range map[string]struct {
		answers answers
		outcome diag.Outcome
		hop     diag.HopID
		says    []string
	}{
		"the tunnel to the API is down": {answers{healthFact: tunnel, authFact: tunnel}, diag.OutcomeFail,
			diag.HopControlPlaneAccess, []string{"an edge's page, not the API's", "the edge (Cloudflare) says: error 1033"}},
		"a load balancer without a target": {answers{healthFact: edge(503, "AWS load balancer", "503 Service Temporarily"),
			authFact: edge(503, "AWS load balancer", "")}, diag.OutcomeFail, diag.HopControlPlaneAccess,
			[]string{"an edge's page, not the API's", "the edge (AWS load balancer) says: 503 Service Temporarily"}},
		"a proxy without words": {answers{healthFact: edge(502, "Caddy", ""), authFact: edge(502, "Caddy", "")},
			diag.OutcomeFail, diag.HopControlPlaneAccess, []string{"a page of the edge (Caddy)"}},
		"the terminal's edge": {answers{route: edge(503, "Envoy", "no healthy upstream"), sessionFact: refusedUpgrade(503)},
			diag.OutcomeFail, diag.HopTerminalPublicRoute, []string{"the edge (Envoy) says: no healthy upstream"}},
		"a login in front of the terminal": {answers{route: login("oauth2-proxy"), sessionFact: login("oauth2-proxy")},
			diag.OutcomeInconclusive, diag.HopTerminalPublicRoute,
			[]string{"auth.edge_cookie_file: oauth2-proxy has it as _oauth2_proxy"}},
		"an unknown login": {answers{route: login(""), sessionFact: login("")},
			diag.OutcomeInconclusive, diag.HopTerminalPublicRoute, []string{"(auth.edge_cookie_file)"}},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, c.answers)
			h := hopOf(r, c.hop)
			for _, words := range c.says {
				if !strings.Contains(h.Text+h.Because, words) {
					t.Errorf("%q is not in %s%s", words, h.Text, h.Because)
				}
			}
			if r.Verdict.Outcome != c.outcome {
				t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
			}
		})
	}
}
