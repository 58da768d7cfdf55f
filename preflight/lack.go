package preflight

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// lackOf is what the walk lacked: for its end if that cut it short, else for the first hop that decided nothing.
func lackOf(hops []diag.HopResult, c *Case) diag.Lack {
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

// lackAt is what one inconclusive hop lacked.
func lackAt(h *diag.HopResult, c *Case) diag.Lack {
	var f *diag.Fact
	for _, s := range h.Steps {
		if s.Status == diag.StatusFail || s.Status == diag.StatusInconclusive {
			f = c.facts[s.Fact]
			break
		}
	}
	switch {
	case strings.Contains(h.Because, "mapping.fields"):
		return diag.LackMapping
	case f == nil:
		return diag.LackAnswer
	case inTransition(f):
		return diag.LackTime
	case f.Failure == diag.HTTPEdgeAuth:
		return diag.LackLogin
	case f.Throttled():
		return diag.LackLimit
	case f.Vantage == Operator && status(f) == 404:
		return diag.LackSubject
	case notAllowed(f), f.Vantage == Operator && (status(f) == 401 || status(f) == 403):
		return diag.LackRights
	case f.Vantage == Node && noAnswer(f, c.EndedBy):
		return diag.LackNode
	case f.Failure == diag.Cancelled:
		return diag.LackTime
	}
	return diag.LackAnswer
}
