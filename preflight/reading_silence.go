package preflight

import "github.com/gpuaas/gpuaasctl/diag"

// fullyAcknowledged reports whether the far kernel accepted the connection and acknowledged all that was sent; false if
// the near kernel does not report that.
func fullyAcknowledged(f *diag.Fact) bool {
	return !inPhase(f, "dns", "tcp") && !hasGap(f) && f.TCP != nil && f.TCP.Resent != nil && *f.TCP.Resent == 0
}

// gotNoAnswer reports whether a network request got no answer.
func gotNoAnswer(f *diag.Fact) bool {
	return f.Failure.Silent() && f.Failure != diag.Unknown && f.Request.Op.Row().Ladder
}

func lossOf(vantage string) string { return vantage + " network unstable" }
