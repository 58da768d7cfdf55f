package render

import (
	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// claimOf returns a claim by its id; a claim that the report lacks was not seen.
func claimOf(d *drill.Drill, id string) drill.Claim {
	for _, c := range d.Claims {
		if c.ID == id {
			return c
		}
	}
	return drill.Claim{ID: id, State: drill.NotSeen}
}

// timingOf returns when a claim came true, if that was measured.
func timingOf(d *drill.Drill, id string) (drill.Timing, bool) {
	switch id {
	case drill.ClaimInjected:
		return d.Inject, true
	case drill.ClaimDetected, drill.ClaimInTime:
		return d.Detect, true
	case drill.ClaimGreenAfter:
		return d.Recover, true
	}
	return drill.Timing{}, false
}
