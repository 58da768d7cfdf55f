package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// gatewayNodeStream: did the gateway see the node's WebSocket for the session that the browser opened? A successful
// task does not prove that.
func gatewayNodeStream() Hop {
	id := diag.HopGatewayNodeStream
	row := diag.HopTerminalOpenTask
	return Hop{
		ID: id, Behind: platformReads(), Budget: 5 * time.Second,
		Recorded:    errorsOfStream(diag.SigOpenWithoutStream, diag.SigNodeStreamMTLS),
		ExplainedBy: []diag.HopID{diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability},
		Steps:       []Step{streamStep(), agentStep(), gatewayStep()},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(row, stepSessionRow)
			switch {
			case f == nil || !sessionAccepted(c):
				return nil
			case status(f) != 200:
				return []diag.Finding{undecided(f, "the session could not be read: %s", saw(f))}
			case streamCame(c):
				if cut := streamCut(c); cut.at != cutNowhere {
					if cut.behind() {
						return []diag.Finding{cut.finding(c, f)}
					}
					return nil
				}
				if late := streamTooLate(c); late != nil && gaveUpOnShell(c) && decided(c) == "" {
					out := fail(diag.SigNodeStreamTimeout, f, "%s", late.text)
					out.Failure, out.Side, out.Direct = diag.OK, late.side, true
					return []diag.Finding{out}
				}
				return nil
			case decided(c) != "" && !shellComputed(c):
				return byDecision(f, decided(c))
			case cutBefore(c):
				return []diag.Finding{undecided(f, "the browser's side was cut before the node's stream arrived")}
			case browserNeverReachedGateway(c):
				return []diag.Finding{undecided(f, "the browser never reached the gateway, so no stream was requested")}
			}
			if shellComputed(c) {
				return []diag.Finding{unmapped(f, "the session names no stream of the node, and a shell computed over it")}
			}
			reason := c.Field(row, stepSessionRow, "session.close_reason")
			terminal := c.Fact(diag.HopNodeTerminalReachability, stepStream)
			st := c.Field(row, stepSessionRow, "session.task_status")
			out := fail(diag.SigOpenWithoutStream, f, "terminal.open is %s, and the gateway saw no stream of the node (%s)",
				orUnknown(st), orUnknown(reason))
			if terminal != nil && (isMTLS(terminal.Failure) || reason == "node_stream_mtls") {
				out.Signal = diag.SigNodeStreamMTLS
				claim(c, &out, claimStreamRefused)
			}
			return []diag.Finding{out}
		},
		Pass: func(c *Case) string {
			b := c.Time(row, stepSessionRow, "session.browser_connected_at")
			n := c.Time(row, stepSessionRow, "session.node_stream_connected_at")
			if b.IsZero() || n.Before(b) { // the platform lacks the browser's time, or has it by another clock
				return "the gateway saw the node's stream"
			}
			return fmt.Sprintf("the node's stream came %d ms after the browser", max(1, n.Sub(b).Milliseconds()))
		},
	}
}

// streamStep reads the session's row for the node's stream. Whether terminal.open was answered in time is judged by its
// own hop.
func streamStep() Step {
	s := sharedStep(stepSessionRow, diag.HopTerminalOpenTask, stepSessionRow, whenAccepted)
	s.Session, s.Fields = true, []string{"session.node_stream_connected_at"}
	s.Excused = func(c *Case, f *diag.Fact) bool { return status(f) == 200 && streamCame(c) }
	return s
}
