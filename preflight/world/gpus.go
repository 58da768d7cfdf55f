package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// AdmissionIn returns what the walk read about the node's GPUs; nil if it read nothing.
func AdmissionIn(c *hop.Case) *reading.GPUAdmission { return *gpuMemo.Of(c) }

var gpuMemo = hop.NewMemo(func(c *hop.Case) *reading.GPUAdmission {
	id := diag.HopGPUHealth
	if a := reading.HeadOf(c.Subject.NodeID, c.Fact(id, hop.StepAdmission)); a != nil {
		return a
	}
	return reading.JudgedHere(c.Subject.NodeID, c.Fact(id, hop.StepGPUJudged), c.Fact(id, hop.StepGPUNode))
})

// DecidingXID returns the XID or SXID that decided the GPUs' health, "" if something else did.
func DecidingXID(c *hop.Case) string {
	if a := AdmissionIn(c); a != nil {
		return a.Decided.XID()
	}
	return ""
}

// Unjudged is the finding if the node's GPUs are not judged, or the judgement has no effect.
func Unjudged(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{Status: diag.StatusSkipped, Because: fmt.Sprintf(format, args...), Evidence: []string{f.ID}}
}

// MeasuredOnGPU returns the cause of an unhealthy GPU if the driver itself reports it: an XID, a recovery action, an
// error counter. A count that lacks a GPU does not show the cause.
func MeasuredOnGPU(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, reading.HeadOf("", f))
}

// MeasuredHere is MeasuredOnGPU for this tool's own judgement.
func MeasuredHere(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, reading.JudgedHere("", f, nil))
}

func gpuReports(f *diag.Fact, a *reading.GPUAdmission) (*diag.Fact, string) {
	if a == nil || a.Decided == nil || (a.Decided.Subject.About != "event" && a.Decided.Subject.About != "gpu") {
		return nil, ""
	}
	return f, "the node reports " + a.Decided.Words()
}
