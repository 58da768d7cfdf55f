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
		Name: hop.StepAllocation, From: hop.Operator, Timeout: 4 * time.Second,
		Needs: hop.Needs{
			Hops: []diag.HopID{diag.HopControlPlaneAccess}, Token: true, Paths: []string{profile.PathAllocation},
		},
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
		Causes: hop.Causes{ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess}},
		About: hop.About{Clears: diag.AboutAllocation,
			OfNode: func(c *hop.Case) bool { return world.SameNode(c, world.AllocationField(c, "allocation.node_id")) }},
		Role: hop.Role{ReadModel: true}, Fields: []string{"allocation.state", "allocation.node_id"},
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for the allocation"},
		Steps: []hop.Step{read, world.AllocationAfter(read)}, Judge: judgeAllocation,
		Pass: func(c *hop.Case) string {
			return fmt.Sprintf("%s is active on %s", c.Subject.AllocationID, c.Field(id, hop.StepAllocation,
				"allocation.node_id"))
		},
	}
}

func judgeAllocation(c *hop.Case) []diag.Finding {
	return list(allocationRows.judge(judged{c: c, f: c.Fact(diag.HopAllocationBinding, hop.StepAllocation),
		word: world.AllocationField(c, "allocation.state")}))
}

// allocationRows are about the platform's answer; the word is the allocation's state.
var allocationRows = rows{
	// the finding about an unknown node matters more
	{when: func(j judged) bool { return reading.NotKnown(j.f) && world.NodeUnknown(j.c) }, then: noSuchAllocation},
	{when: func(j judged) bool { return reading.NotKnown(j.f) },
		then: noSuchAllocation, signal: diag.SigAllocationUnknown},
	{when: func(j judged) bool { return !j.f.Passed() },
		then: undecided("the allocation could not be read: %s%s", saw, signer)},
	{when: func(j judged) bool { return j.word == "" && !reading.Unasked(j.f, "allocation.state") },
		then: unmapped("the answer has no state")},
	{when: func(j judged) bool { return j.word != "" && !slices.Contains(world.AllocationStates[:], j.word) },
		then: func(j judged) diag.Finding {
			return reading.UnknownWord(j.f, "the allocation's state", j.word, world.AllocationStates[:])
		}},
	{when: func(j judged) bool { return world.AllocationChanged(j.c) != "" },
		then: func(j judged) diag.Finding { return world.WalkAgain(j.f, world.AllocationChanged(j.c)) }},
	{when: func(j judged) bool { return j.word != "" && j.word != world.AllocationStates[0] },
		then: fails(diag.SigAllocationNotActive, "allocation %s is %s, not active", allocationID, theWord)},

	// It is active: on this node?
	{when: func(j judged) bool { return allocatedOn(j) == "" && !reading.Unasked(j.f, "allocation.node_id") },
		then: unmapped("the answer names no node (allocation.node_id)")},
	{
		when: func(j judged) bool {
			return allocatedOn(j) != "" && nodeID(j) != "" && !strings.EqualFold(allocatedOn(j), nodeID(j)) &&
				world.NodeUnknown(j.c)
		},
		then: undecided("allocation %s is on %s, and the platform knows no node %s", allocationID, allocatedOn, nodeID),
	},
	// known too late for this walk
	{when: func(j judged) bool { return world.OtherNodeText(j.c, "") != "" && world.SameNode(j.c, allocatedOn(j)) },
		then: undecided("allocation %s is on %s, which is another name of %s by the platform's read model: walk again with "+
			"--node-id %s", allocationID, allocatedOn, nodeID, allocatedOn)},
	{
		when: func(j judged) bool {
			return allocatedOn(j) != "" && nodeID(j) != "" && !world.SameNode(j.c, allocatedOn(j))
		},
		then: fails(diag.SigAllocationNodeMismatch, "allocation %s is on %s, not on %s", allocationID, allocatedOn,
			nodeID),
	},
}

var noSuchAllocation = undecided("the platform at %s knows no allocation %s (HTTP 404)", where, allocationID)

func allocatedOn(j judged) string { return world.AllocationField(j.c, "allocation.node_id") }
