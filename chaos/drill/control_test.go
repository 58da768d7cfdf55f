package drill

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
)

// onBare returns the facts of a passing run on a node that has only a login, its disk and its API's listener.
func onBare() *Story {
	s := passing()
	e := &s.Plan.Scenario.Expect
	e.MustStayGreen = chaos.StayGreen{WasGreen: true}
	for _, h := range diag.HopIDs() {
		if h == diag.HopNodeOpsAccess || h == diag.HopNodeReadiness || h == diag.HopNodeRuntimeAPI {
			continue
		}
		s.Plan.NotMeasured = append(s.Plan.NotMeasured, chaos.AbsentHop{Hop: h, Why: "no platform"})
		for i := range s.Walks {
			s.Walks[i].Hops[h] = diag.StatusSkipped
		}
	}
	return s
}

func claimed(s *Story, id string) Claim {
	all := s.Claims()
	return all[slices.IndexFunc(all, func(c Claim) bool { return c.ID == id })]
}

// TestWasGreen: what was green before and is not expected to fail must stay green, and nothing else is asked for.
func TestWasGreen(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Story)
		claim  string
		want   State
		text   string
	}{
		"it stays green": {func(*Story) {}, ClaimSpared, Held, "2 hops; not measured here: control_plane_access"},
		"it fails": {func(s *Story) { s.walkOf(4).Hops[diag.HopNodeReadiness] = diag.StatusFail }, ClaimSpared, Violated,
			"node_readiness failed in walk 4"},
		"it could not be reached": {func(s *Story) { s.walkOf(4).Hops[diag.HopNodeReadiness] = diag.StatusNotReached },
			ClaimSpared, Held, "1 hops; not measured during the fault: node_readiness"},
		"it is undecided": {func(s *Story) { s.walkOf(4).Hops[diag.HopNodeReadiness] = diag.StatusInconclusive },
			ClaimDetected, Violated, "node_readiness is inconclusive, and must stay green"},
		"it was not green before": {func(s *Story) {
			s.walkOf(1).Hops[diag.HopNodeReadiness] = diag.StatusInconclusive
			s.walkOf(4).Hops[diag.HopNodeReadiness] = diag.StatusInconclusive
		}, ClaimSpared, Held, "1 hops"},
		"it is expected to fail as well": {func(s *Story) {
			s.Plan.Scenario.Expect.FirstFailedHop = []diag.HopID{diag.HopNodeReadiness}
			s.walkOf(4).FirstFailed, s.walkOf(4).Hops[diag.HopNodeReadiness] = diag.HopNodeReadiness, diag.StatusFail
		}, ClaimSpared, Held, "1 hops"},
		"nothing else was green": {func(s *Story) {
			s.walkOf(1).Hops[diag.HopNodeReadiness] = diag.StatusSkipped
			s.walkOf(1).Hops[diag.HopNodeOpsAccess] = diag.StatusSkipped
		}, ClaimGreenBefore, Violated, "there is no control"},
		"no tenant is here": {func(*Story) {}, ClaimTold, NotApplicable, "what a tenant got"},
		"a tenant is here": {func(s *Story) {
			s.Plan.NotMeasured = slices.DeleteFunc(s.Plan.NotMeasured, func(a chaos.AbsentHop) bool {
				return a.Hop == diag.HopAppUserRoute
			})
		}, ClaimTold, Held, "nothing of a user's failed"},
		"nobody writes the id down": {func(*Story) {}, ClaimDetected, Held, "not measured here: the walk's id"},
		"the id was lost": {func(s *Story) { s.walkOf(4).Unlinked = []string{"gateway"} }, ClaimDetected, Violated,
			"of gateway nothing is written down"},
	} {
		s := onBare()
		tc.change(s)
		if c := claimed(s, tc.claim); c.Outcome() != tc.want || !strings.Contains(c.Text, tc.text) {
			t.Errorf("%s: %s %q, want %s ...%s...", name, c.State, c.Text, tc.want, tc.text)
		}
	}
	if v := onBare().Verdict(); v.Word != Pass {
		t.Errorf("%s: %s", v.Word, v.Text)
	}
}

// TestAListIsAboutWhatIsThere: a hop of the list that the environment has not is left out, and said; the others are
// judged as ever.
func TestAListIsAboutWhatIsThere(t *testing.T) {
	s := passing()
	for i := range s.Walks {
		s.Walks[i].Hops[diag.HopNodeHeartbeat] = diag.StatusSkipped
	}
	if c := claimed(s, ClaimSpared); c.State != NotSeen {
		t.Errorf("left out by the operator: %s", c.State)
	}
	s.Plan.NotMeasured = []chaos.AbsentHop{{Hop: diag.HopNodeHeartbeat, Why: "no agent"}}
	c := claimed(s, ClaimSpared)
	if c.State != Held || !strings.Contains(c.Text, "1 hops; not measured here: node_heartbeat") {
		t.Errorf("%s %q", c.State, c.Text)
	}
	s.walkOf(4).Hops[diag.HopControlPlaneAccess] = diag.StatusFail
	if c := claimed(s, ClaimSpared); c.State != Violated {
		t.Errorf("%s %q", c.State, c.Text)
	}
}
