package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const stepAllocation = "allocation"

// allocationBinding: is the allocation active, and on this node?
func allocationBinding() Hop {
	id := diag.HopAllocationBinding
	return Hop{
		ID: id, Title: "allocation is active on this node", Layer: diag.LayerManagement, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess},
		Fields:      []string{"allocation.state", "allocation.node_id"},
		Steps: []Step{{
			Name: stepAllocation, From: Operator, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopControlPlaneAccess},
			Paths: []string{profile.PathAllocation},
			Ask: func(e *Env, _ *Case) diag.Request {
				return e.api("GET", profile.PathAllocation, nil, "allocation.state", "allocation.occupancy",
					"allocation.node_id", "allocation.os_user", "allocation.workflow_id", "allocation.app_kind",
					"allocation.app_status", "allocation.app_unit", "allocation.app_port", "allocation.app_endpoint",
					"allocation.app_product_url", "allocation.app_last_observed_at",
					"allocation.app_last_runtime_probe_failed_at", "allocation.app_credential_healthy")
			},
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepAllocation)
			if f == nil {
				return nil
			}
			state, node := c.Field(id, stepAllocation, "allocation.state"), c.Field(id, stepAllocation, "allocation.node_id")
			switch {
			case status(f) == 404:
				return []diag.Finding{fail(diag.SigAllocationNotActive, f, "the platform knows no allocation %s", c.Subject.AllocationID)}
			case !f.Passed():
				return []diag.Finding{undecided(f, "the allocation could not be read: %s", saw(f))}
			case state == "" && !unasked(f, "allocation.state"):
				return []diag.Finding{undecided(f, "the answer has no state (see mapping.fields in the profile)")}
			case state != "" && state != "active":
				return []diag.Finding{fail(diag.SigAllocationNotActive, f, "allocation %s is %s, not active", c.Subject.AllocationID, state)}
			case node == "" && !unasked(f, "allocation.node_id"):
				return []diag.Finding{undecided(f, "the answer names no node (allocation.node_id, see mapping.fields in the profile)")}
			case node != "" && c.Subject.NodeID != "" && node != c.Subject.NodeID:
				return []diag.Finding{fail(diag.SigAllocationNodeMismatch, f, "allocation %s is on %s, not on %s", c.Subject.AllocationID, node, c.Subject.NodeID)}
			}
			return nil
		},
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s is active on %s", c.Subject.AllocationID, c.Field(id, stepAllocation, "allocation.node_id"))
		},
	}
}
