package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// walkPart walks the hops of only, as --only does, against scripted vantages; session opens a session.
func walkPart(t *testing.T, session bool, only []diag.HopID, answers map[string]func(*diag.Fact)) *diag.Report {
	t.Helper()
	e := testEnv()
	vantages := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator, answers: answers},
		hop.Node: &scripted{name: hop.Node, answers: answers}}
	plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, hop.Options{Session: session, Token: true, SSH: true, Only: only})
	facts, ended := walkPlan(t, e, plan, vantages, nil)
	r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{EndedBy: ended, EndedAt: diag.At(noon)}}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// TestDashboardSaysNothingOfWhatWasLeftOut: the dashboard has no "failed" for a terminal, and no "stale" for a
// heartbeat, that the walk left out on purpose.
func TestDashboardSaysNothingOfWhatWasLeftOut(t *testing.T) {
	refused := map[string]func(*diag.Fact){"node_terminal_reachability/stream": failWith(diag.TCPTimeout, "tcp")}
	dead := map[string]func(*diag.Fact){"node_readiness/process": func(f *diag.Fact) {
		f.Failure, f.Phase, f.Unit = diag.UnitInactive, "state", &diag.UnitFacts{Active: "inactive", Sub: "dead"}
	}}
	only := func(ids ...diag.HopID) []diag.HopID { return ids }
	for name, c := range map[string]struct {
		session         bool
		only            []diag.HopID
		answers         map[string]func(*diag.Fact)
		agent, terminal string
	}{
		"no session, and the node's stream is refused": {false, nil, refused, diag.AgentHealthy, diag.TerminalTokenReady},
		"that hop alone":        {true, only(diag.HopNodeTerminalReachability), refused, diag.AgentUnknown, ""},
		"a session":             {true, nil, refused, diag.AgentHealthy, diag.TerminalPTYReady},
		"the process alone":     {true, only(diag.HopNodeReadiness), dead, diag.AgentUnknown, ""},
		"process and heartbeat": {true, only(diag.HopNodeReadiness, diag.HopNodeHeartbeat), dead, diag.AgentStale, ""},
	} {
		r := walkPart(t, c.session, c.only, c.answers)
		if r.Verdict.Outcome != diag.OutcomeFail {
			t.Errorf("%s: outcome %s", name, r.Verdict.Outcome)
		}
		if d := r.Dashboard; d.NodeAgentStatus != c.agent || d.TerminalReadiness != c.terminal {
			t.Errorf("%s: agent %q, terminal %q, want %q, %q", name, d.NodeAgentStatus, d.TerminalReadiness, c.agent, c.terminal)
		}
	}
}
