package drill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Judge compares a walk with the expectation, of which Hops has all that must stay green. It returns a verdict and what
// is missing, or Pass.
func Judge(e chaos.Expect, s WalkView) (Word, string) {
	blame := s.Blame
	if blame == nil { // a hop that does not fail may be what is expected
		blame = s.unfailed(e.Blame.Finding)
	}
	switch {
	case e.Blame.None && s.Blame != nil:
		return WrongHop, fmt.Sprintf("blames %s, and nothing should be", s.VerdictLine())
	case e.Blame.None && !s.Green():
		return NotDetected, "is no pass: " + s.VerdictLine()
	case !e.Blame.None && blame == nil:
		return NotDetected, fmt.Sprintf("blames nothing (%s), want %s", s.VerdictLine(), e.Blame)
	case !e.Blame.None && !fits(e.Blame.Finding, *blame):
		return WrongHop, fmt.Sprintf("blames %s, want %s", s.VerdictLine(), e.Blame)
	}
	found := slices.Clone(s.Others)
	if s.Blame != nil {
		found = append(found, *s.Blame)
	}
	for _, o := range e.Others {
		if !slices.ContainsFunc(found, func(b diag.Blame) bool { return fits(o, b) }) {
			return NotDetected, fmt.Sprintf("does not find %s as well", o)
		}
	}
	if len(e.FirstFailedHop) > 0 && !slices.Contains(e.FirstFailedHop, s.FirstFailed) {
		return WrongHop, fmt.Sprintf("says that %s failed first, want %s", s.FirstFailed, step.Join(e.FirstFailedHop, " or "))
	}
	if len(e.Reason) > 0 && !slices.Contains(e.Reason, s.Reason) {
		return NotDetected, fmt.Sprintf("gives the reason %s, want %s", s.Reason, step.Join(e.Reason, " or "))
	}
	if len(s.Unnamed) > 0 {
		return NotDetected, fmt.Sprintf("finds that %s failed, and the platform's read model does not say so",
			step.Join(s.Unnamed, " and "))
	}
	for _, h := range e.MustStayGreen.Hops { // a hop that was left out of the walk is judged by the claim spared
		if st := s.Hops[h]; !spares(st) && !(e.MustStayGreen.WasGreen && st == diag.StatusNotReached) {
			return Collateral, fmt.Sprintf("%s is %s, and must stay green", h, st)
		}
	}
	if e.SameCorrelationID && len(s.Unlinked) > 0 {
		return Collateral, fmt.Sprintf("of %s nothing is written down under the walk's id %s", strings.Join(s.Unlinked, ", "),
			s.CorrelationID)
	}
	return Pass, ""
}

// spares reports whether a hop of that status is not affected by the fault, or was not measured on request.
func spares(st diag.Status) bool {
	return st == diag.StatusPass || st == diag.StatusWarn || st == diag.StatusSkipped
}

func fits(f chaos.Finding, b diag.Blame) bool {
	return f.Status == b.Status && f.Matches(b.Hop, b.Signal, b.Failure)
}

// calm is the number of consecutive walks that must find nothing if nothing may be found: one may be luck.
const calm = 2

// detected returns the first walk that reported everything expected; nil if none did. If nothing may be blamed, it
// is the second of two consecutive walks that began after the independent probes saw the fault.
func (s *Story) detected() *WalkView {
	e, row := s.expect(), 0
	for _, w := range s.walks(During) {
		word, _ := Judge(e, w)
		if seen := s.LastProbe(During, ProbeInjected); e.Blame.None && (seen == nil || !seen.Held || w.BeganMS < seen.MS) {
			continue
		}
		if word != Pass {
			row = 0
			continue
		}
		if row++; !e.Blame.None || row == calm {
			return &w
		}
	}
	return nil
}

// red returns the first hop that must stay green but failed in a walk during the fault.
func (s *Story) red() (diag.HopID, WalkView) {
	for _, w := range s.walks(During) {
		for _, h := range s.staysGreen() {
			if w.Hops[h] == diag.StatusFail {
				return h, w
			}
		}
	}
	return "", WalkView{}
}

// recoveredIn reports whether a walk is green and does not show the drill's expected finding, not even as a
// warning.
func (s *Story) recoveredIn(w WalkView) bool {
	return w.Green() && w.unfailed(s.Plan.Scenario.Expect.Blame.Finding) == nil
}

// green returns the walk at which the chain became green, and whether it stayed so for the required number of
// walks.
func (s *Story) green() (first *WalkView, enough bool) {
	row := 0
	for _, w := range s.walks(After) {
		if !s.recoveredIn(w) {
			first, row = nil, 0
			continue
		}
		if row++; row == 1 {
			first = &w
		}
	}
	return first, row > 0 && row >= s.Plan.Scenario.Recovery.Green
}
