package hop

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestGate: what the plan left out is skipped, then what does not apply, whatever it needs; only then a step waits.
func TestGate(t *testing.T) {
	const need = diag.HopNodeOpsAccess
	wait := WaitIf(func(*Case) string { return "no fact" })
	skip := SkipIf(func(*Case) string { return "not about this" })
	none := SkipIf(func(*Case) string { return "" })
	for name, c := range map[string]struct {
		left   string
		needed diag.Status
		absent string
		when   func(*Case) Gate
		want   Gate
	}{
		"nothing against it":  {needed: diag.StatusPass, when: none},
		"a warning is a pass": {needed: diag.StatusWarn},
		"a need is not done":  {},
		"a need failed":       {needed: diag.StatusFail, want: gate(Wait, "needs node_ops_access, which is fail")},
		"a need was skipped": {needed: diag.StatusSkipped,
			want: gate(Wait, "needs node_ops_access, which is skipped")},
		"the platform has no such": {needed: diag.StatusSkipped, absent: "no login"},
		"a fact is missing":        {needed: diag.StatusPass, when: wait, want: gate(Wait, "no fact")},
		"the need is named first": {needed: diag.StatusFail, when: wait,
			want: gate(Wait, "needs node_ops_access, which is fail")},
		"it does not apply":          {needed: diag.StatusFail, when: skip, want: gate(Skip, "not about this")},
		"the plan is named before":   {left: "no token", needed: diag.StatusFail, when: skip, want: gate(Skip, "no token")},
		"the plan left it out alone": {left: "no token", want: gate(Skip, "no token")},
	} {
		s := Step{Name: "s", Needs: Needs{Hops: []diag.HopID{need}}, When: c.when}
		of := &Case{Plan: diag.Plan{Hops: []diag.PlannedHop{{ID: need, Absent: c.absent}}}}
		planned := &diag.PlannedHop{Left: map[string]string{"s": c.left}}
		if got := s.Gate(of, planned, func(diag.HopID) diag.Status { return c.needed }); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestPlannedStep: what was not given is said before what the platform does not have, which no input changes.
func TestPlannedStep(t *testing.T) {
	lacking := profile.Profile{APIBase: "https://api.test", Mapping: profile.Mapping{
		Paths: map[string]string{profile.PathNode: profile.Absent}}}
	never := NeverIf(func(*profile.Profile) string { return "no record" })
	for name, c := range map[string]struct {
		needs Needs
		o     Options
		want  Verdict
	}{
		"all given":              {Needs{Token: true}, Options{Token: true}, Go},
		"no token":               {Needs{Token: true, Paths: []string{profile.PathNode}, Profile: never}, Options{}, Skip},
		"no path":                {Needs{Token: true, Paths: []string{profile.PathNode}}, Options{Token: true}, Never},
		"the profile says never": {Needs{Profile: never}, Options{}, Never},
		"a watch":                {Needs{Session: true}, Options{Session: true, Watch: true}, Skip},
	} {
		s := Step{From: Operator, Needs: c.needs}
		if got := s.Planned(&lacking, c.o); got.Verdict != c.want || (got.Why == "") != got.Open() {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
}
