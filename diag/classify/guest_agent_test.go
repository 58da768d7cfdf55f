package classify

import "github.com/gpuaas/gpuaasctl/diag"
import "testing"

// TestGuestAgentGone: walk and classifier agree on which provider statuses mean that the guest agent does not run.
func TestGuestAgentGone(t *testing.T) {
	for status, want := range map[string]bool{"down": true, "stopped": true, "unreachable": true, "running": false,
		"unknown": false, "": false} {
		c := Classify(Evidence{Node: &NodeEvidence{GuestAgent: status}})
		if got := c.Reason == diag.ReasonOpsAccessUnhealthy; got != want || GuestAgentGone(status) != want {
			t.Errorf("%q: reason %s", status, c.Reason)
		}
	}
}
