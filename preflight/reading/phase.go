package reading

import (
	"github.com/gpuaas/gpuaasctl/diag"
)

// Repeats is the least number of runs on each side of a proof.
const Repeats = 3

// phases is the ladder: a probe that failed in a later phase passed all the earlier ones.
var phases = [...]string{"target", "env", "dns", "tcp", "trust", "cert", "tls", "mtls", "http", "poll", "ws", "pty"}

// Rung returns the place of a phase on the ladder; -1 for a phase that is not on it.
func Rung(phase string) int {
	for i, p := range phases {
		if p == phase {
			return i
		}
	}
	return -1
}

// Further reports whether b came through the phase in which a failed. It is not a pass: see passes.
func Further(b, a *diag.Fact) bool {
	if b.Failure == diag.OK {
		return true
	}
	if b.Failure == diag.Cancelled {
		return false
	}
	return Rung(a.Phase) >= 0 && Rung(b.Phase) > Rung(a.Phase)
}

// FailsAlike reports whether b has the same failure as a, in the same phase.
func FailsAlike(b, a *diag.Fact) bool {
	return a.Failure != diag.OK && a.Failure != diag.Cancelled && b.Failure == a.Failure && b.Phase == a.Phase
}

// FailsLike reports whether b failed as a did. Server errors are alike, and so are a time-out and no route to a host of
// the same network: a short wait ends before the kernel gives up on the host.
func FailsLike(b, a *diag.Fact) bool {
	sameAnswer := Status(a) == Status(b) || (Status(a) >= 500 && Status(b) >= 500)
	return (FailsAlike(b, a) && sameAnswer) || (Unreached(a) && Unreached(b))
}

// Unreached reports whether a connection attempt got no answer, or no route.
func Unreached(f *diag.Fact) bool {
	return f.Failure == diag.TCPTimeout || f.Failure == diag.TCPNoRoute
}

// Stopped reports whether a unit, or its process, was found not running.
func Stopped(f *diag.Fact) bool {
	switch f.Failure {
	case diag.UnitInactive, diag.UnitFailed, diag.UnitMissing, diag.ProcessStopped:
		return true
	}
	return false
}
