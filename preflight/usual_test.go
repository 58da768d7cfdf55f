package preflight

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// usualHops are the hops of every walk: the optional ones are in those whose profile asks for them.
func usualHops() []diag.HopID {
	return slices.DeleteFunc(diag.HopIDs(), func(id diag.HopID) bool {
		row, _ := diag.LookupHop(id)
		return row.Optional
	})
}
