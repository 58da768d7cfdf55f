package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// pageOf is the answer of a server on the path: an HTML page.
func pageOf(status int, failure diag.Failure) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase = failure, "http"
		f.HTTP = &diag.HTTPFacts{Status: status, ContentType: "text/html"}
	}
}

// TestPagesAreOfAServerOnTheWay: a page that does not come from the platform shows no fault of the platform, its queue
// or the operator's token, and only a 401 is about a login; the text names the server that answered.
func TestPagesAreOfAServerOnTheWay(t *testing.T) {
	const edge = "edge and route profile"
	for name, c := range map[string]struct {
		answers answers
		hop     diag.HopID
		status  diag.Status
		never   []string
	}{
		"403 for the health page": {answers{"control_plane_access/healthz": pageOf(403, diag.HTTPStatus),
			"control_plane_access/auth": pageOf(403, diag.HTTPStatus)},
			diag.HopControlPlaneAccess, diag.StatusInconclusive, []string{"login", "token"}},
		"403 for the trust page": {answers{"control_plane_access/auth": pageOf(403, diag.HTTPStatus)},
			diag.HopControlPlaneAccess, diag.StatusInconclusive, []string{"refuses the operator's token", "login"}},
		"403 of nginx for the trust page": {answers{"control_plane_access/auth": pageOf(403, diag.HTTPEdgePage)},
			diag.HopControlPlaneAccess, diag.StatusInconclusive, []string{"refuses the operator's token", "login"}},
		"200 for the token": {answers{"terminal_token_mint/mint": pageOf(200, diag.HTTPEdgePage)},
			diag.HopTerminalTokenMint, diag.StatusFail, []string{"role or project", "this operator's token"}},
		"403 for the token": {answers{"terminal_token_mint/mint": pageOf(403, diag.HTTPStatus)},
			diag.HopTerminalTokenMint, diag.StatusFail, []string{"role or project", "this operator's token"}},
		"405 for the token": {answers{"terminal_token_mint/mint": pageOf(405, diag.HTTPEdgePage)},
			diag.HopTerminalTokenMint, diag.StatusFail, []string{"role or project", "this operator's token"}},
		"200 for the task": {answers{"node_task_roundtrip/enqueue": pageOf(200, diag.HTTPEdgePage)},
			diag.HopNodeTaskRoundtrip, diag.StatusInconclusive, []string{"took no task"}},
		"403 for the task": {answers{"node_task_roundtrip/enqueue": pageOf(403, diag.HTTPStatus)},
			diag.HopNodeTaskRoundtrip, diag.StatusInconclusive, []string{"took no task"}},
		"403 for the allocation": {answers{"allocation_binding/allocation": pageOf(403, diag.HTTPStatus)},
			diag.HopAllocationBinding, diag.StatusInconclusive, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			h := hopOf(r, c.hop)
			if h.Status != c.status || !slices.Contains(r.Verdict.Owners[:1], edge) {
				t.Errorf("%s, owners %q: %s%s\n%s", h.Status, r.Verdict.Owners, h.Text, h.Because, describe(r))
			}
			all := strings.Join(append(slices.Clone(r.Verdict.Recovery), h.Text+h.Because), "\n")
			for _, words := range c.never {
				if strings.Contains(all, words) {
					t.Errorf("%q is claimed: %s", words, all)
				}
			}
		})
	}
}

// TestClosedHealthPages has the platform's own refusals of a request without a token.
func TestClosedHealthPages(t *testing.T) {
	for _, c := range []struct {
		status int
		words  string
	}{{401, "wants a login (HTTP 401)"}, {403, "refuses a request without a token (HTTP 403)"}} {
		answer := func(f *diag.Fact) {
			pageOf(c.status, diag.HTTPStatus)(f)
			f.HTTP.ContentType = "application/json"
		}
		r := walkWith(t, answers{"terminal_public_route/healthz": answer})
		if h := hopOf(r, diag.HopTerminalPublicRoute); h.Status != diag.StatusWarn || !strings.Contains(h.Text, c.words) {
			t.Errorf("HTTP %d: %s %s", c.status, h.Status, h.Text)
		}
	}
	r := walkWith(t, answers{"terminal_public_route/healthz": pageOf(403, diag.HTTPStatus)})
	if h := hopOf(r, diag.HopTerminalPublicRoute); h.Status != diag.StatusWarn || strings.Contains(h.Text, "login") {
		t.Errorf("a page: %s %s", h.Status, h.Text)
	}
}
