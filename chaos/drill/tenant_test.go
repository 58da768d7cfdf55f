package drill_test

import (
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestTenantError: the tenant-visible error is what reached the browser, without any of the operator's words; nothing
// is reported if nothing was measured.
func TestTenantError(t *testing.T) {
	session := func(word diag.Failure, ws *diag.WSFacts) diag.Fact {
		return diag.Fact{ID: "session", Request: diag.Request{Op: diag.OpSession}, Failure: word, DurationMS: 8000, WS: ws}
	}
	asked := func(word diag.Failure, phase string, status int) diag.Fact {
		return diag.Fact{ID: "asked", Request: diag.Request{Op: diag.OpHTTP}, Failure: word, Phase: phase,
			HTTP: &diag.HTTPFacts{Status: status}}
	}
	const browser, mint, app = diag.HopBrowserTerminalWS, diag.HopTerminalTokenMint, diag.HopAppUserRoute
	for _, c := range []struct {
		name    string
		hop     diag.HopID
		fact    diag.Fact
		saw     string
		spinner bool
	}{
		{"error frame", browser, session(diag.WSClosed,
			&diag.WSFacts{Upgraded: true, FirstFrame: "error", FrameCode: "node_stream_timeout", FrameMessage: "no stream"}),
			"terminal: node_stream_timeout: no stream", false},
		{"error frame after a silence", browser,
			session(diag.PTYSilent, &diag.WSFacts{Upgraded: true, FirstFrame: "ready", FrameCode: "pty_exited"}),
			"terminal: pty_exited", false},
		{"closed", browser, session(diag.WSClosed, &diag.WSFacts{Upgraded: true, CloseCode: 1011, CloseReason: "gone"}),
			"terminal: closed with 1011 gone", false},
		{"gateway is silent", browser, session(diag.WSSilent, &diag.WSFacts{Upgraded: true}),
			"terminal: nothing for 8000 ms, a spinner", true},
		{"shell is silent", diag.HopTerminalStartup,
			session(diag.PTYSilent, &diag.WSFacts{Upgraded: true, FirstFrame: "ready"}),
			"terminal: nothing for 8000 ms, a spinner", true},
		{"no upgrade", browser, session(diag.WSUpgradeRejected, &diag.WSFacts{Status: 426}), "terminal: HTTP 426", false},
		{"cut short", browser, session(diag.Cancelled, nil), "", false},
		{"another session", browser,
			diag.Fact{ID: "other", Request: diag.Request{Op: diag.OpSession}, Failure: diag.WSSilent,
				WS: &diag.WSFacts{Upgraded: true}}, "", false},
		{"another response", app, diag.Fact{ID: "other", Request: diag.Request{Op: diag.OpHTTP}, Failure: diag.HTTPEdgePage,
			HTTP: &diag.HTTPFacts{Status: 502}}, "", false},
		{"it passed", browser, session("", &diag.WSFacts{Upgraded: true, CloseCode: 1000}), "", false},
		{"no connection", browser, diag.Fact{ID: "session", Request: diag.Request{Op: diag.OpSession}, Phase: "tcp",
			Failure: diag.TCPRefused, WS: &diag.WSFacts{}}, "terminal: cannot be reached (tcp_refused)", false},
		{"not a response", app, diag.Fact{ID: "asked", Failure: diag.TCPRefused, Phase: "tcp"}, "", false},
		{"an error with its code", app, diag.Fact{ID: "asked", Request: diag.Request{Op: diag.OpHTTP},
			Failure: diag.HTTPEdgePage, HTTP: &diag.HTTPFacts{Status: 503, ErrorCode: "full", ErrorMessage: "try later"}},
			"product URL: HTTP 503 full: try later", false},
		{"nothing asked", browser, diag.Fact{Request: diag.Request{Op: diag.OpHTTP}}, "", false},
		{"no token", mint, asked(diag.HTTPEdgePage, "http", 500), "terminal: HTTP 500", false},
		{"product URL", app, asked(diag.HTTPEdgePage, "http", 502), "product URL: HTTP 502", false},
		{"refused", app, asked(diag.TCPRefused, "tcp", 0), "product URL: cannot be reached (tcp_refused)", false},
		{"walk did not wait as long as a browser", app, asked(diag.HTTPTimeout, "http", 0), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &diag.Report{Facts: []diag.Fact{c.fact}, Hops: []diag.HopResult{{ID: c.hop, Finding: diag.Finding{
				Status: diag.StatusFail, Text: "what the operator reads", Evidence: []string{"asked"},
			}, Steps: []diag.StepResult{{Name: "looked at", Fact: "session"}}}}}
			s := drill.NewWalkView(r, drill.During)
			if s.UserSaw != c.saw || s.Spinner != c.spinner || slices.Contains(s.Unseen, c.hop) != (c.saw == "") {
				t.Errorf("saw %q, spinner %v, untold %v", s.UserSaw, s.Spinner, s.Unseen)
			}
			r.Hops[0].Status = diag.StatusPass
			if s := drill.NewWalkView(r, drill.During); s.UserSaw != "" || s.Spinner || len(s.Unseen) > 0 {
				t.Errorf("of a hop that passed: saw %q, spinner %v, untold %v", s.UserSaw, s.Spinner, s.Unseen)
			}
		})
	}
}
