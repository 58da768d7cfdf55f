package hops

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// foreignURL is about the answer of a mint, where no session could be opened by it.
var foreignURL = rows{
	{when: func(j judged) bool {
		at := j.c.Expected("terminal_base")
		return j.minted() != "" && at != "" && !hop.SameEndpoint(j.minted(), at)
	}, then: undecided("the token's answer names a terminal at %s, and the profile's terminals are at %s: nothing was "+
		"sent there, and no token", func(j judged) string { return hop.EndpointOf(j.minted()) },
		func(j judged) string { return j.c.Expected("terminal_base") })},
}

func (j judged) minted() string {
	if j.f == nil || j.f.HTTP == nil {
		return ""
	}
	return j.f.HTTP.Fields["token.url"]
}

// spoke reports whether a terminal gave its user anything: what it is worth is judged at the shell's hop.
func spoke(f *diag.Fact) bool {
	if f == nil || f.Request.Terminal == nil || f.Request.Terminal.Reference {
		return reading.GotShellState(f)
	}
	return reading.Upgraded(f) && f.WS.FirstFrame != "" && f.WS.FirstFrame != "error"
}

// openedRows are about a terminal of another platform: was it opened, and did it say anything?
var openedRows = rows{
	{when: func(j judged) bool { return j.f.Passed() }},
	{when: func(j judged) bool { return j.f.Failure == diag.HTTPEdgeAuth },
		then: undecided("the edge at %s asks for a login, and %s, so nothing behind the login was tested", where, cookie)},
	{when: func(j judged) bool { return reading.InPhase(j.f, "target") },
		then: undecided("no terminal was opened: %s", theDetail)},
	{when: func(j judged) bool { return spoke(j.f) }},
	{when: func(j judged) bool { return j.notUpgraded() && j.status() == 0 },
		then: fails(diag.SigTerminalServer, "%s at %s gives %s: %s", server, where, gets, saw)},
	{when: func(j judged) bool { return j.notUpgraded() && j.status()/100 == 3 }, side: diag.SideEdge, direct: true,
		then: fails(diag.SigTerminalServer, "%s answers in place of a terminal: %s", where, saw)},
	{when: func(j judged) bool { return j.of(diag.TerminalExec) && j.onlySPDY() }, direct: true,
		then: undecided("%s answers that it speaks SPDY here, and no WebSocket (v5.channel.k8s.io or v4.channel.k8s.io), "+
			"which is all that this tool speaks: %s", server, answer)},
	{when: func(j judged) bool { return j.refused() && j.f.Request.Terminal.Own },
		then: undecided("%s at %s does not let this operator's token open a terminal: %s", server, where, answer),
		lack: diag.LackRights},
	{when: func(j judged) bool { return j.notUpgraded() && j.of(diag.TerminalExec) && j.status()/100 == 4 },
		then: fails(diag.SigTerminalServer, "%s opens no shell in the pod: %s", server, answer), side: diag.SideWorkload,
		direct: true},
	{when: func(j judged) bool { return j.refused() }, direct: true,
		then: fails(diag.SigTerminalServer, "%s at %s refuses the terminal: %s", server, where, answer)},
	{when: func(j judged) bool { return j.f.Failure == diag.WSSubprotocol }, direct: true,
		then: fails(diag.SigTerminalServer, "%s accepts none of the offered subprotocols (%s), so a client closes the "+
			"connection; either an edge strips Sec-WebSocket-Protocol, or the server speaks another one (terminal.subprotocols)",
			server, offered)},
	{when: func(j judged) bool { return j.notUpgraded() }, direct: true,
		then: fails(diag.SigTerminalServer, "%s at %s does not upgrade to a WebSocket: %s", server, where, answer)},

	// It was opened, and ended or stayed silent before it showed anything.
	{when: func(j judged) bool { return j.hasCode("Forbidden") },
		then: undecided("%s does not let this operator open a shell in the pod: %s %s", server, frameCode, frameMessage),
		lack: diag.LackRights},
	{when: func(j judged) bool { return j.f.WS.FirstFrame == "error" && j.of(diag.TerminalExec) }, side: diag.SideWorkload,
		direct: true, then: fails(diag.SigTerminalServer, "%s opens no shell in the pod: %s %s", server, frameCode,
			frameMessage)},
	{when: func(j judged) bool { return j.f.WS.FirstFrame == "error" }, direct: true,
		then: fails(diag.SigTerminalServer, "%s answers with an error: %s %s", server, frameCode, frameMessage)},
	{when: func(j judged) bool { return j.closedWith("token_refused", "not_allowed") && j.f.Request.Terminal.Own },
		then: undecided("%s does not let this operator's token open a terminal: %s", server, closed), lack: diag.LackRights},
	{when: func(j judged) bool { return j.closedWith("node_unreachable") }, side: diag.SideNodeWay, direct: true,
		then: fails(diag.SigTerminalServer, "%s does not reach the node: %s", server, closed)},
	{when: func(j judged) bool { return j.closedWith("shell_failed") }, side: diag.SideNode, direct: true,
		then: fails(diag.SigTerminalServer, "%s started no shell: %s", server, closed)},
	{when: func(j judged) bool { return j.f.WS.Ended != "" }, direct: true,
		then: fails(diag.SigTerminalServer, "%s ended the session before it showed anything: %s", server, closed)},
	{direct: true, then: fails(diag.SigTerminalServer, "%s opened the session, and then sent nothing that "+
		"terminal.frames knows: %s", server, saw)},
}

// foreignShellRows are about the shell in a terminal of another platform that showed something.
var foreignShellRows = rows{
	{when: func(j judged) bool { return j.f.Passed() }},
	{when: func(j judged) bool { return !spoke(j.f) }, then: undecided("no shell was reached: %s", saw)},
	{when: func(j judged) bool { return j.exited() }, direct: true, also: ofShell,
		then: fails(diag.SigTerminalServer, "the shell started, but ended by itself%s before it computed anything: %s%s",
			exitCode, saw, lastLines)},
	{when: func(j judged) bool { return j.f.WS != nil && j.f.WS.FrameCode != "" }, direct: true, also: ofShell,
		then: fails(diag.SigTerminalServer, "the terminal ended before its shell computed anything: %s %s%s", frameCode,
			frameMessage, lastLines)},
	{when: func(j judged) bool { return j.f.WS != nil && j.f.WS.Ended != "" }, direct: true, also: ofShell,
		then: fails(diag.SigTerminalServer, "the terminal ended before its shell computed anything: %s%s", closed,
			lastLines)},
	{direct: true, also: ofShell, then: fails(diag.SigTerminalServer, "the terminal is open, but no shell computes in it "+
		"(an echo is no shell): %s%s%s", saw, detail, lastLines)},
}

// ofShell names the side of a shell: the machine, or the pod that it runs in.
func ofShell(j judged, out *diag.Finding) {
	if out.Side = diag.SideNode; j.of(diag.TerminalExec) {
		out.Side = diag.SideWorkload
	}
}

func (j judged) of(kind diag.TerminalKind) bool { return j.f.Request.Terminal.Kind == kind }
func (j judged) notUpgraded() bool              { return !reading.Upgraded(j.f) }
func (j judged) exited() bool {
	return j.f.WS != nil && (j.f.WS.ExitCode != nil || j.f.WS.FirstFrame == "exit" || j.f.Failure == diag.PTYFailed)
}

// hasCode reports whether the terminal's error has this code.
func (j judged) hasCode(code string) bool {
	return j.f.WS != nil && j.f.WS.FirstFrame == "error" && j.f.WS.FrameCode == code
}

// onlySPDY reports whether an API asks for the older protocol of exec.
func (j judged) onlySPDY() bool {
	said := strings.ToLower(answer(j))
	return j.notUpgraded() && (strings.Contains(said, "spdy") || strings.Contains(said, "upgrade request required"))
}

// closedWith reports whether the close code has one of the meanings.
func (j judged) closedWith(meanings ...string) bool {
	if j.f.WS == nil || j.f.WS.Ended != diag.WSEndClose {
		return false
	}
	for _, m := range meanings {
		if j.f.Request.Terminal.CloseMeans(j.f.WS.CloseCode).ID == m {
			return true
		}
	}
	return false
}

// closed quotes how the far side ended the session, with the meaning of its code if that is known.
func closed(j judged) string {
	w := j.f.WS
	if w.Ended != diag.WSEndClose {
		return fmt.Sprintf("the connection ended without a close frame (%s)", w.Ended)
	}
	quoted := strings.TrimSpace(fmt.Sprintf("close code %d %s", w.CloseCode, w.CloseReason))
	if m := j.f.Request.Terminal.CloseMeans(w.CloseCode); m.ID != "" {
		return quoted + ": " + m.Text
	}
	return quoted + ", whose meaning the profile does not list (terminal.closes)"
}

// answer quotes an answer in place of an upgrade.
func answer(j judged) string {
	if j.f.HTTP == nil {
		return saw(j)
	}
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s %s", j.status(), j.f.HTTP.ErrorCode, j.f.HTTP.ErrorMessage))
}

func exitCode(j judged) string {
	if j.f.WS == nil || j.f.WS.ExitCode == nil {
		return ""
	}
	return fmt.Sprintf(" with exit code %d", *j.f.WS.ExitCode)
}

func server(j judged) string    { return j.f.Request.Terminal.Server() }
func offered(j judged) string   { return strings.Join(j.f.Request.Subprotocols, ", ") }
func theDetail(j judged) string { return cmp.Or(j.f.Detail, string(j.f.Failure)) }
