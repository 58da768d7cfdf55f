package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// TestOnlyAnAnswerComesAndGoes: an error of the probing machine or its helper is not an answer of the far side, and an
// answer that takes longer than a repeat's time-out is not lost.
func TestOnlyAnAnswerComesAndGoes(t *testing.T) {
	took := func(ms diag.Millis, do func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			do(f)
			f.DurationMS = ms
		}
	}
	silent, well := failWith(diag.TCPTimeout, "tcp"), func(*diag.Fact) {}
	for name, tc := range map[string]struct {
		first, again func(*diag.Fact)
		seen         bool
	}{
		"a helper that knows no repeats": {silent, failWith(diag.Unsupported, ""), false},
		"a machine that ran out":         {silent, failWith(diag.HostExhausted, "tcp"), false},
		"a machine that denies":          {silent, failWith(diag.TCPDenied, "tcp"), false},
		"a kernel that gave up":          {failWith(diag.TCPNoRoute, "tcp"), silent, false},
		"a bundle that is not there":     {silent, failWith(diag.FileMissing, "trust"), false},
		"a slow server":                  {took(1200, well), took(900, silent), false},
		"a slow server that is lossy":    {took(1200, well), took(1500, silent), true},
		"a refusal":                      {silent, failWith(diag.TCPRefused, "tcp"), true},
		"an answer":                      {silent, well, true},
	} {
		c := hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, "", nil)
		for id, do := range map[string]func(*diag.Fact){reach: tc.first, reach + "~2": tc.again} {
			f := healthy(diag.Request{ID: reach, Op: diag.OpHTTP})
			do(&f)
			f.ID, f.Vantage = id, hop.Node
			c.Put(&f)
		}
		if got := world.LossSeen(c, hop.Node); (got != "") != tc.seen {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestInstabilityProvesItselfOnly: an unstable fact among the evidence of another finding does not prove that finding.
func TestInstabilityProvesItselfOnly(t *testing.T) {
	c := hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, "", nil)
	for _, id := range []string{reach, reach + "~2"} {
		f := healthy(diag.Request{ID: reach, Op: diag.OpHTTP})
		if f.ID, f.Vantage = id, hop.Node; id == reach {
			failWith(diag.TCPTimeout, "tcp")(&f)
		}
		c.Put(&f)
	}
	if p, _, _ := verdict.Prove(c, diag.SigNetworkUnstable, reach); p == nil || p.Changed != diag.ChangedNothing {
		t.Errorf("%+v", p)
	}
	if p, _, _ := verdict.Prove(c, diag.SigAgentConfined, reach); p != nil {
		t.Errorf("%+v", p)
	}
}

// TestANetworkThatOnlyComesFurtherIsNoPass: the agent's network is at fault if the machine's network gets an answer,
// and not if it only fails in a later phase.
func TestANetworkThatOnlyComesFurtherIsNoPass(t *testing.T) {
	apart := func(f *diag.Fact) {
		failWith(diag.TCPTimeout, "tcp")(f)
		f.OwnNetwork = true
	}
	for name, tc := range map[string]struct {
		host   func(*diag.Fact)
		signal diag.Signal
	}{
		"it answers":       {func(*diag.Fact) {}, diag.SigAgentConfined},
		"it comes further": {failWith(diag.HTTPTimeout, "http"), diag.SigAPIUnreachable},
	} {
		r := walkWith(t, answers{reach: apart, reach + "~host-network": tc.host})
		if v := r.Verdict; v.Blame == nil || v.Blame.Signal != tc.signal || (strings.Contains(v.Blame.Text, "it does") &&
			tc.signal != diag.SigAgentConfined) {
			t.Errorf("%s: %+v\n%s", name, v.Blame, describe(r))
		}
	}
}

// TestADenialOfTheLoginIsNotTheAgents: a filter that lets the agent through is not the agent's fault.
func TestADenialOfTheLoginIsNotTheAgents(t *testing.T) {
	for name, d := range map[string]*diag.DenialFacts{
		"nothing found": {Seccomp: "none"}, "a filter": {PacketFilters: []string{"inet x reject"}},
	} {
		deny := func(f *diag.Fact) {
			failWith(diag.TCPDenied, "tcp")(f)
			f.Errno, f.Denial = "EPERM", d
		}
		v := walkWith(t, answers{reach: deny, "node_terminal_reachability/stream": deny}).Verdict
		if v.Outcome != diag.OutcomeInconclusive || v.Blame != nil || !strings.Contains(v.Because, "answered a no-op") {
			t.Errorf("%s, the agent answers: %s %+v %q", name, v.Outcome, v.Blame, v.Because)
		}
		v = walkWith(t, with(silentAgent(), answers{reach: deny})).Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigAgentConfined {
			t.Errorf("%s, the agent is silent: %+v", name, v.Blame)
		}
	}
}
