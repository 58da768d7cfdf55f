package preflight

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// This file handles changes of the platform's state during a walk: the state on which a verdict rests is read again
// before the verdict.

// stepAllocationAfter and stepNodeAfter read the allocation and the node again, after all other steps.
const (
	stepAllocationAfter = "allocation_after"
	stepNodeAfter       = "node_after"
)

// changing are the fields of an allocation that other hops depend on.
var changing = [...]string{"allocation.node_id", "allocation.os_user", "allocation.app_unit", "allocation.app_port",
	"allocation.app_endpoint", "allocation.app_product_url"}

// allocationAfter reads the allocation again if it is not active here, or if something that depends on it failed.
func allocationAfter(first Step) Step {
	first.Name, first.Optional, first.Second, first.Last = stepAllocationAfter, true, true, true
	first.Unless = func(c *Case) string {
		state := allocationField(c, "allocation.state")
		switch {
		case (state == allocationStates[0] || state == "") && otherNodeText(c, "") == "" && !allocationInDoubt(c):
			return "the allocation is active here, and nothing that rests on it failed"
		case !c.Fact(diag.HopAllocationBinding, stepAllocation).Passed():
			return "the allocation was not read"
		}
		return ""
	}
	return first
}

// allocationInDoubt reports whether a step that is about the allocation did not pass.
func allocationInDoubt(c *Case) bool {
	chain := c.chain.List()
	for i := range chain {
		for k := range chain[i].Steps {
			f := c.judgedFact(&chain[i].Steps[k])
			if chain[i].Allocation && f != nil && !f.Passed() {
				return true
			}
		}
	}
	return false
}

// allocationChanged describes how the allocation changed between its two readings; "" if it did not change, or was
// active in neither.
func allocationChanged(c *Case) string {
	id := diag.HopAllocationBinding
	then, now := c.Fact(id, stepAllocation), c.Fact(id, stepAllocationAfter)
	was := func(name string) string { return c.Field(id, stepAllocation, name) }
	is := func(name string) string { return c.Field(id, stepAllocationAfter, name) }
	active, state, first := allocationStates[0], is("allocation.state"), was("allocation.state")
	describe := func(a, b string) string {
		return fmt.Sprintf("allocation %s changed during this walk (%s, then %s): walk again", c.Subject.AllocationID,
			a, b)
	}
	switch {
	case now == nil || !then.Passed():
		return ""
	case status(now) == 404 && first == active:
		return describe(first, "unknown to the platform")
	case !now.Passed():
		return ""
	case first != "" && state != "" && (first == active) != (state == active):
		return describe(first, state)
	case first != active && first != "":
		return ""
	}
	for _, name := range changing {
		if a, b := was(name), is(name); !strings.EqualFold(a, b) {
			return describe(cmp.Or(a, "no")+" "+strings.TrimPrefix(name, "allocation."), cmp.Or(b, "none"))
		}
	}
	return ""
}

// nodeAfter reads the node again if the first reading shows a problem.
func nodeAfter(first Step) Step {
	first.Name, first.Optional, first.Second, first.Last = stepNodeAfter, true, true, true
	first.Unless = func(c *Case) string {
		word := func(name string) string { return c.Field(diag.HopNodeHeartbeat, stepReadModel, name) }
		reason, identity := word("node.recovery_reason"), word("node.identity")
		if (reason == "" || reason == string(diag.ReasonNone)) && (identity == "" || identity == "accepted") &&
			!resultsMissing(c) && !silentNode(c) {
			return "the platform has no complaint of the node"
		}
		return ""
	}
	first.Ask = func(e *Env, c *Case) diag.Request {
		req := askReadModel(e)
		if resultsMissing(c) {
			req.Poll = &diag.Poll{Field: "node.lost_results", Until: []string{"0"}, EveryMS: beatPollEvery.Milliseconds()}
		}
		return req
	}
	return first
}

// resultsMissing reports whether the platform lacked task results when the node was first read: they may still arrive.
func resultsMissing(c *Case) bool {
	n := count(c.Field(diag.HopNodeHeartbeat, stepReadModel, "node.lost_results"))
	return n != nil && *n > 0
}

// lostResults returns the number of task results that the platform still lacks; nil if the newest reading does not have
// it.
func lostResults(c *Case) *int {
	step := stepReadModel
	if after := c.Fact(diag.HopNodeHeartbeat, stepNodeAfter); resultsMissing(c) && after != nil {
		if !waitedFor(after) {
			return nil
		}
		step = stepNodeAfter
	}
	return count(c.Field(diag.HopNodeHeartbeat, step, "node.lost_results"))
}

// cameBack reports whether the platform had lost the agent when the walk began, and hears from it now: the agent was
// started, or its network repaired, during the walk.
func cameBack(c *Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if !c.Fact(diag.HopNodeHeartbeat, stepNodeAfter).Passed() || !contactFresh(c) {
		return false
	}
	seen, beat := ageOf(f, "node.last_seen_at"), ageOf(f, "node.last_heartbeat_at")
	return (seen.known || beat.known) && (!seen.known || seen.age > staleAfter(c)) &&
		(!beat.known || beat.age > staleAfter(c))
}

// walkAgain is undecided for a state that changed during the walk.
func walkAgain(f *diag.Fact, why string) diag.Finding {
	out := undecided(f, "%s", why)
	out.Lack = diag.LackTime
	return out
}

// changedUnder describes how the state that a failing finding rests on changed during the walk; "" if it did not.
func changedUnder(h *Hop, c *Case, f *diag.Finding) string {
	if f.Status != diag.StatusFail {
		return ""
	}
	if h.Allocation {
		if why := allocationChanged(c); why != "" {
			return why
		}
	}
	if f.Signal == diag.SigProcessDown && stoppedForAWhile(c) {
		return "the agent was not running when its unit was checked, but did a no-op in the same walk: walk again"
	}
	switch f.Signal {
	case diag.SigTaskClaimFailed, diag.SigProcessDown, diag.SigOpenWithoutStream, diag.SigNodeStreamTimeout:
		if cameBack(c) {
			return "the platform had no contact with the agent when this walk began, but has it again: walk again"
		}
	}
	return ""
}

// stoppedForAWhile reports whether the agent's unit was inactive although its no-op came back in the same walk. A unit
// in a crash loop is not inactive: its no-op may come back between two crashes.
func stoppedForAWhile(c *Case) bool {
	f := c.Fact(diag.HopNodeReadiness, stepProcess)
	return f != nil && f.Failure == diag.UnitInactive && answeredSince(c, f) != "" && f.Unit != nil &&
		f.Unit.Load != "masked"
}
