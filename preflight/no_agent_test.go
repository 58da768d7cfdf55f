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

// foundNothing answers as a node on which there is nothing of the agent that the profile names.
func foundNothing() answers {
	missing := func(failure diag.Failure, phase string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			*f = diag.Fact{ID: f.ID, Vantage: f.Vantage, Request: f.Request, At: f.At, DurationMS: 1, Failure: failure,
				Phase: phase, Detail: "no such file or directory"}
		}
	}
	return answers{
		"node_readiness/process":                missing(diag.UnitMissing, "systemctl"),
		"node_readiness/binary":                 missing(diag.BinaryMissing, "stat"),
		"node_recovery_status/identity":         missing(diag.FileMissing, "cert"),
		"node_recovery_status/profile":          missing(diag.FileMissing, "env"),
		"node_recovery_status/host_record":      missing(diag.FileMissing, "read"),
		"node_runtime_api_reachability/reach":   missing(diag.FileMissing, "env"),
		"node_terminal_reachability/stream":     missing(diag.FileMissing, "env"),
		"node_recovery_status/task_wait":        missing(diag.FileMissing, "env"),
		"node_task_roundtrip/record_after":      missing(diag.FileMissing, "read"),
		"node_runtime_api_reachability/reach~1": missing(diag.FileMissing, "env"),
	}
}

// TestNoAgentIsFound: a node without anything of the profile's agent is described wrongly, and nothing of it is at
// fault; a node that lacks a part, or whose agent the platform has heard, is.
func TestNoAgentIsFound(t *testing.T) {
	nodeOnly := profile.Profile{Name: "bare", Nodes: map[string]profile.Node{"node-1": {Host: "192.0.2.101"}}}
	r := walkOf(t, nodeOnly, hop.Options{SSH: true, Session: true}, foundNothing())
	text := describe(r)
	if r.Verdict.Outcome != diag.OutcomeInconclusive || !strings.Contains(text, "no agent is installed on 192.0.2.101") {
		t.Errorf("%s\n%s", r.Verdict.Outcome, text)
	}
	for _, h := range r.Hops {
		if h.Status == diag.StatusFail {
			t.Errorf("%s fails: %s", h.ID, h.Text)
		}
	}
	for _, s := range r.Verdict.Recovery {
		if strings.Contains(s, "getent") {
			t.Errorf("a name is to be repaired: %s", s)
		}
	}
	partly := foundNothing()
	delete(partly, "node_recovery_status/identity")
	if r := walkOf(t, nodeOnly, hop.Options{SSH: true}, partly); r.Verdict.Outcome != diag.OutcomeFail {
		t.Errorf("with a certificate: %s\n%s", r.Verdict.Outcome, describe(r))
	}
	if r := walkWith(t, foundNothing()); r.Verdict.Outcome == diag.OutcomePass {
		t.Errorf("with a platform that heard it: %s", r.Verdict.Outcome)
	}
}
