package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// TestRedirectsLackNothing: a redirect in place of an answer comes from a server on the path, and is not a mistake of
// the mapping.
func TestRedirectsLackNothing(t *testing.T) {
	for id, hop := range map[string]diag.HopID{
		"allocation_binding/allocation":  diag.HopAllocationBinding,
		"node_heartbeat/read_model":      diag.HopNodeHeartbeat,
		"node_task_roundtrip/enqueue":    diag.HopNodeTaskRoundtrip,
		"terminal_token_mint/mint":       diag.HopTerminalTokenMint,
		"node_recovery_status/task_wait": diag.HopNodeRecoveryStatus,
	} {
		r := walkWith(t, answers{id: func(f *diag.Fact) {
			f.HTTP = &diag.HTTPFacts{Status: 301, Location: "api.test/elsewhere/"}
		}})
		h := hopOf(r, hop)
		if h.Status != diag.StatusInconclusive || !strings.Contains(h.Because, "HTTP 301 to api.test/elsewhere/") ||
			strings.Contains(h.Because, "mapping") || r.Verdict.Owner != "edge and route profile, operator access" {
			t.Errorf("%s: owner %q: %s", id, r.Verdict.Owner, describe(r))
		}
	}
}

// TestOthersAnswersLackNothing: an answer that does not come from the platform is not a mistake of the mapping.
func TestOthersAnswersLackNothing(t *testing.T) {
	for name, answer := range map[string]func(*diag.Fact){
		"an empty 200": func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPMalformed, "http", &diag.HTTPFacts{Status: 200}
		},
		"a limit on headers": func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 431}
		},
	} {
		for _, id := range []string{"allocation_binding/allocation", "node_heartbeat/read_model"} {
			r := walkWith(t, answers{id: answer})
			if r.Verdict.Outcome != diag.OutcomeInconclusive || r.Verdict.Owners[0] != "edge and route profile" {
				t.Errorf("%s, %s: owner %q: %s", id, name, r.Verdict.Owner, describe(r))
			}
		}
	}
}

// TestSubprotocolKeptBack: a browser leaves if the answer to its upgrade lacks the subprotocol. The gateway then needs
// no stream of the node, so its absence is not a second fault.
func TestSubprotocolKeptBack(t *testing.T) {
	r := walkWith(t, answers{
		"browser_terminal_ws/session": func(f *diag.Fact) {
			f.Failure, f.Phase, f.PTY = diag.WSSubprotocol, "ws", nil
			f.WS = &diag.WSFacts{Upgraded: true, Status: 101}
		},
		"terminal_open_task/session": func(f *diag.Fact) {
			f.HTTP.Fields["session.task_status"], f.HTTP.Fields["session.close_reason"] = "failed", world.BrowserLeft
			delete(f.HTTP.Fields, "session.node_stream_connected_at")
		},
	})
	if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigUpgradeFailed || len(r.Verdict.OtherFindings) > 0 {
		t.Errorf("blame %+v, others %v\n%s", b, r.Verdict.OtherFindings, describe(r))
	}
	for _, id := range []diag.HopID{diag.HopGatewayNodeStream, diag.HopTerminalStartup} {
		if h := hopOf(r, id); h.Status == diag.StatusFail {
			t.Errorf("%s fails: %s", id, h.Text)
		}
	}
}

// TestUpgradeWithoutItsKey: a 101 that does not answer this handshake is not called a refusal.
func TestUpgradeWithoutItsKey(t *testing.T) {
	r := walkWith(t, answers{"browser_terminal_ws/session": func(f *diag.Fact) {
		f.Failure, f.Phase, f.PTY, f.WS = diag.WSUpgradeRejected, "ws", nil, &diag.WSFacts{Status: 101}
	}})
	h := hopOf(r, diag.HopBrowserTerminalWS)
	if h.Signal != diag.SigUpgradeFailed || strings.Contains(h.Text, "refused") {
		t.Error(h.Signal, h.Text)
	}
}

// TestHalfAnAnswerToTheNode: a node whose task wait gets an incomplete answer is not let in, and its certificate is not
// the cause.
func TestHalfAnAnswerToTheNode(t *testing.T) {
	yes := true
	for _, word := range []diag.Failure{diag.HTTPClosed, diag.HTTPMalformed} {
		for _, issuer := range []string{"CN=signing", "CN=other"} {
			r := walkWith(t, answers{"node_recovery_status/task_wait": func(f *diag.Fact) {
				f.Failure, f.Phase = word, "http"
				f.HTTP = &diag.HTTPFacts{Status: 200, ContentType: "application/json"}
				f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes, CertSent: "serial",
					AcceptableCAs: []string{issuer}}
			}})
			if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigAPIUnreachable {
				t.Errorf("%s: %s", word, describe(r))
			}
		}
	}
}

// TestLoginDeniesNoNode: the 401 of a login page does not refuse the node's identity.
func TestLoginDeniesNoNode(t *testing.T) {
	r := walkWith(t, answers{"node_recovery_status/task_wait": pageOf(401, diag.HTTPEdgeAuth)})
	if got := r.Verdict.Reason; got != diag.ReasonControlPlaneUnreachable {
		t.Errorf("%s: %s", got, describe(r))
	}
}

// TestRefusedHandshakes: if a listener accepts the connections of node and operator but fails both handshakes, the path
// to it is not at fault.
func TestRefusedHandshakes(t *testing.T) {
	const alert = "remote error: tls: unrecognized name"
	refuse := func(f *diag.Fact) { f.Failure, f.Phase, f.Detail, f.HTTP = diag.TLSProtocol, "tls", alert, nil }
	for operator, owner := range map[bool]string{true: "control plane API", false: "environment networking"} {
		given := answers{"node_runtime_api_reachability/reach": refuse}
		if operator {
			given["node_runtime_api_reachability/reach~from-operator"] = refuse
		}
		r := walkWith(t, given)
		if h := hopOf(r, diag.HopNodeRuntimeAPI); r.Verdict.Owners[0] != owner || !strings.Contains(h.Text, alert) {
			t.Errorf("operator refused: %v, owner %q: %s", operator, r.Verdict.Owner, describe(r))
		}
	}
}

// TestClientCertificateOfAnOperator: an API that wants a client certificate from the operator is not broken.
func TestClientCertificateOfAnOperator(t *testing.T) {
	for phase, word := range map[string]diag.Failure{"mtls": diag.MTLSCertRequired, "http": diag.MTLSIngress400} {
		r := walkWith(t, answers{"control_plane_access/healthz": func(f *diag.Fact) { f.Failure, f.Phase = word, phase }})
		h := hopOf(r, diag.HopControlPlaneAccess)
		if !strings.Contains(h.Text, "wants a client certificate") || r.Verdict.Owners[0] != "operator access" {
			t.Errorf("%s: owner %q: %s", word, r.Verdict.Owner, h.Text)
		}
	}
}

// TestWaitsThatAreCutOff: if the node's record says that its task waits are cut off now, and the walk's own is let in,
// the agent that claims nothing is not at fault.
func TestWaitsThatAreCutOff(t *testing.T) {
	cut := diag.RecordEntry{Seq: 1, BootID: "boot-1", At: diag.At(noon.Add(-20 * time.Second)), Decision: "retry",
		Reason: diag.RecTaskPollFailed, About: "task_wait", Failure: diag.HTTPStatus, Status: 504}
	contact := diag.RecordEntry{Seq: 2, BootID: "boot-1", At: diag.At(noon.Add(-time.Second)), MonoNS: 1,
		Reason: diag.RecProcessAlive, About: "heartbeat", Decision: classify.DecisionContact}
	for name, c := range map[string]struct {
		entry func(e *diag.RecordEntry)
		edge  bool
	}{
		"HTTP 504":       {func(*diag.RecordEntry) {}, true},
		"closed":         {func(e *diag.RecordEntry) { e.Failure, e.Status = diag.HTTPClosed, 0 }, true},
		"a refusal":      {func(e *diag.RecordEntry) { e.Status = 409 }, false},
		"an hour ago":    {func(e *diag.RecordEntry) { e.At = diag.At(noon.Add(-time.Hour)) }, false},
		"before a boot":  {func(e *diag.RecordEntry) { e.BootID = "boot-0" }, false},
		"works again":    {func(e *diag.RecordEntry) { e.Reason = diag.RecProcessAlive }, false},
		"of its results": {func(e *diag.RecordEntry) { e.About = "task_result" }, false},
	} {
		r := walkWith(t, answers{
			"node_task_roundtrip/task": func(f *diag.Fact) {
				f.Failure, f.Phase = diag.HTTPTimeout, "poll"
				f.HTTP.Fields = map[string]string{"task.status": "queued"}
			},
			"node_recovery_status/host_record": func(f *diag.Fact) {
				e := cut
				c.entry(&e)
				f.Record = &diag.RecordFacts{Entries: []diag.RecordEntry{e, contact}}
			},
		})
		b := r.Verdict.Blame
		if b == nil || b.Signal != diag.SigTaskClaimFailed || (r.Verdict.Owners[0] == "edge and route profile") != c.edge ||
			strings.Contains(b.Text, "cut off") != c.edge {
			t.Errorf("%s: %s", name, describe(r))
		}
	}
}
