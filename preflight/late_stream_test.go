package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestALateStreamIsNotASlowShell: the gateway waits for stream and shell together; its times show which one was late.
func TestALateStreamIsNotASlowShell(t *testing.T) {
	late := diag.WSFacts{FirstFrame: "error", FrameCode: "node_stream_timeout", Ended: diag.WSEndClose, CloseCode: 4408}
	ms := func(n int) string { return stamp(time.Duration(n) * time.Millisecond) }
	for name, tc := range map[string]struct {
		row   map[string]string
		hop   diag.HopID
		owner string
		says  string
	}{
		"a slow way": {map[string]string{"session.task_claimed_at": ms(100), "session.node_stream_connected_at": ms(4800),
			"session.pty_ready_at": ""}, diag.HopGatewayNodeStream, "environment networking",
			"connected only 4800 ms after the browser, and the shell had only 200 ms left"},
		"a slow way, ready too late": {map[string]string{"session.task_claimed_at": ms(100),
			"session.node_stream_connected_at": ms(4900), "session.pty_ready_at": ms(5200)}, diag.HopGatewayNodeStream,
			"environment networking", "the shell was ready 300 ms later"},
		"a late claim": {map[string]string{"session.task_claimed_at": ms(4500), "session.node_stream_connected_at": ms(4800),
			"session.pty_ready_at": ""}, diag.HopGatewayNodeStream, "node runtime", "took the task after 4500 ms"},
		"a slow shell": {map[string]string{"session.task_claimed_at": ms(20), "session.node_stream_connected_at": ms(60),
			"session.pty_ready_at": ""}, diag.HopTerminalStartup, "node runtime", "its shell did not start in time"},
		"a slow shell after a slow way": {map[string]string{"session.task_claimed_at": ms(20),
			"session.node_stream_connected_at": ms(2000), "session.pty_ready_at": ms(5100)}, diag.HopTerminalStartup,
			"node runtime", "its shell did not start in time"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.row["session.close_reason"], tc.row["session.closed_at"] = "node_stream_timeout", ms(5000)
			tc.row["session.task_completed_at"] = ms(5001)
			r := walkWith(t, cutWorld(late, tc.row))
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != tc.hop || v.Owners[0] != tc.owner || !strings.Contains(v.Blame.Text, tc.says) ||
				len(v.OtherFindings) > 0 {
				t.Errorf("%v: %+v\n%s", v.Owners, v.Blame, describe(r))
			}
		})
	}
}
