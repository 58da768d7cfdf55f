package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// offset sets when a fact was measured, in milliseconds since the walk's start.
func offset(ms int64, change func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) {
		change(f)
		f.OffsetMS, f.At = ms, diag.At(noon.Add(time.Duration(ms)*time.Millisecond))
	}
}

// lasting sets when a fact was measured, and how long that took, in milliseconds.
func lasting(ms, took int64, change func(*diag.Fact)) func(*diag.Fact) {
	return offset(ms, func(f *diag.Fact) { change(f); f.DurationMS = diag.Millis(took) })
}

// badGateway is the answer of an edge that does not reach the platform.
func badGateway(f *diag.Fact) {
	f.Failure, f.Phase, f.WS, f.PTY = diag.HTTPEdgePage, "http", nil, nil
	f.HTTP = &diag.HTTPFacts{Status: 502, Page: "edge_error", ContentType: "text/html"}
}

// TestPlatformGone: a platform that ends during the walk is one fault, at the first hop that it did not answer, and no
// cause of a single listener; a platform whose API answers later, or only lost one answer, has not ended.
func TestPlatformGone(t *testing.T) {
	const (
		until = "the platform answered this walk until 12:00:00 UTC, and since then "
		gone  = until + "neither the operator nor the node"
		alone = until + "not the operator; the node did not ask"
	)
	operatorOnly := func(fail func(*diag.Fact)) answers {
		return answers{"node_task_roundtrip/enqueue": offset(500, fail), "terminal_token_mint/mint": offset(600, fail)}
	}
	ended := func(fail func(*diag.Fact)) answers {
		a := answers{}
		for _, id := range []string{"node_heartbeat/read_model", "node_heartbeat/node_after",
			"allocation_binding/allocation_after", "node_recovery_status/task_wait", "node_task_roundtrip/enqueue",
			"terminal_token_mint/mint", "terminal_public_route/healthz", "browser_terminal_ws/session"} {
			a[id] = offset(500, fail)
		}
		for _, id := range []string{"node_runtime_api_reachability/reach",
			"node_runtime_api_reachability/reach~from-operator", "node_terminal_reachability/stream",
			"node_terminal_reachability/stream~from-operator"} {
			a[id] = offset(600, failWith(diag.TCPRefused, "tcp"))
		}
		return a
	}
	refused := ended(failWith(diag.TCPRefused, "tcp"))
	for name, tc := range map[string]struct {
		world answers
		hop   diag.HopID // of the blame
		words string     // "" if the platform has not ended
	}{
		"all of it refuses": {refused, diag.HopNodeHeartbeat, gone},
		"edges stay":        {ended(badGateway), diag.HopNodeHeartbeat, gone},
		"a listener resets what it had not accepted": {with(refused, answers{
			"node_terminal_reachability/stream": offset(600, failWith(diag.TCPReset, "tcp")),
		}), diag.HopNodeHeartbeat, gone},
		"a listener that another one's answer seems to prove": {with(ended(badGateway), answers{
			"node_terminal_reachability/stream~other-listener": func(f *diag.Fact) { f.Failure, f.HTTP = "", nil },
		}), diag.HopNodeHeartbeat, gone},
		"the health page was still unanswered": {
			with(refused, answers{"control_plane_access/healthz": offset(500, failWith(diag.HTTPClosed, "http"))}),
			diag.HopControlPlaneAccess, gone,
		},
		"the API answers later": {with(refused, answers{"terminal_token_mint/mint": offset(900, func(*diag.Fact) {})}),
			diag.HopNodeRuntimeAPI, ""},
		"a gateway hangs, and its requests began before the API's last answer": {
			answers{"control_plane_access/healthz": offset(400, func(*diag.Fact) {}),
				"terminal_token_mint/mint":          lasting(20, 4000, failWith(diag.HTTPTimeout, "http")),
				"terminal_public_route/healthz":     lasting(40, 4000, failWith(diag.HTTPTimeout, "http")),
				"node_terminal_reachability/stream": lasting(60, 5500, failWith(diag.HTTPTimeout, "ws"))},
			diag.HopTerminalTokenMint, "",
		},
		"the node alone": {
			answers{"node_runtime_api_reachability/reach": refused["node_runtime_api_reachability/reach"],
				"node_terminal_reachability/stream": refused["node_terminal_reachability/stream"]},
			diag.HopNodeRuntimeAPI, "",
		},
		"the operator alone": {answers{"terminal_token_mint/mint": refused["terminal_token_mint/mint"],
			"terminal_public_route/healthz": refused["terminal_public_route/healthz"]}, diag.HopTerminalTokenMint, ""},
		"the operator alone, by the API": {operatorOnly(failWith(diag.TCPRefused, "tcp")), diag.HopNodeTaskRoundtrip, alone},
		"the operator alone, by an edge": {operatorOnly(badGateway), diag.HopNodeTaskRoundtrip, alone},
		"the operator alone, by silence": {
			operatorOnly(failWith(diag.HTTPTimeout, "http")), diag.HopNodeTaskRoundtrip, "",
		},
		"one answer of the API is missing": {
			answers{"terminal_token_mint/mint": offset(500, failWith(diag.HTTPTimeout, "http")),
				"node_terminal_reachability/stream": refused["node_terminal_reachability/stream"]},
			diag.HopTerminalTokenMint, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.world)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != tc.hop {
				t.Fatalf("blame %+v, want at %s\n%s", v.Blame, tc.hop, describe(r))
			}
			_, after, ended := strings.Cut(v.Blame.Text, until)
			if ended != (tc.words != "") || !strings.HasPrefix(until+after, tc.words) {
				t.Errorf("%q", v.Blame.Text)
			}
			if ended && (v.Blame.Signal != diag.SigControlPlaneUnreachable || v.Proof != nil || len(v.OtherFindings) > 0 ||
				!strings.HasPrefix(v.Owner, "control plane API") || strings.Contains(v.Blame.Text, "mapping.paths")) {
				t.Errorf("%+v, proof %v, others %v, owner %s", v.Blame, v.Proof, v.OtherFindings, v.Owner)
			}
		})
	}
}
