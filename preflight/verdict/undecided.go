package verdict

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// fillUndecided fills in the cause, owner and steps of an inconclusive walk without a blame: from the first
// inconclusive finding in chain order that has a signal, else from what the walk lacked.
func fillUndecided(v *diag.Verdict, hops []diag.HopResult, c *hop.Case) {
	for _, h := range hops {
		row, ok := diag.LookupSignal(h.Signal)
		if h.Status != diag.StatusInconclusive || !ok {
			continue
		}
		r := root{hop: h, finding: h.Finding}
		v.Because, v.Owner, v.Owners, v.Layer = h.Because, row.Owners.String(), row.Owners, h.Layer
		fillFromTables(v, r, situation(hops, r, nil, c), c)
		return
	}
	adviseOn(v, lackOf(hops, c), c)
}

// adviseOn fills in who can supply what the walk lacked, and how.
func adviseOn(v *diag.Verdict, lack diag.Lack, c *hop.Case) {
	row, ok := diag.LookupLack(lack)
	if !ok {
		return
	}
	v.Owner, v.Owners = row.Owners.String(), row.Owners
	for i := range row.Recovery {
		v.Advise(&row.Recovery[i], Placeholders(c))
	}
}

// lackOf returns what the walk lacked: time if it was cut short, else what its first inconclusive hop lacked.
func lackOf(hops []diag.HopResult, c *hop.Case) diag.Lack {
	if c.EndedBy != diag.EndedCompleted {
		return diag.LackTime
	}
	for i := range hops {
		if h := &hops[i]; h.Status == diag.StatusInconclusive {
			return lackAt(h, c)
		}
	}
	return diag.LackPlan
}

// lackAt returns what one inconclusive hop lacked.
func lackAt(h *diag.HopResult, c *hop.Case) diag.Lack {
	if h.Lack != "" {
		return h.Lack
	}
	for _, s := range h.Steps {
		if s.Status == diag.StatusFail || s.Status == diag.StatusInconclusive {
			return lackOfFact(c.FactByID(s.Fact), c)
		}
	}
	return diag.LackAnswer
}

// lackOfFact returns what the fact of an undecided step lacked.
func lackOfFact(f *diag.Fact, c *hop.Case) diag.Lack {
	if f != nil {
		for _, row := range lacks {
			if row.of(f, c) {
				return row.lack
			}
		}
	}
	return diag.LackAnswer
}

// lacks are what a fact that decides nothing may lack, in the order in which it is asked.
var lacks = [...]struct {
	lack diag.Lack
	of   func(f *diag.Fact, c *hop.Case) bool
}{
	{diag.LackTime, func(f *diag.Fact, _ *hop.Case) bool { return world.InTransition(f) }},
	{diag.LackLogin, func(f *diag.Fact, _ *hop.Case) bool { return f.Failure == diag.HTTPEdgeAuth }},
	{diag.LackLimit, func(f *diag.Fact, _ *hop.Case) bool { return f.Throttled() }},
	{diag.LackPlatform, func(f *diag.Fact, _ *hop.Case) bool {
		return reading.ForeignPage(f) || f.Failure == diag.HTTPMalformed || world.Unrouted(f)
	}},
	{diag.LackSubject, func(f *diag.Fact, _ *hop.Case) bool { return f.Vantage == hop.Operator && reading.NotKnown(f) }},
	{diag.LackRights, func(f *diag.Fact, _ *hop.Case) bool { return reading.NotAllowed(f) }},
	{diag.LackRights, func(f *diag.Fact, c *hop.Case) bool {
		return f.Vantage == hop.Operator && (reading.Status(f) == 401 || reading.Status(f) == 403) && !world.PassedOnce(c, f)
	}},
	{diag.LackNode, func(f *diag.Fact, c *hop.Case) bool {
		return f.Vantage == hop.Node && !f.Request.Op.Row().Ladder && reading.NoAnswer(f, c.EndedBy)
	}},
	{diag.LackTime, func(f *diag.Fact, _ *hop.Case) bool { return f.Failure == diag.Cancelled }},
	{diag.LackPlatform, func(f *diag.Fact, _ *hop.Case) bool {
		return reading.Status(f)/100 == 4 && !reading.PlatformSpeaks(f)
	}},
	{diag.LackRefusal, func(f *diag.Fact, _ *hop.Case) bool { return reading.Status(f) >= 400 }},
}
