package preflight

import "github.com/gpuaas/gpuaasctl/diag"

// judgeRecord reads what the node wrote down. Where the platform does not hear a node and no probe finds anything, its
// own record is the only witness; while the platform hears it, only a cloned identity is news.
func judgeRecord(c *Case) *diag.Finding {
	f := c.Fact(diag.HopNodeRecoveryStatus, stepHostRecord)
	if f == nil || !f.Passed() || f.Record == nil {
		return nil
	}
	k := diag.Classify(diag.Evidence{Record: f.Record, BootID: bootID(c), Token: tokenState(c), Points: points(c, nil)})
	switch {
	case k.Reason == diag.ReasonNone, k.Reason == diag.ReasonNodeAgentUnreachable:
		return nil
	case k.Reason != diag.ReasonClonedIdentity && !silentNode(c):
		return nil
	}
	out := fail(signalOfReason(k.Reason), f, "the node's own word: %s", k.Because[0])
	out.Reason, out.Failure = k.Reason, diag.OK
	out.Direct = k.Reason == diag.ReasonClonedIdentity
	return &out
}

// signalOfReason is the signal of hop 7 for a reason that the node itself names.
func signalOfReason(code diag.ReasonCode) diag.Signal {
	switch code {
	case diag.ReasonClonedIdentity:
		return diag.SigIdentityCloned
	case diag.ReasonIdentityRevokedOrFenced, diag.ReasonCertExpired, diag.ReasonIdentityRejectedRecoverable,
		diag.ReasonRecoveryTokenMissing, diag.ReasonRecoveryEnrollmentBlocked:
		return diag.SigAuthFailed
	case diag.ReasonDiskFull:
		return diag.SigDiskFull
	case diag.ReasonCertUntrustedByIngress:
		return diag.SigIngressCADrift
	case diag.ReasonEndpointProfileDrift:
		return diag.SigEndpointProfileDrift
	case diag.ReasonTaskResultPostFailed:
		return diag.SigResultPostFailed
	case diag.ReasonAgentVersionDrift:
		return diag.SigVersionDrift
	}
	return diag.SigHeartbeatStale // why it is silent stands in the reason
}

// judgeVersion compares the agent's version with the one that the platform wants. It is a warning: an old agent that
// cannot do its work fails where it cannot.
func judgeVersion(c *Case) *diag.Finding {
	have, want := readModel(c, "agent_version"), readModel(c, "agent_desired_version")
	if have == "" || want == "" || diag.SameVersion(have, want) {
		return nil
	}
	out := warn(diag.SigVersionDrift, c.Fact(diag.HopNodeHeartbeat, stepReadModel), "the agent is %s, the platform wants %s", have, want)
	return &out
}
