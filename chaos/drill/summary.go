package drill

import (
	"fmt"
	"slices"
	"strings"
)

// Drill returns the run's summary.
func (s *Story) Drill() Drill {
	m := s.Plan.Scenario.Metadata
	d := Drill{
		Run: s.Plan.Run, Scenario: m.ID, Title: m.Title, Severity: m.Severity, Owner: m.Owner, Runbook: explained(m.Runbook),
		Node: s.Plan.Node, Allocation: s.Plan.Allocation, PlanHash: s.Plan.Hash, Tool: s.Tool, Rules: s.Rules,
		StartedAt: s.Began, EndedAt: s.Ended, DurationMS: s.NowMS,
		Verdict: s.Verdict(), Claims: s.Claims(), Expected: s.expected(), Observed: s.observed(),
		Inject: s.injected(), Detect: s.detect(), Recover: s.recovered(),
		Machines: []MachineResult{}, Evidence: s.Plan.Scenario.Evidence, Trouble: s.Trouble,
	}
	for _, p := range s.Machines {
		d.Machines = append(d.Machines, p.MachineResult)
	}
	for _, l := range s.Looks {
		d.Looks = append(d.Looks, l.Seen)
	}
	for _, w := range s.Walks {
		w.Evidence, w.ReadModel, w.AgentSays = nil, nil, nil
		d.Walks = append(d.Walks, w)
	}
	return d
}

func (s *Story) expected() Expected {
	e := s.Plan.Scenario.Expect
	x := Expected{Blame: e.Blame.String(), Reason: e.Reason, FirstFailedHop: e.FirstFailedHop,
		MustStayGreen: s.staysGreen(), NotMeasured: s.Plan.NotMeasured}
	for _, o := range e.Others {
		x.Others = append(x.Others, o.String())
	}
	return x
}

// observed returns the walk that detected the fault, else the last one during the fault.
func (s *Story) observed() *WalkView {
	if w := s.detected(); w != nil {
		return w
	}
	if during := s.walks(During); len(during) > 0 {
		return &during[len(during)-1]
	}
	return nil
}

// Open reports whether the drill may still be in place on a machine, so that an operator has to inspect it.
func (d *Drill) Open() bool {
	return slices.ContainsFunc(d.Machines, func(m MachineResult) bool { return m.Armed && !m.Closed })
}

// SetVerdict sets the report's verdict to the worst of its drills'. A drill that was not run prevents a pass.
func (r *Report) SetVerdict() {
	r.Verdict = Verdict{Word: Pass, Text: fmt.Sprintf("%d of %d", len(r.Drills), len(r.Drills))}
	if len(r.NotRun) > 0 || len(r.Drills) == 0 {
		r.Verdict = Verdict{Infra, fmt.Sprintf("%d drills were not run", len(r.NotRun))}
	}
	for _, d := range r.Drills {
		if d.Verdict.Word.Worse(r.Verdict.Word) {
			r.Verdict = Verdict{d.Verdict.Word, d.Scenario + ": " + d.Verdict.Text}
		}
	}
}

// explained converts a drill's link to the repository's runbook to the command that shows the same text without
// the repository.
func explained(link string) string {
	if word, ok := strings.CutPrefix(link, "docs/runbook.md#"); ok {
		return "gpuaasctl explain " + word
	}
	return link
}
