package compare

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// watchPlan returns a plan of a profile with all endpoints.
func watchPlan(o hop.Options) diag.Plan {
	p := profile.Profile{APIBase: "https://api.test", TerminalBase: "https://term.test"}.WithDefaults()
	return hops.BuiltIn().NewPlan(p, diag.Subject{NodeID: "n1", NodeHost: "n1", AllocationID: "a1"}, o)
}

// TestAWatchChangesNothing: no request of a watch has an effect. The steps themselves make the requests, so a new step
// that posts fails here.
func TestAWatchChangesNothing(t *testing.T) {
	plan := watchPlan(hop.Options{Watch: true, Token: true, SSH: true})
	p := profile.Profile{APIBase: "https://api.test", TerminalBase: "https://term.test"}.WithDefaults()
	e := &hop.Env{Profile: p, Subject: diag.Subject{NodeID: "n1", NodeHost: "n1", AllocationID: "a1"}, ReadOnly: true}
	for _, h := range hops.BuiltIn().List() {
		row := planned(plan, h.ID)
		if row == nil || row.Skip != "" { // an optional hop has no row
			continue
		}
		for _, s := range h.Steps {
			if row.Left[s.Name] != "" || s.Ask == nil {
				continue
			}
			req := s.Ask(e, hops.BuiltIn().NewCase(e.Subject, plan, diag.EndedCompleted, nil))
			if (req.Method != "" && req.Method != "GET" && req.Method != "HEAD") || req.Op == diag.OpSession || req.Write > 0 {
				t.Errorf("%s/%s sends %s %s, writes %d bytes", h.ID, s.Name, req.Op, req.Method, req.Write)
			}
		}
	}
}

// TestWhatAWatchDoesNotAsk: what a watch leaves out is listed, and the rest is asked; a full watch asks everything.
func TestWhatAWatchDoesNotAsk(t *testing.T) {
	w := NewWatched(hops.BuiltIn(), watchPlan(hop.Options{Watch: true, Token: true, SSH: true}), "n1", 30000, false)
	left := map[diag.HopID]string{}
	for _, n := range w.NotAsked {
		left[n.Hop] = n.What
	}
	for _, id := range []diag.HopID{diag.HopNodeTaskRoundtrip, diag.HopTerminalTokenMint, diag.HopBrowserTerminalWS} {
		if what, listed := left[id]; !listed || what != "" {
			t.Errorf("%s is listed as %q (%v)", id, what, listed)
		}
	}
	if left[diag.HopNodeReadiness] == "" {
		t.Error("the write on the disks is not listed")
	}
	whole := NewWatched(hops.BuiltIn(), watchPlan(hop.Options{Session: true, Token: true, SSH: true}), "n1", 30000, true)
	if len(whole.Asked) < len(w.Asked)+3 {
		t.Errorf("a full watch asks %d hops, another %d", len(whole.Asked), len(w.Asked))
	}
}

// TestWatchChanges: only what changed is listed, the verdict first.
func TestWatchChanges(t *testing.T) {
	report := func(outcome diag.Outcome, blame *diag.Blame, hops ...diag.HopResult) *diag.Report {
		return &diag.Report{Verdict: diag.Verdict{Outcome: outcome, Blame: blame}, Hops: hops,
			Plan: diag.Plan{Hops: []diag.PlannedHop{{ID: "a"}, {ID: "b"}, {ID: "c", Skip: "left out"}}}}
	}
	hop := func(id diag.HopID, s diag.Status, sig diag.Signal, text string) diag.HopResult {
		return diag.HopResult{ID: id, Finding: diag.Finding{Status: s, Signal: sig, Text: text}}
	}
	good := report(diag.OutcomePass, nil, hop("a", diag.StatusPass, "", "in 5 ms"), hop("b", diag.StatusPass, "", ""))
	bad := report(diag.OutcomeFail, &diag.Blame{Hop: "a", Signal: "broken"},
		hop("a", diag.StatusFail, "broken", "after 4 s"), hop("b", diag.StatusNotReached, "", ""))
	if got := WatchChanges(nil, good); len(got) != 1 || got[0].Hop != "" || got[0].Asked != 2 || got[0].Of != 3 {
		t.Errorf("the first walk: %+v", got)
	}
	if got := WatchChanges(nil, bad); len(got) != 3 {
		t.Errorf("a first walk that fails: %+v", got)
	}
	got := WatchChanges(good, bad)
	if len(got) != 3 || got[0].Now.Hop != "a" || got[0].Before.Status != diag.StatusPass || got[1].Hop != "a" ||
		got[1].Now.Signal != "broken" || got[2].Now.Status != diag.StatusNotReached {
		t.Errorf("what broke: %+v", got)
	}
	slower := report(diag.OutcomePass, nil, hop("a", diag.StatusPass, "", "in 9 ms"), hop("b", diag.StatusPass, "", ""))
	if got := WatchChanges(good, slower); len(got) != 0 {
		t.Errorf("another time is no change: %+v", got)
	}
	other := report(diag.OutcomeFail, &diag.Blame{Hop: "b", Signal: "broken"}, bad.Hops...)
	if got := WatchChanges(bad, other); len(got) != 1 || got[0].Now.Hop != "b" {
		t.Errorf("another blame: %+v", got)
	}
}
