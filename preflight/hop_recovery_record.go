package preflight

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// judgeRecord reads what the node recorded. Where the platform does not hear a node and no probe finds anything, its
// own record is the only source; while the platform hears from it, only a cloned identity is news.
func judgeRecord(c *Case) *diag.Finding {
	f, record := c.recordFact(), c.hostRecord()
	if !f.Passed() || f.Record == nil || (!silentNode(c) && !saysCloned(record)) {
		return nil
	}
	reason, because := diag.Foremost(diag.Evidence{Record: record, BootID: bootID(c), Token: tokenState(c),
		Points: points(c, nil)})
	if reason == diag.ReasonNone || reason == diag.ReasonNodeAgentUnreachable {
		return nil
	}
	out := fail(signalOfReason(reason), f, "the node's own word: %s", because[0])
	out.Reason, out.Failure = reason, diag.OK
	out.Direct = reason == diag.ReasonClonedIdentity
	return &out
}

// saysCloned reports whether a record's last word on its identity is that it is cloned: the one word of it that counts
// while the platform hears from the node.
func saysCloned(record []*diag.RecordEntry) bool {
	for _, e := range slices.Backward(record) {
		switch {
		case e.Reason == diag.RecRecoveryEnrolled, diag.Released(e):
			return false
		case e.Reason == diag.RecClonedIdentity:
			return true
		}
	}
	return false
}

// signalOfReason is the signal of hop 7 for a reason that the node itself names.
func signalOfReason(code diag.ReasonCode) diag.Signal {
	// else it is silent, and why is in the reason
	return cmp.Or(map[diag.ReasonCode]diag.Signal{
		diag.ReasonClonedIdentity:              diag.SigIdentityCloned,
		diag.ReasonIdentityRevokedOrFenced:     diag.SigAuthFailed,
		diag.ReasonCertExpired:                 diag.SigAuthFailed,
		diag.ReasonIdentityRejectedRecoverable: diag.SigAuthFailed,
		diag.ReasonRecoveryTokenMissing:        diag.SigAuthFailed,
		diag.ReasonRecoveryEnrollmentBlocked:   diag.SigAuthFailed,
		diag.ReasonDiskFull:                    diag.SigDiskFull,
		diag.ReasonCertUntrustedByIngress:      diag.SigIngressCADrift,
		diag.ReasonEndpointProfileDrift:        diag.SigEndpointProfileDrift,
		diag.ReasonTaskResultPostFailed:        diag.SigResultPostFailed,
		diag.ReasonAgentVersionDrift:           diag.SigVersionDrift,
	}[code], diag.SigHeartbeatStale)
}

// judgeVersion compares the agent's version with the one that the platform wants. It is a warning: an old agent that
// cannot do its work fails where it cannot.
func judgeVersion(c *Case) *diag.Finding {
	have, want := readModel(c, "node.agent_version"), readModel(c, "node.agent_desired_version")
	if have == "" || want == "" || diag.SameVersion(have, want) {
		return nil
	}
	out := warn(diag.SigVersionDrift, c.Fact(diag.HopNodeHeartbeat, stepReadModel),
		"the agent is %s, the platform wants %s", have, want)
	return &out
}
