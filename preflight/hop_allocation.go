package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// allocationBinding: is the allocation active, and on this node?
func allocationBinding() Hop {
	id := diag.HopAllocationBinding
	read := Step{
		Name: stepAllocation, From: Operator, Token: true, Timeout: 4 * time.Second,
		Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathAllocation},
		Ask: func(e *Env, _ *Case) diag.Request {
			return e.api("GET", profile.PathAllocation, nil, "allocation.state", "allocation.occupancy",
				"allocation.node_id", "allocation.os_user", "allocation.workflow_id", "allocation.app_kind",
				"allocation.app_status", "allocation.app_unit", "allocation.app_port", "allocation.app_endpoint",
				"allocation.app_product_url", "allocation.app_last_observed_at",
				"allocation.app_last_runtime_probe_failed_at", "allocation.app_credential_healthy", fieldWebsocket)
		},
	}
	return Hop{
		ID: id, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess},
		Fields:      []string{"allocation.state", "allocation.node_id"},
		ReadModel:   true, Clears: diag.AboutAllocation,
		OfNode: func(c *Case) bool { return sameNode(c, allocationField(c, "allocation.node_id")) },
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request for the allocation"},
		Steps: []Step{read, allocationAfter(read)},
		Judge: judgeAllocation,
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s is active on %s", c.Subject.AllocationID, c.Field(id, stepAllocation, "allocation.node_id"))
		},
	}
}

func judgeAllocation(c *Case) []diag.Finding {
	f := c.Fact(diag.HopAllocationBinding, stepAllocation)
	if f == nil {
		return nil
	}
	state, node := allocationField(c, "allocation.state"), allocationField(c, "allocation.node_id")
	switch {
	case notKnown(f):
		out := undecided(f, "the platform at %s knows no allocation %s (HTTP 404)", where(f), c.Subject.AllocationID)
		if !nodeUnknown(c) { // else the finding about the unknown node matters more
			out.Signal = diag.SigAllocationUnknown
		}
		return []diag.Finding{out}
	case !f.Passed():
		return []diag.Finding{undecided(f, "the allocation could not be read: %s%s", saw(f), signer(f))}
	case state == "" && !unasked(f, "allocation.state"):
		return []diag.Finding{unmapped(f, "the answer has no state")}
	case !slices.Contains(allocationStates[:], state) && state != "":
		return []diag.Finding{unknownWord(f, "the allocation's state", state, allocationStates[:])}
	case allocationChanged(c) != "":
		return []diag.Finding{walkAgain(f, allocationChanged(c))}
	case state != "" && state != allocationStates[0]:
		return []diag.Finding{fail(diag.SigAllocationNotActive, f, "allocation %s is %s, not active",
			c.Subject.AllocationID, state)}
	case node == "" && !unasked(f, "allocation.node_id"):
		return []diag.Finding{unmapped(f, "the answer names no node (allocation.node_id)")}
	case node != "" && c.Subject.NodeID != "" && !strings.EqualFold(node, c.Subject.NodeID) && nodeUnknown(c):
		return []diag.Finding{undecided(f, "allocation %s is on %s, and the platform knows no node %s",
			c.Subject.AllocationID, node, c.Subject.NodeID)}
	case otherNodeText(c, "") != "" && sameNode(c, node): // known too late for this walk
		return []diag.Finding{undecided(f,
			"allocation %s is on %s, which is another name of %s by the platform's read model: "+
				"walk again with --node-id %s", c.Subject.AllocationID, node, c.Subject.NodeID, node)}
	case node != "" && c.Subject.NodeID != "" && !sameNode(c, node):
		return []diag.Finding{fail(diag.SigAllocationNodeMismatch, f, "allocation %s is on %s, not on %s",
			c.Subject.AllocationID, node, c.Subject.NodeID)}
	}
	return nil
}
