package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWorldsThatWereMisjudged: each row is a world of an attack in which a hop claimed more than its facts.
func TestWorldsThatWereMisjudged(t *testing.T) {
	unknown := refusal(404, "node_not_found")
	none := 0
	for name, tc := range map[string]struct {
		answers answers
		hop     diag.HopID
		status  diag.Status
		says    string
		owner   string // the first one of the verdict, if it blames
	}{
		"an edge takes the upgrade and closes": {answers{
			sessionFact: func(f *diag.Fact) {
				f.Failure, f.Phase, f.PTY = diag.WSClosed, "ws", nil
				f.WS = &diag.WSFacts{Status: 101, Upgraded: true, CloseCode: 1001, CloseReason: "edge says"}
			},
			rowFact: omits("session.browser_connected_at", "session.task_status"),
		}, diag.HopBrowserTerminalWS, diag.StatusFail, "something in front of the gateway answered",
			"edge and route profile"},
		"a redirect in place of an upgrade": {answers{"app_user_route/upgrade": refusedUpgrade(302)},
			diag.HopAppUserRoute, diag.StatusInconclusive, "sends the WebSocket upgrade elsewhere", ""},
		"a stopped process that answered": {answers{"node_readiness/process": func(f *diag.Fact) {
			failWith(diag.ProcessStopped, "process")(f)
			f.Unit = &diag.UnitFacts{Active: "active", PID: 7, ProcessState: "T", Restarts: &none}
		}}, diag.HopNodeReadiness, diag.StatusWarn, "answered a no-op in this walk", ""},
		"a server that lacks the node": {answers{"node_heartbeat/read_model": unknown},
			diag.HopNodeHeartbeat, diag.StatusInconclusive, "one of several servers may lack it", ""},
		"a code that names a node and is about none": {
			answers{"node_heartbeat/read_model": refusal(404, "no_node_available")},
			diag.HopNodeHeartbeat, diag.StatusInconclusive, "the node could not be read", ""},
		"an edge's own 503": {answers{waitFact: func(f *diag.Fact) {
			refusal(503, "")(f)
			f.HTTP.Page = "edge_error"
		}}, diag.HopNodeRecoveryStatus, diag.StatusFail, "the node's task wait gets only an error from", "control plane API"},
		"a terminal edge without an upstream": {answers{"terminal_public_route/healthz": func(f *diag.Fact) {
			refusal(502, "")(f)
			f.HTTP.Page = "edge_error"
		}, sessionFact: refusedUpgrade(502)}, diag.HopTerminalPublicRoute, diag.StatusFail, "502", "terminal gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			h := hopOf(r, tc.hop)
			if h.Status != tc.status || !strings.Contains(h.Text+h.Because, tc.says) ||
				strings.Contains(h.Text, "fault is behind it") {
				t.Errorf("%s: %s", h.Status, h.Text+h.Because)
			}
			if v := r.Verdict; tc.owner != "" && (v.Blame == nil || v.Blame.Hop != tc.hop || v.Owners[0] != tc.owner) {
				t.Errorf("blame %+v", v.Blame)
			} else if tc.owner == "" && v.Outcome == diag.OutcomeFail {
				t.Errorf("blame %+v", v.Blame)
			}
		})
	}
}

// TestAMintWithoutAnAnswer: what gave no answer named no check, so no step looks for one.
func TestAMintWithoutAnAnswer(t *testing.T) {
	r := walkWith(t, answers{"terminal_token_mint/mint": failWith(diag.HTTPTimeout, "http")})
	steps := strings.Join(r.Verdict.Recovery, "\n")
	if r.Verdict.Owner != "control plane API, edge and route profile" || strings.Contains(steps, "error code") ||
		strings.Contains(steps, "allocation's state") || !strings.Contains(steps, "corr-1") {
		t.Errorf("owner %q:\n%s", r.Verdict.Owner, steps)
	}
}
