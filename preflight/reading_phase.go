package preflight

import "github.com/gpuaas/gpuaasctl/diag"

const repeats = 3

// phases is the ladder: a probe that failed in a later phase passed all the earlier ones.
var phases = [...]string{"target", "env", "dns", "tcp", "trust", "cert", "tls", "mtls", "http", "poll", "ws", "pty"}

func rung(phase string) int {
	for i, p := range phases {
		if p == phase {
			return i
		}
	}
	return -1
}

// further reports whether b came through the phase in which a failed. It is not a pass: see passes.
func further(b, a *diag.Fact) bool {
	if b.Failure == diag.OK {
		return true
	}
	if b.Failure == diag.Cancelled {
		return false
	}
	return rung(a.Phase) >= 0 && rung(b.Phase) > rung(a.Phase)
}

// failsAlike reports whether b has the same failure as a, in the same phase.
func failsAlike(b, a *diag.Fact) bool {
	return a.Failure != diag.OK && a.Failure != diag.Cancelled && b.Failure == a.Failure && b.Phase == a.Phase
}

// failsLike reports whether b failed as a did. Server errors are alike, and so are a time-out and no route to a host of
// the same network: a short wait ends before the kernel gives up on the host.
func failsLike(b, a *diag.Fact) bool {
	sameAnswer := status(a) == status(b) || (status(a) >= 500 && status(b) >= 500)
	return (failsAlike(b, a) && sameAnswer) || (unreached(a) && unreached(b))
}

func unreached(f *diag.Fact) bool {
	return f.Failure == diag.TCPTimeout || f.Failure == diag.TCPNoRoute
}
