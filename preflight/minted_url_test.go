package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWhereATokenSendsABrowser: the URL of a terminal's token is compared with what the walk opens.
func TestWhereATokenSendsABrowser(t *testing.T) {
	for url, says := range map[string]string{
		"https://term.test/v1/terminal/sess-1":    "",
		"wss://term.test/v1/terminal/sess-1":      "",
		"wss://term.test:443/v1/terminal/sess-1":  "",
		"WSS://TERM.test/v1/terminal/sess-1":      "",
		"/v1/terminal/sess-1":                     "",
		"term.test/v1/terminal/sess-1":            "",
		"ws://term.test/v1/terminal/sess-1":       "a browser refuses such a connection (mixed content)",
		"http://term.test/v1/terminal/sess-1":     "a browser refuses such a connection (mixed content)",
		"ws://10.0.0.7:8080/v1/terminal/sess-1":   "its URL is ws://10.0.0.7:8080",
		"wss://old.term.test/v1/terminal/sess-1":  "and the profile's terminal_base is https://term.test",
		"wss://term.test:8443/v1/terminal/sess-1": "its URL is of wss://term.test:8443",
		"wss://localhost:3000/v1/terminal/sess-1": "its URL is of wss://localhost:3000",
	} {
		t.Run(url, func(t *testing.T) {
			r := walkWith(t, answers{mintFact: setField("token.url", url)})
			h := hopOf(r, diag.HopTerminalTokenMint)
			want := diag.StatusWarn
			if says == "" {
				want = diag.StatusPass
			}
			if h.Status != want || !strings.Contains(h.Text, says) ||
				(r.Verdict.Outcome == diag.OutcomePass) != (says == "") {
				t.Errorf("%s: %s%s", h.Status, h.Text, h.Because)
			}
		})
	}
}

// TestATokenThatDoesNotArrive: the refusal of a token that was given a moment ago begins with what that shows.
func TestATokenThatDoesNotArrive(t *testing.T) {
	const lost = "the token of a moment ago did not arrive: the edge drops Sec-WebSocket-Protocol"
	const other = "do not share their tokens"
	refused := func(status int, code string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			answerWith(diag.WSUpgradeRejected, "ws", status, map[string]string{"error.code": code})(f)
			f.WS = &diag.WSFacts{Status: status}
		}
	}
	for what, c := range map[string]struct {
		do    func(*diag.Fact)
		first bool
		other bool
	}{
		"a wrong token":           {refused(401, "invalid_token"), true, true},
		"an ended token":          {refused(401, "token_expired"), true, true},
		"no token":                {refused(401, "token_missing"), true, false},
		"a token is required":     {refused(401, "authentication_required"), true, false},
		"without a code":          {refused(401, ""), true, true},
		"another right":           {refused(403, "insufficient_scope"), false, false},
		"another session":         {refused(404, "session_not_found"), false, false},
		"without the upgrade":     {refused(426, "upgrade_required"), false, false},
		"an error of the gateway": {refused(503, "session_store_unavailable"), false, false},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, answers{sessionFact: c.do})
			text, steps := hopOf(r, diag.HopBrowserTerminalWS).Text, strings.Join(r.Verdict.Recovery, "\n")
			if strings.HasPrefix(text, lost) != c.first || strings.Contains(text, other) != c.other ||
				strings.Contains(steps, "pass Sec-WebSocket-Protocol on") != c.first ||
				(c.first && strings.Contains(steps, "whichever is broken")) {
				t.Errorf("%s\n%s", text, steps)
			}
		})
	}
}
