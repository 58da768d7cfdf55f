package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestNoSessionOfThisWalk: if this walk minted no session, none is opened, and nothing fails.
func TestNoSessionOfThisWalk(t *testing.T) {
	id := func(ids ...diag.HopID) []diag.HopID { return ids }
	for name, tc := range map[string]struct {
		o    hop.Options
		want string // in the reason
	}{
		"no token": {hop.Options{Session: true, SSH: true}, "no operator token given"},
		"skip mint": {hop.Options{Session: true, SSH: true, Token: true, Skip: id(diag.HopTerminalTokenMint)},
			"in --skip"},
		"skip allocation": {hop.Options{Session: true, SSH: true, Token: true, Skip: id(diag.HopAllocationBinding)},
			"in --skip"},
		"only the session, no token": {hop.Options{Session: true, Only: id(diag.HopBrowserTerminalWS)},
			"no operator token given"},
	} {
		t.Run(name, func(t *testing.T) {
			e := testEnv()
			refused := answers{"browser_terminal_ws/session": func(f *diag.Fact) {
				t.Errorf("a session is opened at %s", f.Request.Target)
				f.Failure, f.Phase, f.WS, f.PTY = diag.WSUpgradeRejected, "ws", nil, nil
			}}
			plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, tc.o)
			v := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator, answers: refused},
				hop.Node: &scripted{name: hop.Node}}
			facts, ended := walkPlan(t, e, plan, v, nil)
			r := &diag.Report{Subject: e.Subject, Plan: plan, Facts: facts, Run: diag.Run{EndedBy: ended}}
			verdict.Judge(hops.BuiltIn(), r)
			want := diag.OutcomePass
			if !tc.o.SSH && !tc.o.Token { // nothing of the node is measured
				want = diag.OutcomeInconclusive
			}
			if r.Verdict.Outcome != want {
				t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
			}
			for _, id := range []diag.HopID{diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream} {
				if h := hopOf(r, id); tc.o.Only == nil &&
					(h.Status != diag.StatusSkipped || !strings.Contains(h.Because, tc.want)) {
					t.Errorf("%s is %s: %s", id, h.Status, h.Because)
				}
			}
		})
	}
}

// TestSessionWithoutAMint: in a report of an older walk, which opened a session that it had not minted, no hop is
// blamed for that session.
func TestSessionWithoutAMint(t *testing.T) {
	r := walkWith(t, answers{"browser_terminal_ws/session": func(f *diag.Fact) {
		f.Failure, f.Phase, f.WS, f.PTY = diag.WSUpgradeRejected, "ws", nil, nil
	}})
	if r.Verdict.Outcome != diag.OutcomeFail {
		t.Fatalf("a session that was minted and refused is %s", r.Verdict.Outcome)
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f diag.Fact) bool { return f.ID == "terminal_token_mint/mint" })
	verdict.Judge(hops.BuiltIn(), r)
	if h := hopOf(r, diag.HopBrowserTerminalWS); h.Status != diag.StatusInconclusive ||
		r.Verdict.Outcome == diag.OutcomeFail {
		t.Errorf("%s is %s: %s%s", h.ID, h.Status, h.Text, h.Because)
	}
}
