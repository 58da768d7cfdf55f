package render

import (
	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// The claims that have a column of their own; a test says that every drill makes them.
const (
	claimInjected = "injected"
	claimDetected = "detected"
	claimInTime   = "in_time"
	claimReverted = "reverted"
	claimGreen    = "green_after"
	claimClean    = "clean"
)

// claimOf is a claim by its id; one that the report lacks was not seen.
func claimOf(d *drill.Drill, id string) drill.Claim {
	for _, c := range d.Claims {
		if c.ID == id {
			return c
		}
	}
	return drill.Claim{ID: id, State: drill.NotSeen}
}

// timingOf is when a claim came true, where that is measured.
func timingOf(d *drill.Drill, id string) (drill.Timing, bool) {
	switch id {
	case claimInjected:
		return d.Inject, true
	case claimDetected, claimInTime:
		return d.Detect, true
	case claimGreen:
		return d.Recover, true
	}
	return drill.Timing{}, false
}
