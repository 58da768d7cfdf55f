package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// walkOf walks a healthy world by a profile.
func walkOf(t *testing.T, p profile.Profile, o hop.Options, a answers) *diag.Report {
	p = p.WithDefaults()
	e := testEnv()
	e.Profile, e.Subject = p, hop.NewSubject(p, "node-1", "", "", "")
	plan := hops.BuiltIn().NewPlan(p, e.Subject, o)
	v := map[string]hop.Vantage{
		hop.Operator: &scripted{name: hop.Operator, answers: a}, hop.Node: &scripted{name: hop.Node, answers: a},
	}
	facts, ended := walkPlan(t, e, plan, v, nil)
	r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{CorrelationID: e.CorrelationID, EndedBy: ended}}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// TestNodeWithoutAgentOrPlatform: of a node that is all there is, the login, the disk and the clock are measured, and
// nothing that is about an agent.
func TestNodeWithoutAgentOrPlatform(t *testing.T) {
	no := new(bool)
	bare := profile.Profile{Name: "bare", Nodes: map[string]profile.Node{"node-1": {Host: "192.0.2.101"}},
		Agent: profile.Agent{Present: no}, Allocation: profile.Allocation{Present: no}}
	r := walkOf(t, bare, hop.Options{SSH: true, Session: true}, nil)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
	}
	sent := map[string]bool{}
	for i := range r.Facts {
		sent[r.Facts[i].ID] = true
	}
	for _, id := range []string{"node_ops_access/ssh", "node_readiness/root_disk", "node_readiness/clock",
		"gpu_health/node"} {
		if !sent[id] {
			t.Errorf("%s was not asked", id)
		}
		delete(sent, id)
	}
	if len(sent) > 0 {
		t.Errorf("asked as well: %v", sent)
	}
	for _, id := range []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus,
		diag.HopNodeTaskRoundtrip, diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream} {
		if h := hopOf(r, id); h.Status != diag.StatusSkipped || !strings.Contains(h.Because, "agent.present: false") {
			t.Errorf("%s is %s: %s", id, h.Status, h.Because)
		}
	}
	h := hopOf(r, diag.HopAllocationBinding)
	if h.Status != diag.StatusSkipped || !strings.Contains(h.Because, "allocation.present: false") {
		t.Errorf("%s is %s: %s", h.ID, h.Status, h.Because)
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Error(err)
	}
}
