package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAnEffectIsNotSentAgain: a request with an effect that a server refused is sent again only if nothing behind that
// server can have seen it; and where it hung up, the text names a limit on connections as a cause.
func TestAnEffectIsNotSentAgain(t *testing.T) {
	page := func(server string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			httpFails(diag.HTTPEdgePage, 503, "edge_error")(f)
			f.HTTP.Server = server
		}
	}
	get, post := diag.Request{Op: diag.OpHTTP, Method: "GET"}, diag.Request{Op: diag.OpHTTP, Method: "POST"}
	for name, tc := range map[string]struct {
		req   diag.Request
		do    func(*diag.Fact)
		again bool
	}{
		"nginx's page":           {post, page("nginx/1.26"), true},
		"Envoy's page":           {post, page("envoy"), false},
		"Envoy's page for a GET": {get, page("envoy"), true},
		"within the handshake":   {post, failWith(diag.TLSClosed, "tls"), true},
		"a cut":                  {post, failWith(diag.HTTPClosed, "http"), false},
		"a cut of a GET":         {get, failWith(diag.HTTPClosed, "http"), true},
	} {
		f := diag.Fact{Request: tc.req}
		tc.do(&f)
		if refusedUnseen(Step{From: Operator}, tc.req, &f) != tc.again {
			t.Errorf("%s: sent again %t", name, !tc.again)
		}
	}
	for _, id := range []string{"node_task_roundtrip/enqueue", "terminal_token_mint/mint"} {
		r := walkWith(t, answers{id: failWith(diag.HTTPClosed, "http")})
		v := r.Verdict
		if v.Blame == nil || !strings.Contains(v.Blame.Text, "a limit on connections refuses so, too") ||
			!strings.Contains(v.Owner, "edge") {
			t.Errorf("%s: %s %+v\n%s", id, v.Owner, v.Blame, describe(r))
		}
	}
}
