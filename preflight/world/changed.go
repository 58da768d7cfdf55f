package world

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// This file handles changes of the platform's state during a walk: the state on which a verdict rests is read again
// before the verdict.

// stepAllocationAfter reads the allocation again, after all other steps.
const stepAllocationAfter = "allocation_after"

// changing are the fields of an allocation that other hops depend on.
var changing = [...]string{"allocation.node_id", "allocation.os_user", "allocation.app_unit", "allocation.app_port",
	"allocation.app_endpoint", "allocation.app_product_url"}

// AllocationAfter reads the allocation again if it is not active here, or if something that depends on it failed.
func AllocationAfter(first hop.Step) hop.Step {
	first.Name, first.Policy = stepAllocationAfter, hop.Policy{Turn: hop.AtEnd, Optional: true}
	first.When = hop.SkipIf(func(c *hop.Case) string {
		state := AllocationField(c, "allocation.state")
		switch {
		case (state == AllocationStates[0] || state == "") && OtherNodeText(c, "") == "" && !allocationInDoubt(c):
			return "the allocation is active here, and nothing that rests on it failed"
		case !c.Fact(diag.HopAllocationBinding, hop.StepAllocation).Passed():
			return "the allocation was not read"
		}
		return ""
	})
	return first
}

// allocationInDoubt reports whether a step that is about the allocation did not pass.
func allocationInDoubt(c *hop.Case) bool {
	chain := c.Chain.List()
	for i := range chain {
		for k := range chain[i].Steps {
			f := c.JudgedFact(&chain[i].Steps[k])
			if chain[i].Allocation && f != nil && !f.Passed() {
				return true
			}
		}
	}
	return false
}

// AllocationChanged describes how the allocation changed between its two readings; "" if it did not change, or was
// active in neither.
func AllocationChanged(c *hop.Case) string {
	id := diag.HopAllocationBinding
	then, now := c.Fact(id, hop.StepAllocation), c.Fact(id, stepAllocationAfter)
	was := func(name string) string { return c.Field(id, hop.StepAllocation, name) }
	is := func(name string) string { return c.Field(id, stepAllocationAfter, name) }
	active, state, first := AllocationStates[0], is("allocation.state"), was("allocation.state")
	describe := func(a, b string) string {
		return fmt.Sprintf("allocation %s changed during this walk (%s, then %s): walk again", c.Subject.AllocationID, a, b)
	}
	switch {
	case now == nil || !then.Passed():
		return ""
	case reading.Status(now) == 404 && first == active:
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

// NodeAfter reads the node again if the first reading shows a problem.
func NodeAfter(first hop.Step) hop.Step {
	first.Name, first.Policy = stepNodeAfter, hop.Policy{Turn: hop.AtEnd, Optional: true}
	first.When = hop.SkipIf(func(c *hop.Case) string {
		word := func(name string) string { return c.Field(diag.HopNodeHeartbeat, hop.StepReadModel, name) }
		reason, identity := word("node.recovery_reason"), word("node.identity")
		if (reason == "" || reason == string(diag.ReasonNone)) && (identity == "" || identity == "accepted") &&
			!resultsMissing(c) && !SilentNode(c) {
			return "the platform has no complaint of the node"
		}
		return ""
	})
	first.Ask = func(e *hop.Env, c *hop.Case) diag.Request {
		req := AskReadModel(e)
		if resultsMissing(c) {
			req.Poll = &diag.Poll{Field: "node.lost_results", Until: []string{"0"}, EveryMS: BeatPollEvery.Milliseconds()}
		}
		return req
	}
	return first
}

// resultsMissing reports whether the platform lacked task results when the node was first read: they may still arrive.
func resultsMissing(c *hop.Case) bool {
	n := reading.Count(c.Field(diag.HopNodeHeartbeat, hop.StepReadModel, "node.lost_results"))
	return n != nil && *n > 0
}

// lostResults returns the number of task results that the platform still lacks; nil if the newest reading does not have
// it.
func lostResults(c *hop.Case) *int {
	step := hop.StepReadModel
	if after := c.Fact(diag.HopNodeHeartbeat, stepNodeAfter); resultsMissing(c) && after != nil {
		if !WaitedFor(after) {
			return nil
		}
		step = stepNodeAfter
	}
	return reading.Count(c.Field(diag.HopNodeHeartbeat, step, "node.lost_results"))
}

// cameBack reports whether the platform had lost the agent when the walk began, and hears from it now: the agent was
// started, or its network repaired, during the walk.
func cameBack(c *hop.Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
	if !c.Fact(diag.HopNodeHeartbeat, stepNodeAfter).Passed() || !ContactFresh(c) {
		return false
	}
	seen, beat := AgeOf(f, "node.last_seen_at"), AgeOf(f, "node.last_heartbeat_at")
	return (seen.Known || beat.Known) && (!seen.Known || seen.Age > StaleAfter(c)) &&
		(!beat.Known || beat.Age > StaleAfter(c))
}

// WalkAgain is undecided for a state that changed during the walk.
func WalkAgain(f *diag.Fact, why string) diag.Finding {
	out := reading.Undecided(f, "%s", why)
	out.Lack = diag.LackTime
	return out
}

// stoppedForAWhile reports whether the agent's unit was inactive although its no-op came back in the same walk. A unit
// in a crash loop is not inactive: its no-op may come back between two crashes.
func stoppedForAWhile(c *hop.Case) bool {
	f := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	return f != nil && f.Failure == diag.UnitInactive && AnsweredSince(c, f) != "" && f.Unit != nil &&
		f.Unit.Load != "masked"
}

// changed: the state that a failing finding rests on changed during the walk.
func changed(d *doubted) string {
	if why := changedUnder(d); why != "" {
		return why + ": " + d.out.Text
	}
	return ""
}

func changedUnder(d *doubted) string {
	if !d.fails() {
		return ""
	}
	if d.hop.Allocation {
		if why := AllocationChanged(d.c); why != "" {
			return why
		}
	}
	if d.out.Signal == diag.SigProcessDown && stoppedForAWhile(d.c) {
		return "the agent was not running when its unit was checked, but did a no-op in the same walk: walk again"
	}
	switch d.out.Signal {
	case diag.SigTaskClaimFailed, diag.SigProcessDown, diag.SigOpenWithoutStream, diag.SigNodeStreamTimeout:
		if cameBack(d.c) {
			return "the platform had no contact with the agent when this walk began, but has it again: walk again"
		}
	}
	return ""
}
