package drill

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// component is a component that handles a walk and logs its correlation id.
type component struct {
	name    string
	handled func(f diag.Fact) bool // reports whether a measurement of the walk shows that it handled the walk
	logged  func(l diag.EvidenceLine) bool
}

// components lists the components whose evidence the platform stores. The agent's evidence arrives with the task's
// result; its own record is compared separately, see estranged.
func components() []component {
	kinds := func(words ...string) func(diag.EvidenceLine) bool {
		return func(l diag.EvidenceLine) bool { return slices.Contains(words, l.Kind) }
	}
	return []component{
		{"task", func(f diag.Fact) bool {
			return f.Passed() && f.HTTP != nil && f.HTTP.Fields["task.id"] != "" && f.Request.Method == "POST"
		}, kinds("task.queued")},
		{"agent", func(f diag.Fact) bool {
			return f.Passed() && f.HTTP != nil && strings.EqualFold(f.HTTP.Fields["task.status"], "completed")
		}, kinds("task.completed")},
		{"gateway", func(f diag.Fact) bool {
			return f.Request.Op == diag.OpSession && f.WS != nil && f.WS.Upgraded
		}, kinds("terminal.browser_connected")},
	}
}
