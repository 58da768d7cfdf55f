package world

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Reasons for the end of a session. Only the reference platform has them.
const (
	BrowserLeft = "browser_closed"
	nodeLeft    = "node_stream_closed"
	ShellExit   = "exit"
	StreamLate  = "node_stream_timeout"
)

// Steps that look at both ends of a session again.
const (
	stepAgent      = "agent"
	stepGateway    = "gateway"
	stepAgentAfter = "agent_after"
)

// agentStopping is the agent's word for a session that it ends because it is stopping.
const agentStopping = "agent_stopping"

// StoppedOpening reports whether an agent that was stopping ended a session: by its own word, or, as older agents do,
// by a failure of the shell whose cause is a cancellation.
func StoppedOpening(w *diag.WSFacts) bool {
	return w.FrameCode == agentStopping || w.CloseReason == agentStopping ||
		(diag.ShellCode(w.FrameCode) && strings.HasSuffix(w.FrameMessage, "context canceled"))
}

// FieldClosedBy is the field with the side that ended a session, one of Closers.
const FieldClosedBy = "session.closed_by"

// Closers are the values of session.closed_by.
var Closers = [...]string{"browser", "node", "gateway", "decision"}

// AwaitedCloser reports whether p polls a session's row for the side that ended it. For that poll, a row without the
// field is an answer as well.
func AwaitedCloser(p *diag.Poll) bool { return p != nil && p.Field == FieldClosedBy }

// EndedUnexplained reports whether the far side ended the browser's stream without a frame that gives a reason.
func EndedUnexplained(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return f != nil && f.WS != nil && f.WS.Ended != "" && f.WS.FrameCode == "" && f.WS.ExitCode == nil && !f.Passed()
}

// FellSilent reports whether an accepted session fell silent while the browser's side worked: the gateway then closes
// it as soon as we leave, and reports whether the node answered its ping.
func FellSilent(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return reading.PongCame(f) && !f.WS.PingLost && !f.Passed() && f.WS.Ended == "" && f.WS.FrameCode == ""
}

// gatewayEnds reports whether a word is the reason of a gateway that ended a session by itself.
func gatewayEnds(word string) bool { return word == "gateway_shutdown" || word == "gateway_restarted" }
