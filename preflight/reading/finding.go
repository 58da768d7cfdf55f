package reading

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Fail is a failing finding whose deciding fact is f.
func Fail(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusFail, Signal: sig, Failure: f.Failure, Evidence: []string{f.ID},
		Text: fmt.Sprintf(format, args...), Culprit: culprit(f),
	}
}

// Undecided is an inconclusive finding whose deciding fact is f: the fact does not answer what the hop asks.
func Undecided(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusInconclusive, Failure: f.Failure, Evidence: []string{f.ID}, Because: fmt.Sprintf(format, args...),
	}
}

// Warn is a finding that does not fail the hop.
func Warn(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	w := Fail(sig, f, format, args...)
	w.Status = diag.StatusWarn
	return w
}

// culprit names the shared thing at fault in a failing network probe: two probes with the same culprit are one fault.
func culprit(f *diag.Fact) string {
	if f.Request.CABundle != "" && (f.Failure == diag.TLSUnknownCA || InPhase(f, "trust")) {
		return f.Vantage + " file " + f.Request.CABundle
	}
	switch f.Failure {
	case diag.DNSTimeout, diag.DNSRefused, diag.DNSServFail:
		if f.DNS != nil {
			return f.Vantage + " resolver " + f.DNS.Server
		}
	case diag.DNSNXDomain, diag.DNSNoAnswer:
		if f.DNS != nil {
			return f.Vantage + " name " + f.DNS.Name
		}
	case diag.TCPTimeout, diag.TCPRefused, diag.TCPNoRoute, diag.TCPNetUnreachable:
		if f.TCP != nil {
			return f.Vantage + " to " + f.TCP.Remote
		}
	}
	return ""
}
