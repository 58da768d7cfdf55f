package verdict

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// leftOutExplainer returns a hop that may explain the root, or tell its cause, and that --only or --skip left out; ""
// if there is none.
func leftOutExplainer(c *hop.Case, r *root) diag.HopID {
	for i := range c.Plan.Hops {
		h := &c.Plan.Hops[i]
		if hop.OptedOut(h) && (slices.Contains(c.Hop(r.hop.ID).Reads, h.ID) ||
			(!r.finding.Direct && slices.Contains(c.Hop(r.hop.ID).Closure, h.ID))) {
			return h.ID
		}
	}
	return ""
}
