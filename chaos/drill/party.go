package drill

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// party is a component that handles a walk and logs its correlation id.
type party struct {
	name  string
	dealt func(r *diag.Report) bool // judged by the walk's own measurements
	wrote func(l diag.EvidenceLine) bool
}

// parties lists the components whose evidence the platform stores. The agent's evidence arrives with the task's
// result; its own record is compared separately, see estranged.
func parties() []party {
	kinds := func(words ...string) func(diag.EvidenceLine) bool {
		return func(l diag.EvidenceLine) bool { return slices.Contains(words, l.Kind) }
	}
	return []party{
		{"task", func(r *diag.Report) bool { return enqueued(r) }, kinds("task.queued")},
		{"agent", func(r *diag.Report) bool { return passed(r, diag.HopNodeTaskRoundtrip) }, kinds("task.completed")},
		{"gateway", func(r *diag.Report) bool { return upgraded(r) }, kinds("terminal.browser_connected")},
	}
}

func passed(r *diag.Report, id diag.HopID) bool {
	return slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool { return h.ID == id && h.Status == diag.StatusPass })
}

// enqueued reports whether the platform accepted the walk's task.
func enqueued(r *diag.Report) bool {
	return slices.ContainsFunc(r.Facts, func(f diag.Fact) bool {
		return f.Passed() && f.HTTP != nil && f.HTTP.Fields["task.id"] != "" && f.Request.Method == "POST"
	})
}

// upgraded reports whether the gateway accepted the walk's terminal.
func upgraded(r *diag.Report) bool {
	return slices.ContainsFunc(r.Facts, func(f diag.Fact) bool {
		return f.Request.Op == diag.OpSession && f.WS != nil && f.WS.Upgraded
	})
}
