package verdict

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// dashboard returns the verdict in the terms of the runbook's dashboard.
func dashboard(hops []diag.HopResult, v diag.Verdict, c *hop.Case, run diag.Run) diag.Dashboard {
	d := diag.Dashboard{
		CorrelationID: run.CorrelationID, ExpectedTerminalEndpoint: c.Expected("node_terminal_url"),
		NodeAgentStatus: agentStatus(hops, v), TerminalReadiness: terminalReadiness(hops, c),
		LastSuccessfulPreflightAt: run.LastGoodAt,
	}
	if v.Blame != nil && v.Blame.Status == "" { // a missing answer is not a failure
		d.LastFailureReason = v.Blame.Signal
	}
	if Whole(c.Plan) && (v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn) {
		d.LastSuccessfulPreflightAt = run.EndedAt
	}
	return d
}

// Whole reports whether the plan has every hop: --only, --skip or a watch left none out.
func Whole(p diag.Plan) bool { return !slices.ContainsFunc(p.Hops, leftOutOnRequest) }

// leftOutOnRequest reports whether --only, --skip or a watch left the hop out: such a walk does not count as a
// successful preflight.
func leftOutOnRequest(h diag.PlannedHop) bool {
	return hop.OptedOut(&h) || h.Skip == hop.SkipWatch
}

// agentStatus returns the agent's status by the faults that were found, else by its heartbeat: a node that cannot
// authenticate is stale as well, and authentication matters more. "stale" needs a heartbeat that was measured.
func agentStatus(hops []diag.HopResult, v diag.Verdict) string {
	heartbeat := reading.HopNamed(hops, diag.HopNodeHeartbeat).Status
	var signals []diag.Signal
	if v.Blame != nil && v.Blame.Status == "" {
		signals = append(signals, v.Blame.Signal)
	}
	for _, o := range v.OtherFindings {
		signals = append(signals, o.Signal)
	}
	for _, s := range signals {
		row, ok := diag.LookupSignal(s)
		switch {
		case !ok || row.Dashboard == "":
		case row.Dashboard == diag.AgentStale && !reading.HasResult(heartbeat):
			return diag.AgentUnknown
		default:
			return row.Dashboard
		}
	}
	switch heartbeat {
	case diag.StatusPass, diag.StatusWarn:
		return diag.AgentHealthy
	case diag.StatusFail:
		return diag.AgentStale
	}
	return diag.AgentUnknown
}

// terminalReadiness returns the furthest stage that was reached, "failed" if a stage failed, "" if none was tried.
// Without a session, only the token is judged. A shell that computed for the browser is ready, whatever else is broken
// or was not measured.
func terminalReadiness(hops []diag.HopResult, c *hop.Case) string {
	if world.ShellComputed(c) {
		return diag.TerminalPTYReady
	}
	last := diag.HopTerminalTokenMint
	if reading.HopNamed(hops, diag.HopBrowserTerminalWS).Status != diag.StatusSkipped { // a session was tried
		last = diag.HopTerminalStartup
	}
	for _, id := range hop.HopsThrough(diag.HopTerminalTokenMint, last) {
		if reading.HopNamed(hops, id).Status == diag.StatusFail {
			return diag.TerminalFailed
		}
	}
	accepted := world.SessionAccepted(c)
	switch {
	case accepted && reading.HopNamed(hops, diag.HopGatewayNodeStream).Status == diag.StatusPass:
		return diag.TerminalStreamConnected
	case accepted && reading.HopNamed(hops, diag.HopTerminalOpenTask).Status == diag.StatusPass:
		return diag.TerminalOpenSent
	case accepted:
		return diag.TerminalBrowserReady
	case reading.HopNamed(hops, diag.HopTerminalTokenMint).Status == diag.StatusPass:
		return diag.TerminalTokenReady
	}
	return ""
}
