package hops

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// judgeRecord judges the node's own record. It is the only source about a node that the platform does not hear from and
// in which no probe finds a fault; while the platform hears from the node, only a cloned identity counts.
func judgeRecord(c *hop.Case) *diag.Finding {
	f, record := c.RecordFact(), c.HostRecord()
	if !f.Passed() || f.Record == nil || (!world.SilentNode(c) && !saysCloned(record)) {
		return nil
	}
	reason, because := classify.WithEvidence(classify.Evidence{Record: record, BootID: world.BootID(c),
		Token: world.TokenState(c), Points: world.Points(c, nil)})
	if reason == diag.ReasonNone || reason == diag.ReasonNodeAgentUnreachable {
		return nil
	}
	out := reading.Fail(world.SignalOfReason(reason), f, "the node's own evidence: %s", because[0])
	out.Reason, out.Failure = reason, diag.OK
	out.Direct = reason == diag.ReasonClonedIdentity
	return &out
}

// saysCloned reports whether the record's last entry about its identity says that it is cloned. No other entry counts
// while the platform hears from the node.
func saysCloned(record []*diag.RecordEntry) bool {
	for _, e := range slices.Backward(record) {
		switch {
		case e.Reason == diag.RecRecoveryEnrolled, classify.Released(e):
			return false
		case e.Reason == diag.RecClonedIdentity:
			return true
		}
	}
	return false
}

// judgeVersion compares the agent's version with the one that the platform wants. It only warns: an agent too old for
// its work fails at that work.
func judgeVersion(c *hop.Case) *diag.Finding {
	have, want := world.ReadModel(c, "node.agent_version"), world.ReadModel(c, "node.agent_desired_version")
	if have == "" || want == "" || classify.SameVersion(have, want) {
		return nil
	}
	out := reading.Warn(diag.SigVersionDrift, c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel),
		"the agent's version is %s, the platform wants %s", have, want)
	return &out
}
