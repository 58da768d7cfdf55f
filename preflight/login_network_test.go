package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// TestOfTheLoginsNetwork: a failure in the login's own network namespace is not a failure of the machine, its workload
// or its path to the platform.
func TestOfTheLoginsNetwork(t *testing.T) {
	refused := func(f *diag.Fact) {
		failWith(diag.TCPRefused, "tcp")(f)
		f.AgentView = world.ViewLoginNetwork
	}
	for hop, fact := range map[diag.HopID]string{
		diag.HopAppRuntimeLiveness:       "app_runtime_liveness/port",
		diag.HopNodeRuntimeAPI:           "node_runtime_api_reachability/reach",
		diag.HopNodeTerminalReachability: "node_terminal_reachability/stream",
	} {
		r := walkWith(t, answers{fact: refused, fact + "~bare": refused,
			"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream})
		h := hopOf(r, hop)
		if h.Status != diag.StatusInconclusive || !strings.Contains(h.Because, "login runs in its own network namespace") {
			t.Errorf("%s: %s %s%s", hop, h.Status, h.Text, h.Because)
		}
		if b := r.Verdict.Blame; b != nil && b.Hop == hop {
			t.Errorf("%s is blamed: %s", hop, b.Text)
		}
	}
}
