package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRefusedBesideOthers: what a server refuses once, while it serves others of the walk, is a limit's and no fault of
// the platform. A request with an effect is sent again only if it was refused before it was sent; else its text names a
// limit as a cause.
func TestRefusedBesideOthers(t *testing.T) {
	unavailable := func(kind, page string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 503, ContentType: kind, Page: page}
		}
	}
	const read, mint, enqueue = "node_heartbeat/read_model", "terminal_token_mint/mint", "node_task_roundtrip/enqueue"
	for name, tc := range map[string]struct {
		id     string
		refuse func(*diag.Fact)
		again  bool
	}{
		"reset at connect":        {mint, failWith(diag.TCPReset, "tcp"), true},
		"a port that refuses":     {mint, failWith(diag.TCPRefused, "tcp"), true},
		"closed in the handshake": {mint, failWith(diag.TLSClosed, "tls"), true},
		"a proxy's page":          {read, unavailable("text/html", "edge_error"), true},
		"a plain text":            {read, unavailable("text/plain", ""), true},
		"JSON without a code":     {read, unavailable("application/json", ""), true},
		"hung up on a read":       {read, failWith(diag.HTTPClosed, "http"), true},
		"a page to an effect":     {mint, unavailable("text/html", "edge_error"), false},
		"a text to an effect":     {mint, unavailable("text/plain", ""), false},
		"hung up on an effect":    {mint, failWith(diag.HTTPClosed, "http"), false},
		"hung up on a task":       {enqueue, failWith(diag.HTTPClosed, "http"), false},
	} {
		asked := 0
		r := walkWith(t, answers{tc.id: func(f *diag.Fact) {
			if f.Request.ID != tc.id {
				return
			}
			if asked++; asked == 1 {
				tc.refuse(f)
			}
		}})
		v := r.Verdict
		if tc.again {
			if v.Outcome != diag.OutcomeWarn || asked != 2 {
				t.Errorf("%s: asked %d times\n%s", name, asked, describe(r))
			}
		} else if v.Blame == nil || asked != 1 || !strings.Contains(v.Owner, "edge") ||
			!strings.Contains(v.Blame.Text, "a limit on connections refuses so, too") {
			t.Errorf("%s: asked %d times, %s, %+v\n%s", name, asked, v.Owner, v.Blame, describe(r))
		}
	}
}
