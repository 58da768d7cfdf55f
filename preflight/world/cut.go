package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// cutPlace is where a terminal's stream was cut.
type cutPlace int

const (
	CutNowhere   cutPlace = iota
	CutFront              // between browser and gateway
	cutByGateway          // the gateway ended it
	cutBack               // between gateway and node
	cutByAgent            // the agent closed it, or exited
	cutSomewhere          // at the gateway, or between browser and gateway
)

// stopText quotes what came of an agent that was stopping.
func stopText(w *diag.WSFacts) string {
	if w.FrameCode == "" {
		return agentStopping + " " + afterMS(w)
	}
	return strings.TrimSpace(w.FrameCode + " " + w.FrameMessage)
}

// CutVerdict is where the stream of an accepted session ended or fell silent, by the evidence of both ends.
type CutVerdict struct {
	At     cutPlace
	Text   string
	Direct bool // the facts of both ends agree on the place
}

// Before reports whether the cut is at the gateway or on the browser's side of it.
func (k CutVerdict) Before() bool {
	return k.At == CutFront || k.At == cutByGateway || k.At == cutSomewhere
}

// Behind reports whether the session was cut between gateway and node, or by the agent.
func (k CutVerdict) Behind() bool { return k.At == cutBack || k.At == cutByAgent }

// Finding returns the cut as a hop's finding that f decided.
func (k CutVerdict) Finding(c *hop.Case, f *diag.Fact) diag.Finding {
	out := reading.Fail(diag.SigStreamCut, f, "%s", k.Text)
	out.Direct = k.Direct
	switch k.At {
	case CutFront:
		out.Side = diag.SideEdge
		Claim(c, &out, claimCutFront)
	case cutByGateway:
		out.Side = diag.SidePlatform
	case cutBack:
		out.Side = diag.SideNodeWay
	case cutByAgent:
		out.Side = diag.SideAgent
	}
	return out
}

// CutBefore reports whether the browser's side of the session was cut.
func CutBefore(c *hop.Case) bool { return StreamCut(c).Before() }

// StreamCut tells a session that was cut from a shell that failed, by the end of the browser's stream and the gateway's
// row about both sides.
func StreamCut(c *hop.Case) CutVerdict {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	if !SessionAccepted(c) || ForeignTerminal(c) != nil || f.Passed() || Decided(c) != "" || f.Failure == diag.Cancelled {
		return CutVerdict{}
	}
	e := ending{c: c, f: f, ws: f.WS, reason: SessionField(c, "session.close_reason")}
	for _, row := range cuts {
		if row.of(e) {
			return row.cut(e)
		}
	}
	return CutVerdict{}
}

// ending is how an accepted session ended: as the browser saw it, and by the gateway's reason.
type ending struct {
	c      *hop.Case
	f      *diag.Fact
	ws     *diag.WSFacts
	reason string
}

// hasWord reports whether the end of the browser's stream or the gateway's row has a word.
func (e ending) hasWord(is func(word string) bool) bool {
	return is(e.ws.FrameCode) || is(e.ws.CloseReason) || is(e.reason)
}

// cuts are the ends of a session and where each was cut, the surest first.
var cuts = [...]struct {
	of  func(e ending) bool
	cut func(e ending) CutVerdict
}{
	{func(e ending) bool { return StoppedOpening(e.ws) || e.reason == agentStopping }, func(e ending) CutVerdict {
		return CutVerdict{At: cutByAgent, Direct: true,
			Text: "the agent was stopping, and ended the session: " + stopText(e.ws)}
	}},
	{shellSpoke, uncut},
	{func(e ending) bool { return e.hasWord(func(word string) bool { return word == nodeLeft }) }, cutAtNode},
	{func(e ending) bool { return e.hasWord(gatewayEnds) }, func(e ending) CutVerdict {
		return CutVerdict{At: cutByGateway, Direct: true, Text: fmt.Sprintf("the gateway itself ended the session (%s) %s",
			cmp.Or(e.ws.FrameCode, e.ws.CloseReason, e.reason), afterMS(e.ws))}
	}},
	{func(e ending) bool { return lostReady(e.c) }, func(e ending) CutVerdict {
		return CutVerdict{At: cutBack, Direct: true,
			Text: "the agent reports the terminal open, but its ready frame never reached the " +
				"gateway over the connected stream: data from the node is lost on the path" + nodeSilent(e.c)}
	}},
	{func(e ending) bool { return e.ws.PingLost && e.ws.Ended == "" }, silentFront},
	{sideSpoke, uncut},
	{func(e ending) bool { return e.ws.Ended != "" || e.ws.CloseCode != 0 }, cutOff},
	{onlyNodeSilent, func(e ending) CutVerdict {
		return CutVerdict{At: cutBack, Direct: true, Text: fmt.Sprintf("the terminal fell silent, and only the node does "+
			"not answer: the gateway answers a ping after %d ms, and got no answer to its own from the node", e.ws.PingMS)}
	}},
}

func uncut(ending) CutVerdict { return CutVerdict{} }

// shellSpoke reports whether the session has an end of its own, or never began at the gateway.
func shellSpoke(e ending) bool {
	return BrowserNeverReachedGateway(e.c) || diag.ShellCode(e.ws.FrameCode) || diag.ShellCode(e.ws.CloseReason) ||
		e.ws.ExitCode != nil
}

// sideSpoke reports whether a side of the session gave another reason for its end.
func sideSpoke(e ending) bool {
	return e.ws.FrameCode != "" || e.ws.CloseReason == StreamLate || e.reason == ShellExit || diag.ShellCode(e.reason)
}

// onlyNodeSilent reports whether the gateway answers a ping over the session, and the node does not answer the
// gateway's.
func onlyNodeSilent(e ending) bool {
	return e.ws.PingMS > 0 && ShellReady(e.c) && SessionField(e.c, "session.node_answers") == "no"
}

// cutOff locates the cut of a session that its far side ended without a known reason.
func cutOff(e ending) CutVerdict {
	row, what := e.c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow), endOf(e.ws)
	switch {
	case reading.Status(row) != 200:
		return CutVerdict{At: cutSomewhere, Text: what +
			"; the session's row, which has the side that ended it, could not be read"}
	case reading.Unasked(row, "session.close_reason"):
		return CutVerdict{At: cutSomewhere, Text: what + "; this platform does not report who ends a session"}
	case e.reason == BrowserLeft:
		return CutVerdict{At: CutFront, Direct: true, Text: what + browserAsSeen(e.c)}
	case e.reason == "":
		return CutVerdict{At: cutSomewhere, Direct: true, Text: what + ", and the gateway's row has the session still open"}
	}
	return CutVerdict{At: cutSomewhere, Text: fmt.Sprintf("%s; the gateway's row says %s", what, e.reason)}
}

// silentFront locates the cut of a session in which not even a ping is answered.
func silentFront(e ending) CutVerdict {
	c, reason := e.c, e.reason
	k := CutVerdict{At: cutSomewhere, Text: fmt.Sprintf(
		"the accepted session has been silent for %d ms, and no ping over it is answered", e.ws.QuietMS)}
	row, after := c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow), c.Fact(diag.HopGatewayNodeStream, stepGateway)
	switch {
	case reading.Status(row) != 200:
		k.Text += "; the session's row could not be read"
	case reading.Unasked(row, "session.close_reason"):
	case reason == BrowserLeft: // the gateway works, and did not end the session
		k.At, k.Direct = CutFront, true
	case reason == "" && after != nil && (reading.SessionNotFound(after) ||
		reading.PlatformCode(after)): // not an edge's answer
		k.At, k.Direct = CutFront, true
		k.Text += "; the gateway answers another request of the node meanwhile"
	case reason == "" && !slices.Contains(c.Planned(diag.HopGatewayNodeStream).Steps, stepGateway): // an older report
		k.At, k.Direct = CutFront, true
	case reason == "":
		k.Text += "; the gateway's row has the session still open"
		if after != nil && reading.GotNoAnswer(after) {
			k.Text += fmt.Sprintf(", and %s does not answer the node either: %s", reading.Where(after), reading.Saw(after))
		}
	default:
		k.At, k.Direct = CutFront, true
		k.Text += fmt.Sprintf("; the gateway's row ended it by %s, which did not come through", reason)
	}
	return k
}

// cutAtNode locates the cut of a session that ended on the node's side: at the agent if it reports so or exited, else
// on the path to it.
func cutAtNode(e ending) CutVerdict {
	c := e.c
	code, detail := SessionField(c, "session.close_code"), reading.OneLine(SessionField(c, "session.close_detail"))
	text := "the node's stream arrived, but ended during the session"
	if ms := streamLasted(c); ms > 0 {
		text += fmt.Sprintf(" after %d ms", ms)
	}
	switch how := byCode(code, detail); {
	case code == "1001":
		return CutVerdict{At: cutByAgent, Text: text + ": the agent closed it with " + how}
	case AgentGone(c) != "":
		return CutVerdict{At: cutByAgent, Text: text + ": " + AgentGone(c)}
	case code == "1006":
		text += ": " + reading.OrUnknown(detail) + ", as the gateway saw it"
	case code != "":
		text += ": it was closed with " + how
	}
	if a := c.Fact(diag.HopGatewayNodeStream, stepAgent); a.Passed() && a.Unit != nil {
		text += fmt.Sprintf("; the agent's process %d kept running", a.Unit.PID)
	}
	return CutVerdict{At: cutBack, Direct: e.ws.FrameCode == nodeLeft || e.ws.CloseReason == nodeLeft || code != "",
		Text: text}
}

// lostReady reports whether the agent reported the terminal open more than a second before the gateway gave up waiting
// for its ready frame. A later report means a slow shell.
func lostReady(c *hop.Case) bool {
	row := c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	if hop.FieldOf(row, "session.task_status") != "completed" || reading.Unasked(row, "session.pty_ready_at") ||
		!StreamCame(c) || ShellReady(c) {
		return false
	}
	done, closed := hop.TimeOf(row, "session.task_completed_at"), hop.TimeOf(row, "session.closed_at")
	return !done.IsZero() && !closed.IsZero() && closed.Sub(done) > time.Second
}
