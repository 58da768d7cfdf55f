package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestUnreadFieldsFailNobody: a platform whose fields are not where the mapping says fails no hop, since an unread
// field is not measured.
func TestUnreadFieldsFailNobody(t *testing.T) {
	without := func(names ...string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			for _, n := range names {
				delete(f.HTTP.Fields, n)
			}
		}
	}
	for name, tc := range map[string]struct {
		fact   string
		change func(*diag.Fact)
		hop    diag.HopID
		want   diag.Status
	}{
		"a heartbeat in seconds": {"node_heartbeat/read_model", func(f *diag.Fact) {
			f.HTTP.Fields["node.last_seen_at"] = "1767355200"
		}, diag.HopNodeHeartbeat, diag.StatusInconclusive},
		"another read model": {"node_heartbeat/read_model", func(f *diag.Fact) { f.HTTP.Fields = nil }, diag.HopNodeHeartbeat,
			diag.StatusInconclusive},
		"never heard": {"node_heartbeat/read_model", without("node.last_seen_at", "node.check_heartbeat"),
			diag.HopNodeHeartbeat, diag.StatusFail},
		"no claim time": {"terminal_open_task/session", without("session.task_claimed_at"), diag.HopTerminalOpenTask,
			diag.StatusPass},
		"no stream time": {"terminal_open_task/session", without("session.node_stream_connected_at"),
			diag.HopGatewayNodeStream, diag.StatusInconclusive},
	} {
		claims := func(f *diag.Fact) {
			if name == "never heard" {
				nobodyClaims(f)
			}
		}
		r := walkWith(t, answers{tc.fact: tc.change, "node_task_roundtrip/task": claims})
		if h := hopOf(r, tc.hop); h.Status != tc.want || h.Text+h.Because == "" {
			t.Errorf("%s: %s is %s, want %s (%s%s)", name, tc.hop, h.Status, tc.want, h.Text, h.Because)
		}
	}
	dispatched := func(f *diag.Fact) {
		f.HTTP.Fields["task.status"], f.Failure, f.Phase = "dispatched", diag.Timeout, "poll"
		delete(f.HTTP.Fields, "task.claimed_at")
	}
	r := walkWith(t, answers{"node_task_roundtrip/task": dispatched})
	if h := hopOf(r, diag.HopNodeTaskRoundtrip); h.Signal != diag.SigResultPostFailed {
		t.Errorf("a dispatched task without a claim time is %s: %s", h.Signal, h.Text)
	}
}
