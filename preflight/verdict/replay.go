package verdict

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// RulesVersion names this set of judges. It changes whenever the same facts may be judged differently.
const RulesVersion = "9"

// ErrInvalidReport is wrapped by every refusal of Replay.
var ErrInvalidReport = errors.New("not a valid report")

// Judge fills in a report's hops, verdict and dashboard from its subject, plan, facts and ending, and completes its
// subject from the facts.
func Judge(chain *hop.Chain, r *diag.Report) {
	c := chain.CaseOf(r)
	Learn(&r.Subject, c)
	JudgeCase(r, c)
}

// JudgeCase is Judge for a report whose subject is complete.
func JudgeCase(r *diag.Report, c *hop.Case) {
	c.Subject = r.Subject
	chain := c.Chain.List()
	r.Hops = append(Assess(chain, c), Brought(r.Hops, chain)...)
	r.Verdict, r.Classification = Decide(chain, r.Hops, c)
	r.Dashboard = dashboard(r.Hops, r.Verdict, c, r.Run)
	r.Run.RulesVersion = RulesVersion
}

// Brought returns the hops of a report that this chain does not have, such as hops of a profile: their results are
// kept.
func Brought(hops []diag.HopResult, chain []hop.Hop) []diag.HopResult {
	var own []diag.HopResult
	for i := range hops {
		if (i >= len(chain) || hops[i].ID != chain[i].ID) && hop.Position(chain, hops[i].ID) == len(chain) {
			own = append(own, hops[i])
		}
	}
	return own
}

// Replay judges the recorded facts again, by today's rules. The report that it returns shares no mutable state with
// r. A report whose proof does not hold (a fact is missing, or the requests do not differ in exactly the named input)
// is refused. A reduced report is returned as it was judged: with fewer facts another verdict could come out.
func Replay(chain *hop.Chain, r *diag.Report) (*diag.Report, error) {
	if r.APIVersion != diag.APIVersion || r.Kind != diag.KindPreflight {
		return nil, fmt.Errorf("%w: want %s %s, have %q %q", ErrInvalidReport, diag.APIVersion, diag.KindPreflight,
			r.APIVersion, r.Kind)
	}
	c := chain.CaseOf(r)
	if c.Size() < len(r.Facts) || c.FactByID("") != nil {
		return nil, errID(r.Facts)
	}
	if Reduced(r) != "" {
		return asStated(r)
	}
	for _, p := range proofsOf(r) {
		if err := checkProof(c, p); err != nil {
			return nil, err
		}
	}
	again := *r
	Learn(&again.Subject, c)
	JudgeCase(&again, c)
	return &again, nil
}

// errID names the first fact whose id is empty or used twice.
func errID(facts []diag.Fact) error {
	seen := map[string]bool{"": true}
	i := slices.IndexFunc(facts, func(f diag.Fact) bool {
		again := seen[f.ID]
		seen[f.ID] = true
		return again
	})
	return fmt.Errorf("%w: facts[%d] has the id %q, which is empty or used twice", ErrInvalidReport, i, facts[i].ID)
}

// AsToday judges a kept walk's facts again by these rules. A tool of other rules may have kept it: a different
// verdict on the same facts is not a change of the node. A walk that cannot be judged again is returned unchanged.
func AsToday(chain *hop.Chain, kept *diag.Report) *diag.Report {
	if kept.Run.RulesVersion == RulesVersion {
		return kept
	}
	again, err := Replay(chain, kept)
	if err != nil {
		return kept
	}
	again.Run.RulesVersion = kept.Run.RulesVersion // so that the diff reports the change of rules
	return again
}

// Stated returns the verdict of a report in the form in which it is compared with another one of the same facts.
func Stated(r *diag.Report) diag.StatedVerdict {
	v := &r.Verdict
	s := diag.StatedVerdict{
		Outcome: v.Outcome, FirstFailedHop: v.FirstFailedHop, Confidence: v.Confidence, Reason: v.Reason,
		RulesVersion: r.Run.RulesVersion,
	}
	if b := v.Blame; b != nil {
		s.Hop, s.Signal, s.Failure = b.Hop, b.Signal, b.Failure
	}
	return s
}

// SameVerdict reports whether two verdicts are equal except for the version of their rules.
func SameVerdict(a, b diag.StatedVerdict) bool {
	a.RulesVersion, b.RulesVersion = "", ""
	return a == b
}

// Compared records in a replay the verdict of the walk's own report, if today's rules reach another one. A replay of a
// replay is compared with the walk's own report as well, so it gives the same document again.
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

func checkProof(c *hop.Case, p *diag.Proof) error {
	a, b := c.FactByID(p.Failing), c.FactByID(p.Passing)
	if a == nil || b == nil {
		return fmt.Errorf("%w: the proof names facts %q and %q, and not both are there", ErrInvalidReport, p.Failing,
			p.Passing)
	}
	changed := diag.Changed(&a.Request, &b.Request)
	if len(changed) == 0 {
		changed = []string{diag.ChangedNothing}
	}
	// Earlier rules took a probe that came further for a pass; such a report is accepted, and judged by today's rules.
	step, _, _ := hop.SplitID(a.ID)
	if len(changed) != 1 || changed[0] != p.Changed || (!world.Passes(c, step, b) && !reading.Further(b, a)) ||
		a.Vantage != b.Vantage {
		return fmt.Errorf("%w: the proof says that %s changed between %q and %q; really changed: %v", ErrInvalidReport,
			p.Changed, p.Failing, p.Passing, changed)
	}
	return nil
}

// Learn copies the platform's data about the requested node and allocation into s. Values that it lacks stay
// unchanged.
func Learn(s *diag.Subject, c *hop.Case) {
	for _, l := range []struct {
		to    *string
		value string
	}{
		{&s.NodeInstanceID, world.ReadModel(c, "node.instance_id")},
		{&s.Provider, world.ReadModel(c, "node.provider_class")},
		{&s.PrivateIP, world.ReadModel(c, "node.private_ip")},
		{&s.WorkflowID, c.Field(diag.HopAllocationBinding, hop.StepAllocation, "allocation.workflow_id")},
	} {
		if l.value != "" {
			*l.to = l.value
		}
	}
}
