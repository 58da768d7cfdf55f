package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestRepeatsAskOnlyWhatDoesNothing breaks every request of a healthy walk in two ways. Only requests without an effect
// are repeated: no POST, no poll, no session, no login, and no task wait that could claim a task.
func TestRepeatsAskOnlyWhatDoesNothing(t *testing.T) {
	repeats := 0
	for _, broke := range walkWith(t, nil).Facts {
		for _, b := range breaks {
			if b.name != "503" && b.name != "http timeout" {
				continue
			}
			for _, f := range walkWith(t, answers{broke.ID: b.do}).Facts {
				if _, _, n := hop.SplitID(f.ID); n == 0 {
					continue
				}
				repeats++
				req := f.Request
				acts := (req.Method != "" && req.Method != "GET") || req.Poll != nil || req.Op == diag.OpSession ||
					req.Op == diag.OpSSH
				claims := strings.Contains(req.Target, "/tasks/wait") && !strings.Contains(req.Target, "peek=1")
				if acts || claims {
					t.Errorf("%s %s: %s was sent again: %s %s", broke.ID, b.name, f.ID, req.Method, req.Target)
				}
			}
		}
	}
	if repeats < 50 {
		t.Errorf("only %d requests were sent again: the test shows nothing", repeats)
	}
}
