package world

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// SessionAccepted reports whether the gateway accepted the browser's WebSocket, and the browser the gateway's answer: a
// browser leaves if the answer lacks the subprotocol.
func SessionAccepted(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return reading.Upgraded(f) && f.Failure != diag.WSSubprotocol
}

// ForeignTerminal returns the terminal that this walk opened, if it is not of the reference platform; else nil.
func ForeignTerminal(c *hop.Case) *diag.Terminal {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if f == nil || f.Request.Terminal == nil || f.Request.Terminal.Reference {
		return nil
	}
	return f.Request.Terminal
}

// ShellComputed reports whether a shell computed the walk's nonce through the session that this walk opened.
func ShellComputed(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return f.Passed() && f.PTY != nil && f.PTY.NonceOK
}

// TerminalReady reports whether the browser got the ready message, which the agent sends when the shell runs.
func TerminalReady(c *hop.Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	return reading.Upgraded(f) && f.WS.FirstFrame == "ready"
}

// WhenAccepted is the condition that the gateway accepted the browser's session.
func WhenAccepted(c *hop.Case) string {
	if SessionAccepted(c) {
		return ""
	}
	return "needs an accepted browser session"
}

// CulpritEdgeTook is the culprit if an upgrade was answered and never reached the gateway.
const CulpritEdgeTook = "edge took the upgrade"

// SessionField returns a field of the gateway's row of this walk's session.
func SessionField(c *hop.Case, name string) string {
	return c.Field(diag.HopTerminalOpenTask, hop.StepSessionRow, name)
}

// StreamCame reports whether the gateway's row of the session has the node's stream.
func StreamCame(c *hop.Case) bool {
	return !c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.node_stream_connected_at").IsZero()
}

// ShellReady reports whether the gateway's row of the session has a ready shell.
func ShellReady(c *hop.Case) bool {
	return !c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.pty_ready_at").IsZero()
}

// BrowserNeverReachedGateway reports whether the gateway's own row of the session shows no browser, although the
// browser was accepted.
func BrowserNeverReachedGateway(c *hop.Case) bool {
	row := diag.HopTerminalOpenTask
	f := c.Fact(row, hop.StepSessionRow)
	return SessionAccepted(c) && reading.Status(f) == 200 &&
		!reading.Unasked(f, "session.task_status") && !reading.Unasked(f, "session.browser_connected_at") &&
		c.Field(row, hop.StepSessionRow, "session.task_status") == "" &&
		c.Time(row, hop.StepSessionRow, "session.browser_connected_at").IsZero()
}

// AskUnknownSession asks the terminal listener of the running agent for a session that no gateway has.
func AskUnknownSession(e *hop.Env, _ *hop.Case) diag.Request {
	return e.AsAgent(diag.OpWS, e.Profile.Agent.Terminal, profile.PathNodeTerminal,
		map[string]string{"session_id": hop.UnknownSessionID})
}

// GatewayAccepts reports whether the terminal gateway accepted this node's certificate.
func GatewayAccepts(c *hop.Case) bool {
	return reading.SessionNotFound(c.Fact(diag.HopNodeTerminalReachability, hop.StepStream))
}

// ByProvider returns what a missing stream means for a node of this provider: a Proxmox worker is on the platform's
// side, so a route that works in one direction only cannot explain it. For other providers it returns "".
func ByProvider(c *hop.Case) string {
	class := ReadModel(c, "node.provider_class")
	if !strings.Contains(strings.ToLower(class), "proxmox") {
		return ""
	}
	return "; a " + class +
		" node is on the platform's side: check for drift of the endpoint, the profile or the listener's policy; a one-way " +
		"network cannot be the cause"
}

// OfGateway reports whether an answer in place of an upgrade is known to be the terminal gateway's, which sends neither
// redirects nor pages.
func OfGateway(f *diag.Fact) bool {
	if s := reading.Status(f); s/100 == 3 || reading.ForeignPage(f) {
		return false
	}
	return reading.PlatformCode(f) || reading.NamesObject(f) || TokenRead(f) || reading.Code(f) == "upgrade_required" ||
		(reading.PlatformSpeaks(f) && reading.Unasked(f, hop.FieldErrorCode))
}

// TokenLost describes a gateway's refusal of the terminal token that this walk got a moment before, which cannot have
// ended: it did not arrive, or is not known there. "" for any other answer, or if no token was given.
func TokenLost(c *hop.Case, f *diag.Fact) string {
	mint := c.Fact(diag.HopTerminalTokenMint, hop.StepMint)
	if f == nil || f.Request.Op != diag.OpSession || reading.Status(f) != 401 || f.Failure == diag.HTTPEdgeAuth ||
		reading.Upgraded(f) || !mint.Passed() {
		return ""
	}
	text := "the token of a moment ago did not arrive: the edge drops Sec-WebSocket-Protocol, which carries it"
	switch code := strings.ToLower(reading.Code(f)); {
	case strings.Contains(code, "missing"), strings.Contains(code, "required"), strings.HasPrefix(code, "no_"):
		return text
	}
	return text + ", or another value of it; else the gateway and the API do not share their tokens (key, store, clock)"
}

// Decisions are the reference platform's reasons for a terminal that a decision ended or forbids, so that nothing
// failed. Other platforms do not use these words.
var Decisions = map[string]string{
	"allocation_released":    "the allocation was released",
	"allocation_not_active":  "the allocation was no longer active",
	"node_fenced":            "the node or its host was fenced",
	"node_revoked":           "the node's identity was revoked",
	"node_retired":           "the node was retired",
	"node_cloned":            "the node was quarantined (two hosts use its identity)",
	"node_identity_replaced": "the node was given a new identity",
	"session_time_limit":     "the session reached the platform's time limit",
	"session_idle_limit":     "the session reached the platform's idle limit",
}

// Decided returns the key of decisions that the platform gave for this walk's session: in its refusal, over the
// stream, or in its row; "" without one.
func Decided(c *hop.Case) string {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if ForeignTerminal(c) != nil {
		return "" // another platform's words mean something else
	}
	words := [...]string{reading.Code(c.Fact(diag.HopTerminalTokenMint, hop.StepMint)), reading.Code(f),
		SessionField(c, "session.close_reason"), "", ""}
	if f != nil && f.WS != nil {
		words[3], words[4] = f.WS.FrameCode, f.WS.CloseReason
	}
	for _, w := range words {
		if w != "" && Decisions[w] != "" {
			return w
		}
	}
	return ""
}

// ByDecision is the finding of a terminal hop that did not pass because of a decision during the walk: no hop is at
// fault, and nothing proves that the terminal works.
func ByDecision(f *diag.Fact, word string) diag.Finding {
	out := reading.Undecided(f, "%s",
		fmt.Sprintf("%s during this walk (the platform says %s), so no terminal is given: read the allocation and "+
			"the node again", Decisions[word], word))
	out.Failure, out.Lack = diag.OK, diag.LackAnswer // the failure is the end of the session, which was intended
	return out
}
