// Package verdict judges a case: every hop of its chain, then which one is to blame, how sure that is and by which
// proof, why, who acts, and how. It takes hops as data.
package verdict

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// Assess judges every hop in chain order. It is a function of the case alone, so a live report and its replay agree.
func Assess(chain []hop.Hop, c *hop.Case) []diag.HopResult {
	results := make([]diag.HopResult, 0, len(chain))
	before := func(id diag.HopID) diag.Status { return reading.HopNamed(results, id).Status }
	for i := range chain {
		results = append(results, AssessHop(&chain[i], c, before))
	}
	return results
}

// AssessHop judges one hop, given the statuses of the hops before it.
func AssessHop(h *hop.Hop, c *hop.Case, status hop.Statuses) diag.HopResult {
	p := c.Planned(h.ID)
	r := diag.HopResult{
		ID: h.ID, Title: h.Title, Layer: h.Layer, Vantage: strings.Join(p.Vantages, "+"), BudgetMS: p.BudgetMS,
	}
	if p.Skip != "" {
		r.Finding = diag.Finding{Status: diag.StatusSkipped, Because: p.Skip}
		return r
	}
	r.Steps = assessSteps(h, c, p, status)
	r.DurationMS = span(h, c)
	findings := world.ClearProfileMismatch(c, judge(h, c))
	world.AddRecorded(h.Recorded, findings, c)
	if slices.ContainsFunc(findings, func(f diag.Finding) bool { return f.Status != diag.StatusWarn }) {
		decide(&r, findings)
	} else {
		passIfMeasured(&r, h, c, p, findings)
	}
	measuredError(&r, h, c)
	return r
}

// assessSteps returns the status of each step that was planned. A second look that was not needed is left out.
func assessSteps(h *hop.Hop, c *hop.Case, p *diag.PlannedHop, status hop.Statuses) []diag.StepResult {
	steps := make([]diag.StepResult, 0, len(h.Steps))
	for i := range h.Steps {
		s := &h.Steps[i]
		if !slices.Contains(p.Steps, s.Name) {
			continue // the step is newer than this report
		}
		step := AssessStep(s, c, p, status)
		if s.Policy.Turn != hop.Always && step.Status == diag.StatusSkipped && p.Left[s.Name] == "" {
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

// decide makes the first finding the hop's.
func decide(r *diag.HopResult, findings []diag.Finding) {
	r.Finding, r.Also = findings[0], findings[1:]
	if r.Status != diag.StatusSkipped {
		return
	}
	for i := range r.Steps { // there was nothing to ask
		if s := &r.Steps[i]; s.Status == diag.StatusFail {
			s.Status, s.Because = diag.StatusSkipped, r.Because
		}
	}
}

// passIfMeasured is the result of a hop whose judge found no fault, but warnings: a step that failed without an
// excuse counts as not measured.
func passIfMeasured(r *diag.HopResult, h *hop.Hop, c *hop.Case, p *diag.PlannedHop, warnings []diag.Finding) {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Status == diag.StatusFail {
			s.Status, s.Because = diag.StatusInconclusive, reading.Saw(c.FactByID(s.Fact))
		}
	}
	r.Finding = unfailed(h, c, r.Steps)
	if p.Absent != "" && r.Status == diag.StatusPass { // the answer lacks a field that the judge needs (Hop.Fields)
		r.Finding = diag.Finding{Status: diag.StatusSkipped, Because: p.Absent, Evidence: r.Evidence}
	}
	switch {
	case len(warnings) == 0:
	case r.Status == diag.StatusPass:
		r.Finding, r.Also = warnings[0], warnings[1:]
	default: // a warning does not turn an unmeasured hop into a measured one
		r.Also = warnings
	}
}

// judge returns the hop's findings, as far as the doubts about their facts leave them, and the warnings that any hop
// may have.
func judge(h *hop.Hop, c *hop.Case) []diag.Finding {
	findings := h.Judge(c)
	if h.Check != nil { // a check shows what its rule says, and nothing of any party
		return findings
	}
	for i := range findings {
		world.Settle(h, c, &findings[i])
	}
	findings = append(append(findings, world.Uncovered(h, c, findings)...), world.AddressWarnings(h, c)...)
	findings = append(findings, world.GuessedPages(h, c, findings)...)
	findings = append(findings, world.CachedReads(h, c, findings)...)
	findings = append(findings, world.LossWarnings(h, c, findings)...)
	return append(append(findings, reading.NameServerWarnings(h, c)...), world.LoadWarnings(h, c)...)
}

// AssessStep returns the status of one step, and why.
func AssessStep(s *hop.Step, c *hop.Case, p *diag.PlannedHop, status hop.Statuses) diag.StepResult {
	r := diag.StepResult{Name: s.Name, Vantage: s.From}
	if f := c.JudgedFact(s); f != nil && p.Left[s.Name] == "" && !s.Pure() {
		return measured(r, s, c, f)
	}
	r.Status, r.Because = withoutFact(s, c, p, status)
	return r
}

// withoutFact returns the status of a step that has no fact, and why.
func withoutFact(s *hop.Step, c *hop.Case, p *diag.PlannedHop, status hop.Statuses) (diag.Status, string) {
	switch g := s.Gate(c, p, status); {
	case g.Verdict >= hop.Skip:
		return diag.StatusSkipped, g.Why
	case s.Pure():
		return diag.StatusPass, "judged from the available facts"
	case s.Policy.Turn == hop.AtEnd:
		return diag.StatusSkipped, "not needed in this walk"
	case g.Verdict == hop.Wait:
		return diag.StatusNotReached, g.Why
	}
	return diag.StatusInconclusive, "not measured: the walk ended by " + string(c.EndedBy)
}

// measured returns the status of a step whose fact is f.
func measured(r diag.StepResult, s *hop.Step, c *hop.Case, f *diag.Fact) diag.StepResult {
	why := ""
	if s.Uses != "" && s.When != nil {
		why = s.When(c).Why // another hop's fact may have failed before it reached what this step judges
	}
	r.Fact, r.DurationMS, r.Failure = f.ID, f.DurationMS, f.Failure
	switch {
	case s.From == hop.Platform && !hop.Conclusive(f):
		r.Status, r.Because = diag.StatusSkipped, "the platform's host was not reached: "+reading.Saw(f)
	case f.Failure == diag.Cancelled:
		r.Status, r.Because = diag.StatusInconclusive, "cut short: "+cutBy(c)
	case hop.Lost(f):
		r.Status, r.Because = diag.StatusInconclusive, "the SSH connection to the node broke: "+string(f.Failure)
	case s.Policy.Optional && (f.Empty() || !f.Passed()):
		r.Status, r.Because = diag.StatusSkipped, "no data: "+reading.Saw(f)
	case f.Empty():
		r.Status, r.Because = diag.StatusInconclusive, "its fact holds no measurement"
	case why != "":
		r = diag.StepResult{Name: r.Name, Vantage: r.Vantage, Status: diag.StatusNotReached, Because: why}
	case f.Passed(), s.Excused != nil && !f.Throttled() && !f.Failure.Local() && s.Excused(c, f):
		r.Status = diag.StatusPass
	default:
		r.Status = diag.StatusFail
	}
	return r
}

// cutBy returns what ended a cancelled request.
func cutBy(c *hop.Case) string {
	if c.EndedBy == diag.EndedCompleted {
		return "no answer within the hop's budget"
	}
	return string(c.EndedBy)
}

// unfailed returns the finding of a hop whose judge found no fault: a pass only if every planned step was measured.
func unfailed(h *hop.Hop, c *hop.Case, steps []diag.StepResult) diag.Finding {
	f := diag.Finding{Status: diag.StatusPass, Evidence: make([]string, 0, len(steps))}
	n := 0
	for _, s := range steps {
		if s.Fact != "" && s.Status != diag.StatusInconclusive && s.Status != diag.StatusSkipped {
			n++
			f.Evidence = append(f.Evidence, s.Fact)
		}
	}
	for _, st := range []diag.Status{diag.StatusInconclusive, diag.StatusNotReached} {
		i := slices.IndexFunc(steps, func(s diag.StepResult) bool { return s.Status == st })
		if i >= 0 {
			return diag.Finding{Status: st, Because: steps[i].Name + ": " + steps[i].Because, Evidence: f.Evidence}
		}
	}
	if n == 0 {
		why := "no step was planned"
		if len(steps) > 0 {
			why = steps[0].Because
		}
		return diag.Finding{Status: diag.StatusSkipped, Because: why}
	}
	if h.Pass != nil {
		f.Text = h.Pass(c)
	}
	return f
}

// span returns how long the hop's own steps took, in milliseconds. Overlapping steps count once; a wait for another
// hop, such as the login, does not count.
func span(h *hop.Hop, c *hop.Case) (took diag.Millis) {
	for at := int64(-1); ; { // end of the time that is counted so far
		from, until := int64(-1), int64(-1)
		for i := range h.Steps {
			f := c.JudgedFact(&h.Steps[i])
			if f == nil || h.Steps[i].Policy.Turn == hop.AtEnd || reading.EndedAt(f) <= at {
				continue
			}
			if began := max(at, f.OffsetMS); until < 0 || began < from {
				from, until = began, reading.EndedAt(f)
			}
		}
		if until < 0 {
			return took
		}
		took, at = max(1, took+diag.Millis(until-from)), until
	}
}
