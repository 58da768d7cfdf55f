package hops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// allocationBinding: is the allocation active, and on this node?
func allocationBinding() hop.Hop {
	id := diag.HopAllocationBinding
	read := hop.Step{
		Name: hop.StepAllocation, From: hop.Operator, Token: true, Timeout: 4 * time.Second,
		Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathAllocation},
		Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
			return e.Request("GET", profile.PathAllocation, nil, "allocation.state", "allocation.occupancy",
				"allocation.node_id", "allocation.os_user", "allocation.workflow_id", "allocation.app_kind",
				"allocation.app_status", "allocation.app_unit", "allocation.app_port", "allocation.app_endpoint",
				"allocation.app_product_url", "allocation.app_last_observed_at",
				"allocation.app_last_runtime_probe_failed_at", "allocation.app_credential_healthy", hop.FieldWebsocket)
		},
	}
	return hop.Hop{
		ID: id, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess},
		Fields:      []string{"allocation.state", "allocation.node_id"},
		ReadModel:   true, Clears: diag.AboutAllocation,
		OfNode: func(c *hop.Case) bool { return world.SameNode(c, world.AllocationField(c, "allocation.node_id")) },
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for the allocation"},
		Steps: []hop.Step{read, world.AllocationAfter(read)},
		Judge: judgeAllocation,
		Pass: func(c *hop.Case) string {
			return fmt.Sprintf("%s is active on %s", c.Subject.AllocationID, c.Field(id, hop.StepAllocation,
				"allocation.node_id"))
		},
	}
}

func judgeAllocation(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopAllocationBinding, hop.StepAllocation)
	if f == nil {
		return nil
	}
	state, node := world.AllocationField(c, "allocation.state"), world.AllocationField(c, "allocation.node_id")
	switch {
	case reading.NotKnown(f):
		out := reading.Undecided(f, "the platform at %s knows no allocation %s (HTTP 404)", reading.Where(f),
			c.Subject.AllocationID)
		if !world.NodeUnknown(c) { // else the finding about the unknown node matters more
			out.Signal = diag.SigAllocationUnknown
		}
		return []diag.Finding{out}
	case !f.Passed():
		return []diag.Finding{reading.Undecided(f, "the allocation could not be read: %s%s", reading.Saw(f), world.Signer(f))}
	case state == "" && !reading.Unasked(f, "allocation.state"):
		return []diag.Finding{reading.Unmapped(f, "the answer has no state")}
	case !slices.Contains(world.AllocationStates[:], state) && state != "":
		return []diag.Finding{reading.UnknownWord(f, "the allocation's state", state, world.AllocationStates[:])}
	case world.AllocationChanged(c) != "":
		return []diag.Finding{world.WalkAgain(f, world.AllocationChanged(c))}
	case state != "" && state != world.AllocationStates[0]:
		return []diag.Finding{reading.Fail(diag.SigAllocationNotActive, f, "allocation %s is %s, not active",
			c.Subject.AllocationID, state)}
	case node == "" && !reading.Unasked(f, "allocation.node_id"):
		return []diag.Finding{reading.Unmapped(f, "the answer names no node (allocation.node_id)")}
	case node != "" && c.Subject.NodeID != "" && !strings.EqualFold(node, c.Subject.NodeID) && world.NodeUnknown(c):
		return []diag.Finding{reading.Undecided(f, "allocation %s is on %s, and the platform knows no node %s",
			c.Subject.AllocationID, node, c.Subject.NodeID)}
	case world.OtherNodeText(c, "") != "" && world.SameNode(c, node): // known too late for this walk
		return []diag.Finding{reading.Undecided(f,
			"allocation %s is on %s, which is another name of %s by the platform's read model: "+
				"walk again with --node-id %s", c.Subject.AllocationID, node, c.Subject.NodeID, node)}
	case node != "" && c.Subject.NodeID != "" && !world.SameNode(c, node):
		return []diag.Finding{reading.Fail(diag.SigAllocationNodeMismatch, f, "allocation %s is on %s, not on %s",
			c.Subject.AllocationID, node, c.Subject.NodeID)}
	}
	return nil
}
