package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// cutPlace is where a terminal's stream was cut.
type cutPlace int

const (
	cutNowhere   cutPlace = iota
	cutFront              // between browser and gateway
	cutByGateway          // the gateway ended it
	cutBack               // between gateway and node
	cutByAgent            // the agent closed it, or exited
	cutSomewhere          // at the gateway, or between browser and gateway
)

// Reasons for the end of a session. Only the reference platform has them.
const (
	browserLeft = "browser_closed"
	nodeLeft    = "node_stream_closed"
	shellExit   = "exit"
	streamLate  = "node_stream_timeout"
)

// agentStopping is the agent's word for a session that it ends because it is stopping.
const agentStopping = "agent_stopping"

// stoppedOpening reports whether an agent that was stopping ended a session: by its own word, or, as older agents do,
// by a failure of the shell whose cause is a cancellation.
func stoppedOpening(w *diag.WSFacts) bool {
	return w.FrameCode == agentStopping || w.CloseReason == agentStopping ||
		(diag.ShellCode(w.FrameCode) && strings.HasSuffix(w.FrameMessage, "context canceled"))
}

// stopText quotes what came of an agent that was stopping.
func stopText(w *diag.WSFacts) string {
	if w.FrameCode == "" {
		return agentStopping + " " + afterMS(w)
	}
	return strings.TrimSpace(w.FrameCode + " " + w.FrameMessage)
}

// fieldClosedBy is the field with the side that ended a session, one of closers.
const fieldClosedBy = "session.closed_by"

var closers = [...]string{"browser", "node", "gateway", "decision"}

// awaitedCloser reports whether p polls a session's row for the side that ended it. For that poll, a row without the
// field is an answer as well.
func awaitedCloser(p *diag.Poll) bool { return p != nil && p.Field == fieldClosedBy }

// endedUnexplained reports whether the far side ended the browser's stream without a frame that gives a reason.
func endedUnexplained(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	return f != nil && f.WS != nil && f.WS.Ended != "" && f.WS.FrameCode == "" && f.WS.ExitCode == nil && !f.Passed()
}

// fellSilent reports whether an accepted session fell silent while the browser's side worked: the gateway then closes
// it as soon as we leave, and reports whether the node answered its ping.
func fellSilent(c *Case) bool {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	return pongCame(f) && !f.WS.PingLost && !f.Passed() && f.WS.Ended == "" && f.WS.FrameCode == ""
}

// gatewayEnds are the reasons of a gateway that ended a session by itself.
var gatewayEnds = map[string]bool{"gateway_shutdown": true, "gateway_restarted": true}

// cutVerdict is where the stream of an accepted session ended or fell silent, by the evidence of both ends.
type cutVerdict struct {
	at     cutPlace
	text   string
	direct bool // the facts of both ends agree on the place
}

// before reports whether the cut is at the gateway or on the browser's side of it; behind, whether it is on the node's
// side.
func (k cutVerdict) before() bool {
	return k.at == cutFront || k.at == cutByGateway || k.at == cutSomewhere
}
func (k cutVerdict) behind() bool { return k.at == cutBack || k.at == cutByAgent }

// finding returns the cut as a hop's finding that f decided.
func (k cutVerdict) finding(c *Case, f *diag.Fact) diag.Finding {
	out := fail(diag.SigStreamCut, f, "%s", k.text)
	out.Direct = k.direct
	switch k.at {
	case cutFront:
		out.Side = diag.SideEdge
		claim(c, &out, claimCutFront)
	case cutByGateway:
		out.Side = diag.SidePlatform
	case cutBack:
		out.Side = diag.SideNodeWay
	case cutByAgent:
		out.Side = diag.SideAgent
	}
	return out
}

// cutBefore reports whether the browser's side of the session was cut.
func cutBefore(c *Case) bool { return streamCut(c).before() }

// streamCut tells a session that was cut from a shell that failed, by the end of the browser's stream and the gateway's
// row about both sides.
func streamCut(c *Case) cutVerdict {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	if !sessionAccepted(c) || f.Passed() || decided(c) != "" {
		return cutVerdict{}
	}
	if f.Failure == diag.Cancelled {
		return cutVerdict{}
	}
	w, reason := f.WS, sessionField(c, "session.close_reason")
	switch {
	case stoppedOpening(w), reason == agentStopping:
		return cutVerdict{at: cutByAgent, direct: true,
			text: "the agent was stopping, and ended the session: " + stopText(w)}
	case browserNeverReachedGateway(c), diag.ShellCode(w.FrameCode), diag.ShellCode(w.CloseReason), w.ExitCode != nil:
		return cutVerdict{}
	case w.FrameCode == nodeLeft, w.CloseReason == nodeLeft, reason == nodeLeft:
		return cutAtNode(c, f)
	case gatewayEnds[w.FrameCode], gatewayEnds[w.CloseReason], gatewayEnds[reason]:
		return cutVerdict{at: cutByGateway, direct: true, text: fmt.Sprintf("the gateway itself ended the session (%s) %s",
			cmp.Or(w.FrameCode, w.CloseReason, reason), afterMS(w))}
	case lostReady(c):
		return cutVerdict{at: cutBack, direct: true,
			text: "the agent reports the terminal open, but its ready frame never reached the " +
				"gateway over the connected stream: data from the node is lost on the path" + nodeSilent(c)}
	case w.PingLost && w.Ended == "":
		return silentFront(c, w)
	case w.FrameCode != "", w.CloseReason == streamLate, reason == shellExit, diag.ShellCode(reason):
		return cutVerdict{} // a side reported why
	case w.Ended != "", w.CloseCode != 0:
		return cutOff(c, f, reason)
	case w.PingMS > 0 && shellReady(c) && sessionField(c, "session.node_answers") == "no":
		return cutVerdict{at: cutBack, direct: true, text: fmt.Sprintf("the terminal fell silent, and only the node does "+
			"not answer: the gateway answers a ping after %d ms, and got no answer to its own from the node", w.PingMS)}
	}
	return cutVerdict{}
}

// cutOff locates the cut of a session that its far side ended without a known reason.
func cutOff(c *Case, f *diag.Fact, reason string) cutVerdict {
	w, row := f.WS, c.Fact(diag.HopTerminalOpenTask, stepSessionRow)
	what := endOf(w)
	switch {
	case status(row) != 200:
		return cutVerdict{at: cutSomewhere, text: what +
			"; the session's row, which has the side that ended it, could not be read"}
	case unasked(row, "session.close_reason"):
		return cutVerdict{at: cutSomewhere, text: what + "; this platform does not report who ends a session"}
	case reason == browserLeft:
		return cutVerdict{at: cutFront, direct: true, text: what + browserAsSeen(c)}
	case reason == "":
		return cutVerdict{at: cutSomewhere, direct: true, text: what + ", and the gateway's row has the session still open"}
	}
	return cutVerdict{at: cutSomewhere, text: fmt.Sprintf("%s; the gateway's row says %s", what, reason)}
}

// silentFront locates the cut of a session in which not even a ping is answered.
func silentFront(c *Case, w *diag.WSFacts) cutVerdict {
	k := cutVerdict{at: cutSomewhere, text: fmt.Sprintf(
		"the accepted session has been silent for %d ms, and no ping over it is answered", w.QuietMS)}
	row, after := c.Fact(diag.HopTerminalOpenTask, stepSessionRow), c.Fact(diag.HopGatewayNodeStream, stepGateway)
	switch reason := sessionField(c, "session.close_reason"); {
	case status(row) != 200:
		k.text += "; the session's row could not be read"
	case unasked(row, "session.close_reason"):
	case reason == browserLeft: // the gateway works, and did not end the session
		k.at, k.direct = cutFront, true
	case reason == "" && after != nil && (sessionNotFound(after) || platformCode(after)): // not an edge's answer
		k.at, k.direct = cutFront, true
		k.text += "; the gateway answers another request of the node meanwhile"
	case reason == "" && !slices.Contains(c.planned(diag.HopGatewayNodeStream).Steps, stepGateway): // an older report
		k.at, k.direct = cutFront, true
	case reason == "":
		k.text += "; the gateway's row has the session still open"
		if after != nil && gotNoAnswer(after) {
			k.text += fmt.Sprintf(", and %s does not answer the node either: %s", where(after), saw(after))
		}
	default:
		k.at, k.direct = cutFront, true
		k.text += fmt.Sprintf("; the gateway's row ended it by %s, which did not come through", reason)
	}
	return k
}

// cutAtNode locates the cut of a session that ended on the node's side: at the agent if it reports so or exited, else
// on the path to it.
func cutAtNode(c *Case, f *diag.Fact) cutVerdict {
	code, detail := sessionField(c, "session.close_code"), oneLine(sessionField(c, "session.close_detail"))
	text := "the node's stream arrived, but ended during the session"
	if ms := streamLasted(c); ms > 0 {
		text += fmt.Sprintf(" after %d ms", ms)
	}
	switch how := byCode(code, detail); {
	case code == "1001":
		return cutVerdict{at: cutByAgent, text: text + ": the agent closed it with " + how}
	case agentGone(c) != "":
		return cutVerdict{at: cutByAgent, text: text + ": " + agentGone(c)}
	case code == "1006":
		text += ": " + orUnknown(detail) + ", as the gateway saw it"
	case code != "":
		text += ": it was closed with " + how
	}
	if a := c.Fact(diag.HopGatewayNodeStream, stepAgent); a.Passed() && a.Unit != nil {
		text += fmt.Sprintf("; the agent's process %d kept running", a.Unit.PID)
	}
	return cutVerdict{at: cutBack, direct: f.WS.FrameCode == nodeLeft || f.WS.CloseReason == nodeLeft || code != "",
		text: text}
}

// lostReady reports whether the agent reported the terminal open more than a second before the gateway gave up waiting
// for its ready frame. A later report means a slow shell.
func lostReady(c *Case) bool {
	row := c.Fact(diag.HopTerminalOpenTask, stepSessionRow)
	if fieldOf(row, "session.task_status") != "completed" || unasked(row, "session.pty_ready_at") ||
		!streamCame(c) || shellReady(c) {
		return false
	}
	done, closed := timeOf(row, "session.task_completed_at"), timeOf(row, "session.closed_at")
	return !done.IsZero() && !closed.IsZero() && closed.Sub(done) > time.Second
}
