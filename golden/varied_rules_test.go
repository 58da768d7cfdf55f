package golden

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// problemsOf checks what holds of every report, whatever was measured. asked has the facts that were judged; fact is
// the one that was varied, and unmeasured whether it has no result.
func problemsOf(asked, r *diag.Report, fact string, unmeasured bool) []string {
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	undecided := func(h diag.HopResult) bool {
		return h.Status == diag.StatusFail || h.Status == diag.StatusInconclusive || h.Status == diag.StatusNotReached
	}
	v := &r.Verdict
	good := v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn
	switch {
	case good && slices.ContainsFunc(r.Hops, undecided):
		bad("it is a %s, and a hop was not measured or fails", v.Outcome)
	case good && asked.Run.EndedBy != diag.EndedCompleted:
		bad("it is a %s, and the walk did not end", v.Outcome)
	case v.Outcome == diag.OutcomeFail && (v.Blame == nil || v.Owner == "" || len(v.Recovery) == 0 ||
		v.FirstFailedHop == ""):
		bad("it fails, and nobody is blamed, or nothing is advised")
	}
	facts := diag.FactsByID(asked.Facts)
	support := func(c diag.Confidence, p *diag.Proof, o *diag.Observation) {
		if (c == diag.Proven) != (p != nil) || (c == diag.Observed && o == nil) {
			bad("it is %s with the proof %v and the observation %v", c, p, o)
		}
		var named []string
		if p != nil {
			named = append(named, p.Failing, p.Passing)
		}
		if o != nil {
			named = append(named, o.Fact)
		}
		for _, id := range named {
			if facts[id] == nil || (unmeasured && id == fact) {
				bad("the cause rests on %s, which was not measured", id)
			}
		}
		if p == nil || facts[p.Failing] == nil || facts[p.Passing] == nil || p.Changed == diag.ChangedNothing {
			return
		}
		a, b := facts[p.Failing], facts[p.Passing]
		if diff := diag.Changed(&a.Request, &b.Request); !slices.Equal(diff, []string{p.Changed}) || a.Vantage != b.Vantage {
			bad("the proof names %s, and %v differ, from %s and %s", p.Changed, diff, a.Vantage, b.Vantage)
		}
	}
	support(v.Confidence, v.Proof, v.Observation)
	for _, o := range v.OtherFindings {
		support(o.Confidence, o.Proof, o.Observation)
	}
	for i := range r.Hops {
		for _, s := range r.Hops[i].Steps {
			own := string(r.Hops[i].ID)+"/"+s.Name == fact
			if unmeasured && own && (s.Status == diag.StatusPass || s.Status == diag.StatusFail) {
				bad("its step is %s, and was not measured", s.Status)
			}
		}
		if f := &r.Hops[i].Finding; unmeasured && f.Status == diag.StatusFail && !strings.Contains(fact, "~") &&
			r.Hops[i].ID != diag.HopNodeOpsAccess && // which measures the login by every request that it lost
			len(f.Evidence) > 0 && f.Evidence[0] == fact {
			bad("%s fails by it, and it was not measured", r.Hops[i].ID)
		}
	}
	return append(out, untrue(asked.Facts, r)...)
}

// TestContradictoryFactsAreJudged: a fact that says that it passed and holds a refusal's answer comes from a broken or
// hostile peer, and has a verdict like any other.
func TestContradictoryFactsAreJudged(t *testing.T) {
	for name, r := range walks(t) {
		for i := range r.Facts {
			if r.Facts[i].Failure == diag.OK {
				continue
			}
			odd := *r
			odd.Verdict = diag.Verdict{} // its proof would have to hold
			replace(&odd, runsOf(r, r.Facts[i].ID), func(f *diag.Fact) { f.Failure = diag.OK })
			if again := judged(t, &odd); again.Verdict.Outcome == "" {
				t.Errorf("%s with a passed %s has no outcome", name, r.Facts[i].ID)
			}
		}
	}
}
