package world

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Some listeners end a connection without a word if they are shown no certificate, or one that they refuse. So does a
// device on the path. A listener's habit is the same for everybody.

// endedAlike reports whether the node API, or what is in front of it, ended the node's connections without a word, with
// and without its certificate.
func endedAlike(c *hop.Case) bool {
	bare, shown := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	return bare != nil && shown != nil && reading.EndedUnshown(bare) && reading.HungUp(shown) &&
		hop.SameEndpoint(reading.Target(bare), reading.Target(shown))
}

// ofOperator returns the operator's request there, who shows no certificate; nil if it was not sent.
func ofOperator(c *hop.Case) *hop.RequestRuns {
	return hop.RequestOf(c, hop.FactID(diag.HopNodeRecoveryStatus, hop.StepTaskWait), reading.CounterFromOperator)
}

// endedForNode reports whether only the node's connections are ended so, and the operator's are answered.
func endedForNode(c *hop.Case) bool {
	operator := ofOperator(c)
	return endedAlike(c) && operator != nil &&
		operator.All(func(k *diag.Fact) bool { return reading.Replied(k) && !reading.HungUp(k) })
}

// noHabit: a certificate is not shown to be the cause of what happens without one as well, unless that is a habit.
func noHabit(d *doubted) string {
	if !endedAlike(d.c) || !reading.HungUp(d.fact) || d.fact.Request.Cert == "" {
		return ""
	}
	if operator := ofOperator(d.c); operator != nil && operator.All(reading.HungUp) {
		return ""
	}
	return "its connections end without a certificate as well, and nothing shows that others' do"
}
