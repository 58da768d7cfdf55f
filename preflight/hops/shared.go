package hops

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// MintTerminal returns the request for a terminal of the subject's allocation; the zero Request if this platform has no
// terminals.
func MintTerminal(e *hop.Env) diag.Request {
	return named(mintTerminal(e), diag.HopTerminalTokenMint, hop.StepMint)
}

// named sets the id that a step's request has in a walk; a zero Request stays zero.
func named(r diag.Request, id diag.HopID, step string) diag.Request {
	if r.Op != "" {
		r.ID = hop.FactID(id, step)
	}
	return r
}

// askSession returns the request that opens the session that this walk minted: at the URL of the token's answer if that
// is at the profile's gateway, else at the profile's.
func askSession(e *hop.Env, c *hop.Case) diag.Request {
	if !e.Profile.Terminal.OfReference() {
		return askForeign(e, c)
	}
	mint := c.Fact(diag.HopTerminalTokenMint, hop.StepMint)
	if mint == nil || mint.HTTP == nil || mint.HTTP.Kept.IsZero() {
		return diag.Request{}
	}
	url, query := c.URL(diag.HopTerminalTokenMint, hop.StepMint, "token.url")
	session := c.Field(diag.HopTerminalTokenMint, hop.StepMint, "token.session_id")
	if url == "" || !hop.SameEndpoint(url, e.Profile.TerminalBase) {
		url, query = e.PathURL(e.Profile.TerminalBase, profile.PathTerminalWS, map[string]string{"session_id": session}),
			diag.Secret{}
		if session == "" {
			return diag.Request{}
		}
	}
	header := e.Headers()
	header["Origin"] = hop.EndpointOf(e.Profile.TerminalBase)
	return diag.Request{
		Op: diag.OpSession, Target: url, Query: query, Resolve: e.Profile.TerminalResolveAddress,
		CABundle: e.Profile.Trust.OperatorCA, Header: header, Cookie: e.Cookie,
		InsecureHTTP: e.Profile.InsecureHTTP, Subprotocols: terminalProtocols(e.Profile.Terminal),
		Terminal: e.Profile.Terminal.Speaks(), Token: mint.HTTP.Kept,
		Extract: e.Profile.Mapping.Extract(hop.FieldErrorCode, "error.message"),
	}
}

// terminalProtocols are the subprotocols of the reference platform's gateway, or the profile's own.
func terminalProtocols(t profile.Terminal) []string {
	if t.Subprotocols != nil {
		return t.Subprotocols
	}
	return []string{"gpuaas.terminal.v1"}
}

func keepsRecord(p *profile.Profile) string {
	switch {
	case p.Agent.Record == "":
		return "the profile names no record of the agent (agent.record)"
	case p.Mapping.KeepsRecord():
		return ""
	}
	return "this platform's agents keep no diagnostic record (mapping.record: false)"
}

func readRecord(e *hop.Env, _ *hop.Case) diag.Request {
	return diag.Request{Op: diag.OpRecord, Target: e.Profile.Agent.Record, Limit: recordLimit}
}

// observed is a failing finding for an answer that itself names the fault, so the time-out of the poll for another
// answer is not its failure.
func observed(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	out := reading.Fail(sig, f, format, args...)
	out.Failure = diag.OK
	return out
}

func mintTerminal(e *hop.Env) diag.Request {
	req := e.Request("POST", profile.PathTerminalToken, nil, "token.session_id", "token.url", "token.expires_at",
		"token.token")
	if req.Extract["token.token"] != "" {
		req.Keep = "token.token"
	}
	return req
}

// sshAnswered reports whether an SSH server answered, if only to refuse.
func sshAnswered(f *diag.Fact) bool {
	if f == nil {
		return false
	}
	switch f.Failure {
	case diag.OK, diag.SSHHostKey, diag.SSHAuth, diag.SSHExec, diag.SSHPenalty:
		return true
	}
	return false
}

// locateUnclaimed adds to the finding of an unclaimed task why the agent cannot have got it, as far as that is known:
// what answers the node's task waits does not ask the queue.
func locateUnclaimed(c *hop.Case, out *diag.Finding) {
	out.Reason = unclaimed(c)
	wait, judged, e := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait), judgeTaskWait(c), world.CutWait(c)
	side := diag.SideEdge
	switch {
	case world.SilentNode(c):
		out.Culprit = world.CulpritSilentNode
		return
	case reading.Admitted(wait) && wait.HTTP != nil && wait.HTTP.Cached != "":
		out.Text += "; the node's task wait was answered from a cache (" + wait.HTTP.Cached + "), so the queue was not asked"
	case e != nil:
		out.Text += fmt.Sprintf("; the node's record says that its task waits are cut off, as of %s: %s; the walk's own, "+
			"which is answered at once, is accepted", e.At.UTC().Format(time.RFC3339), world.EntryWords(e))
	case reading.Status(wait) != 0 && judged != nil && judged.Status == diag.StatusInconclusive:
		out.Text += "; an agent gets its tasks by task waits, and " + judged.Because
		if reading.PlatformCode(wait) || reading.NamesObject(wait) {
			side = diag.SidePlatform
		}
	default:
		return
	}
	out.Side, out.Reason = side, diag.ReasonControlPlaneUnreachable
}

// unclaimed returns the reason for an unclaimed task: version drift if the agent's version is known to differ and the
// node is in contact, else an unreachable agent. An agent that refuses a task reports it; one that does not poll is not
// evidence about its version.
func unclaimed(c *hop.Case) diag.ReasonCode {
	have, want := world.ReadModel(c, "node.agent_version"), world.ReadModel(c, "node.agent_desired_version")
	if have != "" && want != "" && !classify.SameVersion(have, want) && !world.SilentNode(c) {
		return diag.ReasonAgentVersionDrift
	}
	return diag.ReasonNodeAgentUnreachable
}

// recordLimit is how many of the record's newest entries are read, in addition to the pinned ones: a day without a
// platform, since repeats are folded.
const recordLimit = 64

// rankOf orders the statuses of findings, the worst first.
func rankOf(s diag.Status) int {
	return slices.Index([]diag.Status{diag.StatusFail, diag.StatusInconclusive, diag.StatusWarn}, s)
}

// noAgentAPI returns what the profile lacks to ask the agent's API.
func noAgentAPI(p *profile.Profile) string {
	if p.Agent.API.Absent() {
		return "the profile does not say how the agent knows its API (agent.api_url)"
	}
	return ""
}
