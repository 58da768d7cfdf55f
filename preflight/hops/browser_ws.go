package hops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// sessionMargin is how much longer than the gateway's own time-out its answer may take.
	sessionMargin = 3 * time.Second
)

// browserTerminalWS: is the browser let in, and does it get a message? It opens one real session and closes it again.
func browserTerminalWS() hop.Hop {
	id := diag.HopBrowserTerminalWS
	return hop.Hop{
		ID: id, Absent: hop.NoTerminal, FreeOf: (*profile.Profile).AllocationFree, Profile: hop.SkipIf(hop.NoTerminalBase),
		// Patience is the gateway's own time-out, Budget the time to receive its answer.
		Patience: hop.PolicyNodeStream, Budget: sessionMargin + 2*time.Second,
		Causes: hop.Causes{
			Behind: hop.PlatformReads(),
			ExplainedBy: append(hop.HopsThrough(diag.HopNodeReadiness, diag.HopNodeTaskRoundtrip),
				diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream,
				// A shell that starts too late looks like a stream that never came.
				diag.HopTerminalStartup),
		},
		Recorded: world.ErrorsOfStream(diag.SigNodeStreamTimeout, diag.SigConnectingStuck),
		Silence:  &hop.Silence{Signal: diag.SigUpgradeFailed, Side: "", Request: "the browser's WebSocket upgrade"},
		Steps: []hop.Step{{
			Name: hop.StepSession, From: hop.Operator,
			Needs: hop.Needs{Hops: []diag.HopID{diag.HopTerminalTokenMint, diag.HopTerminalPublicRoute},
				Facts:     []string{hop.FactID(diag.HopTerminalTokenMint, hop.StepMint)},
				Overrules: &hop.Overrule{Page: hop.FactID(diag.HopTerminalPublicRoute, hop.StepHealthz), Works: reading.Upgraded},
				Session:   true, Instead: sessionNeeds, Paths: []string{profile.PathTerminalWS},
				Fields: []string{"token.token", "token.session_id|token.url"}},
			Excused: func(c *hop.Case, f *diag.Fact) bool { return spoke(f) && !world.CutBefore(c) },
			Ask:     askSession,
		}},
		Judge: judgeSession,
		Pass: func(c *hop.Case) string {
			f := c.Fact(id, hop.StepSession)
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

func judgeSession(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	switch {
	case f == nil:
		return list(foreignURL.judge(judged{c: c, f: c.Fact(diag.HopTerminalTokenMint, hop.StepMint)}))
	case world.ForeignTerminal(c) != nil:
		return list(openedRows.judge(judged{c: c, f: f}))
	case f.Passed():
		return nil
	}
	if w := world.Decided(c); w != "" {
		return []diag.Finding{world.ByDecision(f, w)}
	}
	if c.Fact(diag.HopTerminalTokenMint, hop.StepMint) == nil {
		return []diag.Finding{reading.Undecided(f, "no session was minted in this walk, so a refusal proves nothing: %s",
			reading.Saw(f))}
	}
	if f.Failure == diag.HTTPEdgeAuth {
		return []diag.Finding{reading.Undecided(f,
			"the edge asks for a login, and %s, so nothing behind the login was tested", reading.CookieOf(f))}
	}
	if denial, ok := strings.CutPrefix(reading.Code(f), "node_"); ok && reading.PlatformCode(f) && !reading.Upgraded(f) {
		return []diag.Finding{deniedTerminal(c, f, denial)}
	}
	if !reading.Upgraded(f) {
		return []diag.Finding{upgradeRefused(c, f)}
	}
	if cut := world.StreamCut(c); cut.Before() || (cut.At != world.CutNowhere && !reading.GotShellState(f)) {
		out := cut.Finding(c, f)
		out.Direct = cut.Direct && cut.Before()
		return []diag.Finding{out}
	}
	if reading.GotShellState(f) {
		return nil
	}
	return []diag.Finding{noShellState(c, f)}
}

// deniedTerminal is the finding of a terminal that the gateway refuses because of the node's identity.
func deniedTerminal(c *hop.Case, f *diag.Fact, denial string) diag.Finding {
	if why := world.LetIn(c, f); why != "" {
		out := reading.Fail(diag.SigUpgradeFailed, f,
			"the gateway refuses a terminal: %s; %s, so whether the platform denies this "+
				"node is not known", reading.Saw(f), why)
		out.Direct = true
		return out
	}
	out := reading.Fail(diag.SigAuthFailed, f, "the gateway refuses a terminal because the platform denies this "+
		"node's identity: %s", reading.Saw(f))
	out.Reason, _ = diag.DenialReason(denial)
	out.Culprit = "identity of " + c.Subject.NodeID + " " + denial
	return out
}

// upgradeRefused is the finding of a WebSocket upgrade that failed; no node is involved yet.
func upgradeRefused(c *hop.Case, f *diag.Fact) diag.Finding {
	out := reading.Fail(diag.SigUpgradeFailed, f, "the WebSocket upgrade is refused: %s", reading.Saw(f))
	switch {
	case reading.Code(f) == "session_attached": // by this walk, which minted the session
		out = world.CutVerdict{At: world.CutFront,
			Text: "the gateway already has a browser in this session: this walk's upgrade reached it, but the " +
				"answer was lost on the way back: " + reading.Saw(f)}.Finding(c, f)
	case f.WS != nil && f.WS.Status == 101:
		out.Text = fmt.Sprintf("the answer to the WebSocket upgrade is invalid for a browser (%s): %s", f.Detail,
			reading.Saw(f))
	case reading.Status(f) == 0:
		out.Text = fmt.Sprintf("the browser's WebSocket upgrade gets %s: %s", world.Gets(f), reading.Saw(f))
	case reading.Status(f) < 500 && !world.OfGateway(f):
		out.Text = fmt.Sprintf("the WebSocket upgrade at %s is refused: %s; the answer has %s, so whether the terminal "+
			"gateway or what is in front of it refuses is not known", reading.Where(f), reading.Saw(f), world.OfNoPlatform(f))
		out.Side = diag.SidePlatform
	}
	if lost := world.TokenLost(c, f); lost != "" {
		out.Text = lost + "; " + out.Text
	}
	out.Direct = true
	return out
}

// noShellState is the finding of a session that was opened, and in which the browser received no state of a shell.
func noShellState(c *hop.Case, f *diag.Fact) diag.Finding {
	switch {
	case f.WS.FrameCode == world.StreamLate, strings.Contains(f.WS.CloseReason, world.StreamLate):
		if world.StreamCame(c) {
			return reading.Fail(diag.SigNodeStreamTimeout, f,
				"the gateway gave up after %d ms: the node's stream came, and no ready shell in time", f.WS.FirstFrameMS)
		}
		return reading.Fail(diag.SigNodeStreamTimeout, f,
			"the gateway waited for the node's stream and gave up after %d ms%s", f.WS.FirstFrameMS, world.ByProvider(c))
	case f.WS.FirstFrame == "error":
		out := reading.Fail(diag.SigUpgradeFailed, f, "the gateway answers %s: %s", f.WS.FrameCode, f.WS.FrameMessage)
		out.Direct = slices.Contains([]string{"session_store_unavailable", "session_not_found"}, f.WS.FrameCode)
		return out
	case f.Failure == diag.WSSubprotocol:
		out := reading.Fail(diag.SigUpgradeFailed, f, "the answer to the upgrade accepts none of the offered "+
			"subprotocols, so a browser closes the connection; either an edge strips Sec-WebSocket-Protocol, or the "+
			"gateway has another version: %s",
			reading.Saw(f))
		out.Direct = true
		return out
	case f.Failure == diag.WSClosed && world.BrowserNeverReachedGateway(c):
		out := reading.Fail(diag.SigUpgradeFailed, f,
			"the upgrade was answered, and the session was closed without a message: "+
				"close code %d %s", f.WS.CloseCode, f.WS.CloseReason)
		world.Claim(c, &out, world.ClaimTookUpgrade)
		out.Direct, out.Culprit, out.Side = true, world.CulpritEdgeTook, diag.SideEdge
		return out
	case f.Failure == diag.WSClosed:
		return reading.Fail(diag.SigUpgradeFailed, f, "the gateway closed the session without a message: "+
			"close code %d %s", f.WS.CloseCode, f.WS.CloseReason)
	}
	out := reading.Fail(diag.SigConnectingStuck, f,
		"accepted, then silence for %d ms: the user keeps seeing \"Connecting...\"", f.DurationMS)
	switch {
	case world.BrowserNeverReachedGateway(c):
		world.Claim(c, &out, world.ClaimTookUpgrade)
		out.Direct, out.Culprit, out.Side = true, world.CulpritEdgeTook, diag.SideEdge
	case world.StreamCame(c) && (world.ShellReady(c) || world.SessionField(c, "session.task_error_code") != "") &&
		reading.PongCame(f):
		world.Claim(c, &out, world.ClaimKeptSilent)
		out.Direct = true
	}
	return out
}
