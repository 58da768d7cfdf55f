package hop

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Gate says whether a step or a hop is asked, and if not, why. The plan asks one before the walk, by what the operator
// gave and the platform has (Step.Planned, Hop.Planned); the walk and the judge ask one by the facts (Step.Gate). The
// zero Gate says Go.
type Gate struct {
	Verdict Verdict
	Why     string // "" with Go
	root    string // the first reason, if Why says that another step or hop is left out; else ""
}

// Verdict is what a Gate says; the greater one is the stricter.
type Verdict int

// The verdicts.
const (
	Go    Verdict = iota
	Wait          // what it needs has not passed, or not yet: the hop is not reached
	Skip          // this walk leaves it out: not given, not wanted, or not about this subject
	Never         // no walk can ask it: the platform does not have it
)

// SkipIf returns a gate that says Skip if why gives a reason, for Step.When or a Profile.
func SkipIf[T any](why func(T) string) func(T) Gate {
	return func(of T) Gate { return gate(Skip, why(of)) }
}

// WaitIf is SkipIf for a gate that says Wait.
func WaitIf[T any](why func(T) string) func(T) Gate {
	return func(of T) Gate { return gate(Wait, why(of)) }
}

// NeverIf is SkipIf for a gate that says Never.
func NeverIf[T any](why func(T) string) func(T) Gate {
	return func(of T) Gate { return gate(Never, why(of)) }
}

// gate returns Go if there is no reason.
func gate(v Verdict, why string) Gate {
	if why == "" {
		return Gate{}
	}
	return Gate{Verdict: v, Why: why}
}

// Open reports whether the gate says Go.
func (g Gate) Open() bool { return g.Verdict == Go }

// first is the reason from which the gate's own follows.
func (g Gate) first() string { return cmp.Or(g.root, g.Why) }

// strictest returns the gate with the strictest verdict, the first of equals.
func strictest(gates ...Gate) Gate {
	return slices.MaxFunc(gates, func(a, b Gate) int { return cmp.Compare(a.Verdict, b.Verdict) })
}

// ask returns what a gate of a step or hop says; one that is not there says Go.
func ask[T any](say func(T) Gate, of T) Gate {
	if say == nil {
		return Gate{}
	}
	return say(of)
}

// Gate says whether the step's request is sent, by the plan's row of its hop and by the facts so far: a step that does
// not apply is skipped, whatever it needs.
func (s *Step) Gate(c *Case, planned *diag.PlannedHop, status Statuses) Gate {
	if why := planned.Left[s.Name]; why != "" {
		return gate(Skip, why)
	}
	return strictest(s.Needs.Gate(c, status), ask(s.When, c))
}

// Statuses returns the status of a hop that has ended, "" for any other.
type Statuses func(diag.HopID) diag.Status

// Gate says Wait for the first needed hop that has ended and did not pass. A skipped hop did not, whatever the reason,
// unless this platform does not have it (PlannedHop.Absent).
func (n *Needs) Gate(c *Case, status Statuses) Gate {
	for _, need := range n.Hops {
		st := status(need)
		absent := st == diag.StatusSkipped && c.Planned(need).Absent != ""
		if st != diag.StatusPass && st != diag.StatusWarn && st != "" && !absent {
			return gate(Wait, "needs "+string(need)+", which is "+string(st))
		}
	}
	return Gate{}
}
