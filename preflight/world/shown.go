package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// AddShown adds to the finding of a server that the node does not trust, f, how the certificate that it presents to
// the node compares with the one that the operator gets at the same address, and with the one that the platform states
// in a field of its trust page. If the node alone gets another one, the fault is on its path.
func AddShown(c *hop.Case, f *diag.Fact, stated string, out *diag.Finding) {
	leaf, operators := reading.ServedLeaf(f), shownToOperator(c, f)
	page := diag.Fingerprint(c.Field(diag.HopControlPlaneAccess, hop.StepAuth, stated))
	if leaf == nil || (operators == nil && page == "") {
		return
	}
	switch {
	case operators == nil && page != leaf.Fingerprint:
		out.Text += fmt.Sprintf("; the platform states another one, sha256 %.16s..., and the node gets %.16s..., so "+
			"something else may end the node's TLS", page, leaf.Fingerprint)
	case operators == nil: // it is the platform's
	case operators.Fingerprint == leaf.Fingerprint && page != "" && page != leaf.Fingerprint:
		out.Text += fmt.Sprintf("; the operator gets the same one, and the platform states another one, sha256 %.16s...",
			page)
	case operators.Fingerprint == leaf.Fingerprint:
	default:
		out.Text += fmt.Sprintf("; at the same address the operator gets another one, by %s, sha256 %.16s..., and the node "+
			"gets %.16s...", operators.Issuer, operators.Fingerprint, leaf.Fingerprint)
		if page == operators.Fingerprint {
			out.Text += "; the platform states the operator's"
		}
		if (page == "" || page == operators.Fingerprint) && Claim(c, out, claimTLSEnded) {
			out.Side = diag.SideNetwork
		}
	}
}

// shownToOperator returns the certificate that the operator's counter-probe of f got, at the address that the node
// used; nil if it got none.
func shownToOperator(c *hop.Case, f *diag.Fact) *diag.CertInfo {
	control := c.FactByID(f.ID + "~" + reading.CounterFromOperator)
	if control == nil || hop.HostPortOf(reading.Target(control)) != hop.HostPortOf(reading.Target(f)) ||
		reading.RemoteIP(control) != reading.RemoteIP(f) {
		return nil
	}
	return reading.ServedLeaf(control)
}
