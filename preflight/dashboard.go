package preflight

import "github.com/gpuaas/gpuaasctl/diag"

// dashboard says the verdict in the runbook's dashboard words.
func dashboard(hops []diag.HopResult, v diag.Verdict, c *Case, run diag.Run) diag.Dashboard {
	d := diag.Dashboard{
		CorrelationID: run.CorrelationID, ExpectedTerminalEndpoint: c.expected("node_terminal_url"),
		NodeAgentStatus: agentStatus(hops), TerminalReadiness: terminalReadiness(hops, c),
	}
	if v.Blame != nil {
		d.LastFailureReason = v.Blame.Signal
	}
	if v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn {
		d.LastSuccessfulPreflightAt = run.EndedAt
	}
	return d
}

// agentStatus prefers the cause over its symptom: a node that cannot authenticate is also stale.
func agentStatus(hops []diag.HopResult) string {
	by := byID(hops)
	for _, id := range []diag.HopID{diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus, diag.HopNodeTaskRoundtrip, diag.HopNodeReadiness} {
		if by[id].Status != diag.StatusFail {
			continue
		}
		if row, ok := diag.LookupSignal(by[id].Signal); ok && row.Dashboard != "" {
			return row.Dashboard
		}
	}
	switch by[diag.HopNodeHeartbeat].Status {
	case diag.StatusPass, diag.StatusWarn:
		return "healthy"
	case diag.StatusFail:
		return "stale"
	}
	return "unknown"
}

// terminalReadiness is the furthest stage that was seen, "failed" when a stage failed, "" when none was tried.
func terminalReadiness(hops []diag.HopResult, c *Case) string {
	by := byID(hops)
	for _, id := range hopsThrough(diag.HopTerminalTokenMint, diag.HopTerminalStartup) {
		if by[id].Status == diag.StatusFail {
			return "failed"
		}
	}
	accepted := sessionAccepted(c)
	switch {
	case accepted && by[diag.HopTerminalStartup].Status == diag.StatusPass:
		return "pty_ready"
	case accepted && by[diag.HopGatewayNodeStream].Status == diag.StatusPass:
		return "node_stream_connected"
	case accepted && by[diag.HopTerminalOpenTask].Status == diag.StatusPass:
		return "terminal_open_sent"
	case accepted:
		return "browser_ws_ready"
	case by[diag.HopTerminalTokenMint].Status == diag.StatusPass:
		return "token_ready"
	}
	return ""
}

func byID(hops []diag.HopResult) map[diag.HopID]diag.HopResult {
	m := make(map[diag.HopID]diag.HopResult, len(hops))
	for _, h := range hops {
		m[h.ID] = h
	}
	return m
}
