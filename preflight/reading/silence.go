package reading

import (
	"github.com/gpuaas/gpuaasctl/diag"
)

// FullyAcknowledged reports whether the far kernel accepted the connection and acknowledged all that was sent; false if
// the near kernel does not report that.
func FullyAcknowledged(f *diag.Fact) bool {
	return !InPhase(f, "dns", "tcp") && !HasGap(f) && f.TCP != nil && f.TCP.Resent != nil && *f.TCP.Resent == 0
}

// GotNoAnswer reports whether a network request got no answer.
func GotNoAnswer(f *diag.Fact) bool {
	return f.Failure.Silent() && f.Failure != diag.Unknown && f.Request.Op.Row().Ladder
}

// LossOf is the culprit if a vantage's network loses packets.
func LossOf(vantage string) string { return vantage + " network unstable" }
