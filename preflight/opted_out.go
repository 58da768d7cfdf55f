package preflight

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// leftOutExplainer returns a hop that may explain the root, or tell its cause, and that --only or --skip left out; ""
// if there is none.
func leftOutExplainer(c *Case, r *root) diag.HopID {
	for i := range c.Plan.Hops {
		h := &c.Plan.Hops[i]
		if optedOut(h) && (slices.Contains(c.hop(r.hop.ID).Reads, h.ID) ||
			(!r.finding.Direct && slices.Contains(c.hop(r.hop.ID).closure, h.ID))) {
			return h.ID
		}
	}
	return ""
}
