package preflight

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// admissionIn returns what the walk read about the node's GPUs; nil if it read nothing.
func admissionIn(c *Case) *GPUAdmission { return *gpuMemo.of(c) }

var gpuMemo = newMemo(func(c *Case) *GPUAdmission {
	id := diag.HopGPUHealth
	if a := headOf(c.Subject.NodeID, c.Fact(id, stepAdmission)); a != nil {
		return a
	}
	return JudgedHere(c.Subject.NodeID, c.Fact(id, stepGPUJudged), c.Fact(id, stepGPUNode))
})

// decidingXID returns the XID or SXID that decided the GPUs' health, "" if something else did.
func decidingXID(c *Case) string {
	if a := admissionIn(c); a != nil {
		return a.Decided.XID()
	}
	return ""
}

// unjudged is the finding if the node's GPUs are not judged, or the judgement has no effect.
func unjudged(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{Status: diag.StatusSkipped, Because: fmt.Sprintf(format, args...), Evidence: []string{f.ID}}
}

// measuredOnGPU returns the cause of an unhealthy GPU if the driver itself reports it: an XID, a recovery action, an
// error counter. A count that lacks a GPU does not show the cause.
func measuredOnGPU(_ *Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, headOf("", f))
}

// measuredHere is measuredOnGPU for this tool's own judgement.
func measuredHere(_ *Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, JudgedHere("", f, nil))
}

func gpuReports(f *diag.Fact, a *GPUAdmission) (*diag.Fact, string) {
	if a == nil || a.Decided == nil || (a.Decided.Subject.About != "event" && a.Decided.Subject.About != "gpu") {
		return nil, ""
	}
	return f, "the node reports " + a.Decided.Words()
}
