package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// The functions of this file decide whether an answer is the platform's or that of a server on the path.

// PageFrom describes the server that answered with a page, as far as it is known.
func PageFrom(f *diag.Fact) string {
	return fmt.Sprintf("what answers at %s, or in front of it, answers with a page (%s)", reading.Where(f), reading.Saw(f))
}

// OperatorGetsSame reports whether every request of the operator to the API has the answer of f, which nothing shows to
// be the platform's. A 401 is not compared: an operator gets it for a token.
func OperatorGetsSame(c *hop.Case, f *diag.Fact) bool {
	if s := reading.Status(f); (s != 400 && s != 403) || !reading.Vague(f) || reading.PlatformCode(f) {
		return false
	}
	seen := false
	for _, step := range [...]string{hop.StepHealthz, hop.StepAuth} {
		k := c.Fact(diag.HopControlPlaneAccess, step)
		if k != nil && (reading.Status(k) != reading.Status(f) || !reading.Vague(k) || k.Throttled() ||
			reading.Code(k) != reading.Code(f)) {
			return false
		}
		seen = seen || (k != nil && (step == hop.StepAuth || reading.Status(f) == 400)) // a health page may be closed to all
	}
	return seen
}

// Unrouted reports whether f is unsigned and as a server answers that does not pass a request on.
func Unrouted(f *diag.Fact) bool {
	return reading.Unsigned(f) && (reading.Status(f) == 400 || reading.Status(f) == 404)
}

// Signer names the server of an unsigned answer as far as it is known; "" for any other.
func Signer(f *diag.Fact) string {
	if !reading.Unsigned(f) {
		return ""
	}
	if reading.Code(f) != "" {
		return "; it has " + OfNoPlatform(f) + ": " + reading.Where(f) + ", or what is in front of it, may have answered"
	}
	return "; it has no error code of the platform, so " + reading.Where(f) +
		", or what is in front of it, may have answered"
}

// OfNoPlatform describes what shows that a refusal may not be the platform's.
func OfNoPlatform(f *diag.Fact) string {
	if reading.Code(f) == "" {
		return "nothing of the platform"
	}
	return "the code " + reading.Code(f) + ", which is not known to be the platform's"
}
