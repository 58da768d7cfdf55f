package preflight

import (
	"errors"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// RulesVersion names this set of judges. It changes whenever the same facts may be judged differently.
const RulesVersion = "4"

// ErrInvalidReport is wrapped by every refusal of Replay.
var ErrInvalidReport = errors.New("not a valid report")

// Judge fills a report's hops, verdict and dashboard from its subject, plan, facts and ending, and its subject with what
// the facts say of it.
func Judge(r *diag.Report) {
	learn(&r.Subject, caseOf(r))
	c := caseOf(r)
	chain := Chain()
	r.Hops = assess(chain, c)
	r.Verdict, r.Classification = decide(chain, r.Hops, c)
	r.Dashboard = dashboard(r.Hops, r.Verdict, c, r.Run)
	r.Run.RulesVersion = RulesVersion
}

// Replay judges the recorded facts again, by today's rules. The report that it returns shares no mutable state with
// r. A report whose proof does not hold (a fact is missing, or the requests do not differ in exactly the named input)
// is refused.
func Replay(r *diag.Report) (*diag.Report, error) {
	if r.APIVersion != diag.APIVersion || r.Kind != diag.KindPreflight {
		return nil, fmt.Errorf("%w: want %s %s, have %q %q", ErrInvalidReport, diag.APIVersion, diag.KindPreflight, r.APIVersion, r.Kind)
	}
	seen := map[string]bool{}
	for i := range r.Facts {
		id := r.Facts[i].ID
		if id == "" || seen[id] {
			return nil, fmt.Errorf("%w: facts[%d] has the id %q, which is empty or used twice", ErrInvalidReport, i, id)
		}
		seen[id] = true
	}
	if err := checkProof(r, r.Verdict.Proof); err != nil {
		return nil, err
	}
	for _, b := range r.Verdict.OtherFindings {
		if err := checkProof(r, b.Proof); err != nil {
			return nil, err
		}
	}
	again := *r
	Judge(&again)
	return &again, nil
}

// Stated is the verdict of a report as it can be compared with another one of the same facts.
func Stated(r *diag.Report) diag.StatedVerdict {
	v := &r.Verdict
	s := diag.StatedVerdict{
		Outcome: v.Outcome, FirstFailedHop: v.FirstFailedHop, Confidence: v.Confidence, Reason: v.Reason, RulesVersion: r.Run.RulesVersion,
	}
	if b := v.Blame; b != nil {
		s.Hop, s.Signal, s.Failure = b.Hop, b.Signal, b.Failure
	}
	return s
}

// SameVerdict says whether two verdicts say the same; the rules that gave them may differ.
func SameVerdict(a, b diag.StatedVerdict) bool {
	a.RulesVersion, b.RulesVersion = "", ""
	return a == b
}

// Compared notes in a replay what the walk's own report stated, where today's rules say otherwise. A replay of a replay
// is compared with the walk's own, so that it is the same document again.
func Compared(recorded, replayed *diag.Report) {
	stated := Stated(recorded)
	if recorded.Replayed != nil {
		stated = recorded.Replayed.Stated
	}
	replayed.Replayed = nil
	if !SameVerdict(stated, Stated(replayed)) {
		replayed.Replayed = &diag.Replayed{Stated: stated}
	}
}

func checkProof(r *diag.Report, p *diag.Proof) error {
	if p == nil {
		return nil
	}
	c := NewCase(r.Subject, r.Plan, r.Run.EndedBy, r.Facts)
	a, b := c.facts[p.Failing], c.facts[p.Passing]
	if a == nil || b == nil {
		return fmt.Errorf("%w: the proof names facts %q and %q, and not both are there", ErrInvalidReport, p.Failing, p.Passing)
	}
	changed := diag.Changed(a.Request, b.Request)
	if len(changed) != 1 || changed[0] != p.Changed || !passesWhere(b, a) || a.Vantage != b.Vantage {
		return fmt.Errorf("%w: the proof says that %s changed between %q and %q; really changed: %v", ErrInvalidReport, p.Changed, p.Failing, p.Passing, changed)
	}
	return nil
}

// learn copies into s what the platform said of the node and the allocation that were asked about. What it did not say
// stays as it is.
func learn(s *diag.Subject, c *Case) {
	for _, l := range []struct {
		to    *string
		value string
	}{
		{&s.NodeInstanceID, readModel(c, "instance_id")},
		{&s.Provider, readModel(c, "provider_class")},
		{&s.PrivateIP, readModel(c, "private_ip")},
		{&s.WorkflowID, c.Field(diag.HopAllocationBinding, stepAllocation, "allocation.workflow_id")},
	} {
		if l.value != "" {
			*l.to = l.value
		}
	}
}
