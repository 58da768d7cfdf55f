package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// sessionMargin is how much longer than the gateway's own time-out its answer may take.
	sessionMargin = 3 * time.Second
)

// browserTerminalWS: is the browser let in, and does it get a message? It opens one real session and closes it again.
func browserTerminalWS() Hop {
	id := diag.HopBrowserTerminalWS
	return Hop{
		ID: id, Behind: platformReads(), Budget: sessionMargin + 2*time.Second,
		Recorded: errorsOfStream(diag.SigNodeStreamTimeout, diag.SigConnectingStuck),
		ExplainedBy: append(hopsThrough(diag.HopNodeReadiness, diag.HopNodeTaskRoundtrip),
			diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream,
			// A shell that starts too late looks like a stream that never came.
			diag.HopTerminalStartup),
		Patience: policyNodeStream, // the gateway's own time-out; Budget is the time to receive its answer
		NotGiven: noTerminalBase,
		Silence:  &Silence{diag.SigUpgradeFailed, "", "the browser's WebSocket upgrade"},
		Steps: []Step{{
			Name: stepSession, From: Operator, Session: true,
			Needs:     []diag.HopID{diag.HopTerminalTokenMint, diag.HopTerminalPublicRoute},
			Overrules: &Overrule{Page: factID(diag.HopTerminalPublicRoute, stepHealthz), Works: upgraded},
			After:     []string{factID(diag.HopTerminalTokenMint, stepMint)}, Paths: []string{profile.PathTerminalWS},
			Fields: []string{"token.token", "token.session_id|token.url"}, Ask: askSession,
			Excused: func(c *Case, f *diag.Fact) bool { return gotShellState(f) && !cutBefore(c) },
		}},
		Judge: judgeSession,
		Pass: func(c *Case) string {
			f := c.Fact(id, stepSession)
			if f == nil || f.WS == nil {
				return "accepted"
			}
			if f.WS.FirstFrame == "error" {
				return fmt.Sprintf("accepted, and the browser got %s after %d ms", f.WS.FrameCode, f.WS.FirstFrameMS)
			}
			return fmt.Sprintf("accepted, %s after %d ms", f.WS.FirstFrame, f.WS.FirstFrameMS)
		},
	}
}

func judgeSession(c *Case) []diag.Finding {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	if f == nil || f.Passed() {
		return nil
	}
	if w := decided(c); w != "" {
		return byDecision(f, w)
	}
	if c.Fact(diag.HopTerminalTokenMint, stepMint) == nil {
		return []diag.Finding{undecided(f, "no session was minted in this walk, so a refusal proves nothing: %s", saw(f))}
	}
	if f.Failure == diag.HTTPEdgeAuth {
		return []diag.Finding{undecided(f, "the edge asks for a login, and %s, so nothing behind the login was tested",
			cookieOf(f))}
	}
	if denial, ok := strings.CutPrefix(code(f), "node_"); ok && platformCode(f) && !upgraded(f) {
		return []diag.Finding{deniedTerminal(c, f, denial)}
	}
	if !upgraded(f) {
		return []diag.Finding{upgradeRefused(c, f)}
	}
	if cut := streamCut(c); cut.before() || (cut.at != cutNowhere && !gotShellState(f)) {
		out := cut.finding(c, f)
		out.Direct = cut.direct && cut.before()
		return []diag.Finding{out}
	}
	if gotShellState(f) {
		return nil
	}
	return []diag.Finding{noShellState(c, f)}
}

// deniedTerminal is the finding of a terminal that the gateway refuses because of the node's identity.
func deniedTerminal(c *Case, f *diag.Fact, denial string) diag.Finding {
	if why := letIn(c, f); why != "" {
		out := fail(diag.SigUpgradeFailed, f, "the gateway refuses a terminal: %s; %s, so whether the platform denies this "+
			"node is not known", saw(f), why)
		out.Direct = true
		return out
	}
	out := fail(diag.SigAuthFailed, f, "the gateway refuses a terminal because the platform denies this "+
		"node's identity: %s", saw(f))
	out.Reason, _ = diag.DenialReason(denial)
	out.Culprit = "identity of " + c.Subject.NodeID + " " + denial
	return out
}

// upgradeRefused is the finding of a WebSocket upgrade that failed; no node is involved yet.
func upgradeRefused(c *Case, f *diag.Fact) diag.Finding {
	out := fail(diag.SigUpgradeFailed, f, "the WebSocket upgrade is refused: %s", saw(f))
	switch {
	case code(f) == "session_attached": // by this walk, which minted the session
		out = cutVerdict{at: cutFront,
			text: "the gateway already has a browser in this session: this walk's upgrade reached it, but the " +
				"answer was lost on the way back: " + saw(f)}.finding(c, f)
	case f.WS != nil && f.WS.Status == 101:
		out.Text = fmt.Sprintf("the answer to the WebSocket upgrade is invalid for a browser (%s): %s", f.Detail,
			saw(f))
	case status(f) == 0:
		out.Text = fmt.Sprintf("the browser's WebSocket upgrade gets %s: %s", gets(f), saw(f))
	case status(f) < 500 && !ofGateway(f):
		out.Text = fmt.Sprintf("the WebSocket upgrade at %s is refused: %s; the answer has %s, so whether the terminal "+
			"gateway or what is in front of it refuses is not known", where(f), saw(f), ofNoPlatform(f))
		out.Side = diag.SidePlatform
	}
	out.Direct = true
	return out
}

// noShellState is the finding of a session that was opened, and in which the browser received no state of a shell.
func noShellState(c *Case, f *diag.Fact) diag.Finding {
	switch {
	case f.WS.FrameCode == streamLate, strings.Contains(f.WS.CloseReason, streamLate):
		if streamCame(c) {
			return fail(diag.SigNodeStreamTimeout, f,
				"the gateway gave up after %d ms: the node's stream came, and no ready shell in time", f.WS.FirstFrameMS)
		}
		return fail(diag.SigNodeStreamTimeout, f,
			"the gateway waited for the node's stream and gave up after %d ms%s", f.WS.FirstFrameMS, byProvider(c))
	case f.WS.FirstFrame == "error":
		out := fail(diag.SigUpgradeFailed, f, "the gateway answers %s: %s", f.WS.FrameCode, f.WS.FrameMessage)
		out.Direct = slices.Contains([]string{"session_store_unavailable", "session_not_found"}, f.WS.FrameCode)
		return out
	case f.Failure == diag.WSSubprotocol:
		out := fail(diag.SigUpgradeFailed, f, "the answer to the upgrade accepts none of the offered "+
			"subprotocols, so a browser closes the connection; either an edge strips Sec-WebSocket-Protocol, or the "+
			"gateway has another version: %s",
			saw(f))
		out.Direct = true
		return out
	case f.Failure == diag.WSClosed && browserNeverReachedGateway(c):
		out := fail(diag.SigUpgradeFailed, f, "the upgrade was answered, and the session was closed without a message: "+
			"close code %d %s", f.WS.CloseCode, f.WS.CloseReason)
		claim(c, &out, claimTookUpgrade)
		out.Direct, out.Culprit, out.Side = true, culpritEdgeTook, diag.SideEdge
		return out
	case f.Failure == diag.WSClosed:
		return fail(diag.SigUpgradeFailed, f, "the gateway closed the session without a message: "+
			"close code %d %s", f.WS.CloseCode, f.WS.CloseReason)
	}
	out := fail(diag.SigConnectingStuck, f, "accepted, then silence for %d ms: the user keeps seeing \"Connecting...\"",
		f.DurationMS)
	switch {
	case browserNeverReachedGateway(c):
		claim(c, &out, claimTookUpgrade)
		out.Direct, out.Culprit, out.Side = true, culpritEdgeTook, diag.SideEdge
	case streamCame(c) && (shellReady(c) || sessionField(c, "session.task_error_code") != "") && pongCame(f):
		claim(c, &out, claimKeptSilent)
		out.Direct = true
	}
	return out
}
