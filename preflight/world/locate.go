package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// LocateFault adds the location of the fault, by the counter-probes of f, to its finding. It returns false if the
// operator, like the node, gets no answer.
func LocateFault(c *hop.Case, f *diag.Fact, out *diag.Finding) bool {
	if Misdirected(c, f) {
		pinned, loginPasses := hop.RequestOf(c, f.ID, reading.CounterPinned).First(), OnlyAgentSees(c, f)
		if reading.InPhase(f, "dns") {
			Claim(c, out, claimOnlyLookup, pinned.Request.Resolve)
			if loginPasses {
				Claim(c, out, claimOnlyAgentSees)
			}
			return true
		}
		out.Failure, out.Culprit = diag.DNSMismatch, f.Vantage+" name "+f.DNS.Name
		out.Text += fmt.Sprintf("; the name resolves to %s here (%s); at the profile's address %s the request passes",
			hop.Clip(f.DNS.Addresses), reading.Source(f.DNS), pinned.Request.Resolve)
		if loginPasses {
			Claim(c, out, claimAgentView)
		}
		return true
	}
	control := hop.RequestOf(c, f.ID, reading.CounterFromOperator)
	switch {
	case Claim(c, out, claimendedForNode):
		out.Side = ""
		out.Evidence = append(out.Evidence, hop.FactID(diag.HopNodeRecoveryStatus, hop.StepTaskWait),
			ofOperator(c).First().ID)
	case control == nil || !reading.Controls(f, control.First()):
	case control.All(func(k *diag.Fact) bool { return reading.Further(k, f) && reading.Replied(k) }):
		if Claim(c, out, claimNodeWay) && out.Side == "" {
			out.Side = diag.SideNodeWay
		}
	case control.All(func(k *diag.Fact) bool { return reading.FailsLike(k, f) }):
		return !Claim(c, out, claimNotThisNode)
	}
	return true
}
