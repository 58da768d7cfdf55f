package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// gatewayNodeStream: did the gateway see the node's WebSocket for the session that the browser opened? A successful
// task does not prove that.
func gatewayNodeStream() hop.Hop {
	id := diag.HopGatewayNodeStream
	row := diag.HopTerminalOpenTask
	return hop.Hop{
		ID: id, Absent: hop.NoTerminalSite, Agent: true, Budget: 5 * time.Second,
		Causes: hop.Causes{Behind: hop.PlatformReads(),
			ExplainedBy: []diag.HopID{diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability}},
		Recorded: world.ErrorsOfStream(diag.SigOpenWithoutStream, diag.SigNodeStreamMTLS),
		Steps:    []hop.Step{streamStep(), world.AgentStep(), world.GatewayStep()},
		Judge: func(c *hop.Case) []diag.Finding {
			f := c.Fact(row, hop.StepSessionRow)
			switch {
			case f == nil || !world.SessionAccepted(c):
				return nil
			case reading.Status(f) != 200:
				return []diag.Finding{reading.Undecided(f, "the session could not be read: %s", reading.Saw(f))}
			case world.StreamCame(c):
				if cut := world.StreamCut(c); cut.At != world.CutNowhere {
					if cut.Behind() {
						return []diag.Finding{cut.Finding(c, f)}
					}
					return nil
				}
				if late := world.StreamTooLate(c); late != nil && world.GaveUpOnShell(c) && world.Decided(c) == "" {
					out := reading.Fail(diag.SigNodeStreamTimeout, f, "%s", late.Text)
					out.Failure, out.Side, out.Direct = diag.OK, late.Side, true
					return []diag.Finding{out}
				}
				return nil
			case world.Decided(c) != "" && !world.ShellComputed(c):
				return []diag.Finding{world.ByDecision(f, world.Decided(c))}
			case world.CutBefore(c):
				return []diag.Finding{reading.Undecided(f, "the browser's side was cut before the node's stream arrived")}
			case world.BrowserNeverReachedGateway(c):
				return []diag.Finding{reading.Undecided(f, "the browser never reached the gateway, so no stream was requested")}
			}
			if world.ShellComputed(c) {
				return []diag.Finding{reading.Unmapped(f, "the session names no stream of the node, and a shell computed over it")}
			}
			reason := c.Field(row, hop.StepSessionRow, "session.close_reason")
			terminal := c.Fact(diag.HopNodeTerminalReachability, hop.StepStream)
			st := c.Field(row, hop.StepSessionRow, "session.task_status")
			out := reading.Fail(diag.SigOpenWithoutStream, f,
				"terminal.open is %s, and the gateway saw no stream of the node (%s)",
				reading.OrUnknown(st), reading.OrUnknown(reason))
			if terminal != nil && (reading.IsMTLS(terminal.Failure) || reason == "node_stream_mtls") {
				out.Signal = diag.SigNodeStreamMTLS
				world.Claim(c, &out, world.ClaimStreamRefused)
			}
			return []diag.Finding{out}
		},
		Pass: func(c *hop.Case) string {
			b := c.Time(row, hop.StepSessionRow, "session.browser_connected_at")
			n := c.Time(row, hop.StepSessionRow, "session.node_stream_connected_at")
			if b.IsZero() || n.Before(b) { // the platform lacks the browser's time, or has it by another clock
				return "the gateway saw the node's stream"
			}
			return fmt.Sprintf("the node's stream came %d ms after the browser", max(1, n.Sub(b).Milliseconds()))
		},
	}
}

// streamStep reads the session's row for the node's stream. Whether terminal.open was answered in time is judged by its
// own hop.
func streamStep() hop.Step {
	s := hop.SharedStep(hop.StepSessionRow, diag.HopTerminalOpenTask, hop.StepSessionRow, world.WhenAccepted)
	s.Needs.Session, s.Needs.Fields = true, []string{"session.node_stream_connected_at"}
	s.Excused = func(c *hop.Case, f *diag.Fact) bool { return reading.Status(f) == 200 && world.StreamCame(c) }
	return s
}
