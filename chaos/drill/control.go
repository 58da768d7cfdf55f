package drill

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// expect returns the drill's expectation, in which MustStayGreen has the hops that it is about in this environment.
func (s *Story) expect() chaos.Expect {
	e := s.Plan.Scenario.Expect
	e.MustStayGreen.Hops = s.staysGreen()
	return e
}

// staysGreen returns the hops that must stay green: those of the drill's list that this environment has; with was-green
// all that were green before anything was touched, but for those that are expected to fail.
func (s *Story) staysGreen() []diag.HopID {
	e := &s.Plan.Scenario.Expect
	hops := slices.Clone(e.MustStayGreen.Hops)
	if e.MustStayGreen.WasGreen {
		hops = s.wereGreen()
	}
	return slices.DeleteFunc(hops, func(h diag.HopID) bool {
		return s.Plan.Absent(h) || (e.MustStayGreen.WasGreen && e.Names(h))
	})
}

// wereGreen returns the hops that were green in the last walk before anything was touched.
func (s *Story) wereGreen() []diag.HopID {
	before := s.walks(Before)
	if len(before) == 0 {
		return nil
	}
	w := before[len(before)-1]
	return slices.DeleteFunc(w.HopIDs(), func(h diag.HopID) bool {
		return w.Hops[h] != diag.StatusPass && w.Hops[h] != diag.StatusWarn
	})
}

// uncontrolled reports whether the baseline has no hop that must stay green: a chain that blames whatever happens would
// pass such a drill.
func (s *Story) uncontrolled() bool {
	return s.Plan.Scenario.Expect.MustStayGreen.WasGreen && len(s.walks(Before)) > 0 && len(s.staysGreen()) == 0
}

// notReached returns the hops that must stay green and that a walk could not measure, since one that they need did not
// pass.
func (s *Story) notReached(w *WalkView) []diag.HopID {
	return slices.DeleteFunc(s.staysGreen(), func(h diag.HopID) bool { return w.Hops[h] != diag.StatusNotReached })
}

// notMeasuredText lists what must stay green and is not measured here, "" if there is nothing.
func (s *Story) notMeasuredText(w *WalkView) string {
	text := ""
	if hops := s.notReached(w); len(hops) > 0 {
		text = "; not measured during the fault: " + step.Join(hops, ", ")
	}
	if gone := s.Plan.NotMeasured; len(gone) > 0 {
		var hops []diag.HopID
		for _, a := range gone {
			hops = append(hops, a.Hop)
		}
		text += "; not measured here: " + step.Join(hops, ", ")
	}
	return text
}

// tenantless reports whether the environment has no hop that a tenant notices.
func (s *Story) tenantless() bool {
	return s.Plan.Scenario.Expect.MustStayGreen.WasGreen && len(s.Plan.NotMeasured) > 0 &&
		!slices.ContainsFunc(diag.HopIDs(), func(h diag.HopID) bool { return tenantNotices(h) && !s.Plan.Absent(h) })
}

// noIDs says that nobody in this environment writes the walk's id down, so that it was neither kept nor lost.
func (s *Story) noIDs(w *WalkView) string {
	if !s.Plan.Scenario.Expect.SameCorrelationID || len(s.Plan.NotMeasured) == 0 || len(w.Unlinked)+len(w.Evidence) > 0 ||
		len(w.tasks()) > 0 {
		return ""
	}
	return "; not measured here: the walk's id at task, agent and gateway"
}
