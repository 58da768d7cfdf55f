package preflight

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// sessionAccepted reports whether the gateway accepted the browser's WebSocket, and the browser the gateway's answer: a
// browser leaves if the answer lacks the subprotocol.
func sessionAccepted(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	return upgraded(f) && f.Failure != diag.WSSubprotocol
}

// shellComputed reports whether a shell computed the walk's nonce through the session that this walk opened.
func shellComputed(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	return f.Passed() && f.PTY != nil && f.PTY.NonceOK
}

// terminalReady reports whether the browser got the ready message, which the agent sends when the shell runs.
func terminalReady(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	return upgraded(f) && f.WS.FirstFrame == "ready"
}

// whenAccepted is the condition that the gateway accepted the browser's session.
func whenAccepted(c *Case) string {
	if sessionAccepted(c) {
		return ""
	}
	return "needs an accepted browser session"
}

// culpritEdgeTook is the culprit if an upgrade was answered and never reached the gateway.
const culpritEdgeTook = "edge took the upgrade"

// sessionField returns a field of the gateway's row of this walk's session.
func sessionField(c *Case, name string) string {
	return c.Field(diag.HopTerminalOpenTask, stepSessionRow, name)
}

// streamCame and shellReady report whether the gateway's row of the session has the node's stream, and its ready shell.
func streamCame(c *Case) bool {
	return !c.Time(diag.HopTerminalOpenTask, stepSessionRow, "session.node_stream_connected_at").IsZero()
}

func shellReady(c *Case) bool {
	return !c.Time(diag.HopTerminalOpenTask, stepSessionRow, "session.pty_ready_at").IsZero()
}

// browserNeverReachedGateway reports whether the gateway's own row of the session shows no browser, although the
// browser was accepted.
func browserNeverReachedGateway(c *Case) bool {
	row := diag.HopTerminalOpenTask
	f := c.Fact(row, stepSessionRow)
	return sessionAccepted(c) && status(f) == 200 &&
		!unasked(f, "session.task_status") && !unasked(f, "session.browser_connected_at") &&
		c.Field(row, stepSessionRow, "session.task_status") == "" &&
		c.Time(row, stepSessionRow, "session.browser_connected_at").IsZero()
}

// askUnknownSession asks the terminal listener of the running agent for a session that no gateway has.
func askUnknownSession(e *Env, _ *Case) diag.Request {
	return e.asAgent(diag.OpWS, "GPUAAS_TERMINAL_API_URL", profile.PathNodeTerminal,
		map[string]string{"session_id": unknownSessionID})
}

// gatewayAccepts reports whether the terminal gateway accepted this node's certificate.
func gatewayAccepts(c *Case) bool {
	return sessionNotFound(c.Fact(diag.HopNodeTerminalReachability, stepStream))
}

// byProvider returns what a missing stream means for a node of this provider: a Proxmox worker is on the platform's
// side, so a route that works in one direction only cannot explain it. For other providers it returns "".
func byProvider(c *Case) string {
	class := readModel(c, "node.provider_class")
	if !strings.Contains(strings.ToLower(class), "proxmox") {
		return ""
	}
	return "; a " + class +
		" node is on the platform's side: check for drift of the endpoint, the profile or the listener's policy; a one-way " +
		"network cannot be the cause"
}

// ofGateway reports whether an answer in place of an upgrade is known to be the terminal gateway's, which sends neither
// redirects nor pages.
func ofGateway(f *diag.Fact) bool {
	if s := status(f); s/100 == 3 || foreignPage(f) {
		return false
	}
	return platformCode(f) || namesObject(f) || tokenRead(f) || code(f) == "upgrade_required" ||
		(platformSpeaks(f) && unasked(f, fieldErrorCode))
}
