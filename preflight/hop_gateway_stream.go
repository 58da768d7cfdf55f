package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// gatewayNodeStream: did the gateway see the node's WebSocket for the very session that the browser opened? A task
// that says success is no such proof.
func gatewayNodeStream() Hop {
	id := diag.HopGatewayNodeStream
	row := diag.HopTerminalOpenTask
	return Hop{
		ID: id, Title: "gateway sees the node's stream", Layer: diag.LayerEdge, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability},
		Steps:       []Step{sharedStep(stepSessionRow, row, stepSessionRow, whenAccepted)},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(row, stepSessionRow)
			if f == nil || !sessionAccepted(c) || status(f) != 200 {
				return nil
			}
			if !c.Time(row, stepSessionRow, "session.node_stream_connected_at").IsZero() {
				return nil
			}
			if strayed(c) {
				return []diag.Finding{undecided(f, "the browser never came to the gateway, so no stream was asked for")}
			}
			if s := c.Fact(diag.HopBrowserTerminalWS, stepSession); s.PTY != nil && s.PTY.NonceOK {
				return []diag.Finding{undecided(f, "the session names no stream of the node, and a shell computed over it (see mapping.fields in the profile)")}
			}
			reason := c.Field(row, stepSessionRow, "session.close_reason")
			terminal := c.Fact(diag.HopNodeTerminalReachability, stepStream)
			st := c.Field(row, stepSessionRow, "session.task_status")
			out := fail(diag.SigOpenWithoutStream, f, "terminal.open is %s, and the gateway saw no stream of the node (%s)", orUnknown(st), orUnknown(reason))
			if terminal != nil && (isMTLS(terminal.Failure) || reason == "node_stream_mtls") {
				out.Signal = diag.SigNodeStreamMTLS
				out.Text = "the gateway refused the node's certificate, so no stream came"
			}
			return []diag.Finding{out}
		},
		Pass: func(c *Case) string {
			b := c.Time(row, stepSessionRow, "session.browser_connected_at")
			n := c.Time(row, stepSessionRow, "session.node_stream_connected_at")
			return fmt.Sprintf("the node's stream came %d ms after the browser", max(1, n.Sub(b).Milliseconds()))
		},
	}
}
