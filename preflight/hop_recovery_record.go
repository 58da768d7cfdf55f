package preflight

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
)

// judgeRecord judges the node's own record. It is the only source about a node that the platform does not hear from and
// in which no probe finds a fault; while the platform hears from the node, only a cloned identity counts.
func judgeRecord(c *Case) *diag.Finding {
	f, record := c.recordFact(), c.hostRecord()
	if !f.Passed() || f.Record == nil || (!silentNode(c) && !saysCloned(record)) {
		return nil
	}
	reason, because := classify.WithEvidence(classify.Evidence{Record: record, BootID: bootID(c), Token: tokenState(c),
		Points: points(c, nil)})
	if reason == diag.ReasonNone || reason == diag.ReasonNodeAgentUnreachable {
		return nil
	}
	out := fail(signalOfReason(reason), f, "the node's own evidence: %s", because[0])
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
func judgeVersion(c *Case) *diag.Finding {
	have, want := readModel(c, "node.agent_version"), readModel(c, "node.agent_desired_version")
	if have == "" || want == "" || classify.SameVersion(have, want) {
		return nil
	}
	out := warn(diag.SigVersionDrift, c.Fact(diag.HopNodeHeartbeat, stepReadModel),
		"the agent's version is %s, the platform wants %s", have, want)
	return &out
}
