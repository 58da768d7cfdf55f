package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The functions of this file decide whether an answer is the platform's or that of a server on the path.

// pageFrom describes the server that answered with a page, as far as it is known.
func pageFrom(f *diag.Fact) string {
	return fmt.Sprintf("what answers at %s, or in front of it, answers with a page (%s)", where(f), saw(f))
}

// letIn describes what contradicts that f, a refusal, is a decision about this node: what let the node in, or that the
// same answer goes to others. "" if nothing does, or if the platform confirms f.
func letIn(c *Case, f *diag.Fact) string {
	switch {
	case passedOnce(c, f): // one of several servers may be the one that confirms
		return "the same request was let in at other times"
	case confirmed(c, f):
		return ""
	case gatewayAccepts(c):
		return "the terminal gateway accepts the same certificate"
	case ingressAccepts(c):
		return "the node ingress accepts the same certificate"
	case operatorGetsSame(c, f):
		return "the operator, who shows no certificate, gets the same answer"
	}
	return ""
}

// ingressAccepts reports whether the node ingress asked for the node's certificate, and let this walk's task wait in,
// if only once.
func ingressAccepts(c *Case) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	return w != nil && ((admitted(w) && asksForCert(w) && (w.HTTP == nil || w.HTTP.Cached == "")) || passedOnce(c, w))
}

// operatorGetsSame reports whether every request of the operator to the API has the answer of f, which nothing shows to
// be the platform's. A 401 is not compared: an operator gets it for a token.
func operatorGetsSame(c *Case, f *diag.Fact) bool {
	if s := status(f); (s != 400 && s != 403) || !vague(f) || platformCode(f) {
		return false
	}
	seen := false
	for _, step := range [...]string{stepHealthz, stepAuth} {
		k := c.Fact(diag.HopControlPlaneAccess, step)
		if k != nil && (status(k) != status(f) || !vague(k) || k.Throttled() || code(k) != code(f)) {
			return false
		}
		seen = seen || (k != nil && (step == stepAuth || status(f) == 400)) // a health page may be closed to all
	}
	return seen
}

// confirmed reports whether the platform gives the same code for this node elsewhere: as the end of its terminal, or in
// the read model as its last denial since the node was last seen.
func confirmed(c *Case, f *diag.Fact) bool {
	word := strings.TrimPrefix(code(f), "node_")
	return word != "" && (strings.TrimPrefix(decided(c), "node_") == word ||
		strings.TrimPrefix(recordedDenial(c), "node_") == word)
}

// unrouted reports whether f is unsigned and as a server answers that does not pass a request on.
func unrouted(f *diag.Fact) bool { return unsigned(f) && (status(f) == 400 || status(f) == 404) }

// signer names the server of an unsigned answer as far as it is known; "" for any other.
func signer(f *diag.Fact) string {
	if !unsigned(f) {
		return ""
	}
	if code(f) != "" {
		return "; it has " + ofNoPlatform(f) + ": " + where(f) + ", or what is in front of it, may have answered"
	}
	return "; it has no error code of the platform, so " + where(f) + ", or what is in front of it, may have answered"
}

// ofNoPlatform describes what shows that a refusal may not be the platform's.
func ofNoPlatform(f *diag.Fact) string {
	if code(f) == "" {
		return "nothing of the platform"
	}
	return "the code " + code(f) + ", which is not known to be the platform's"
}

// otherAnswer returns a run of f's request that got another status than f, a 401 or 403; nil without one.
func otherAnswer(c *Case, f *diag.Fact) *diag.Fact {
	step, _, _ := splitID(f.ID)
	q := question(c, step, "")
	if q == nil || (status(f) != 401 && status(f) != 403) {
		return nil
	}
	for _, r := range q.runs {
		if s := status(r); s != 0 && s != status(f) {
			return r
		}
	}
	return nil
}

// readFromCache reports whether an answer of the API to the operator came from a cache: it says what was, and not what
// is.
func readFromCache(c *Case, f *diag.Fact) bool {
	return f != nil && f.Vantage == Operator && ofPlatform(c, f) && status(f) == 200 && f.HTTP.Cached != ""
}

// fromCache describes an answer that readFromCache reports.
func fromCache(f *diag.Fact) string {
	return fmt.Sprintf("the API's answer came from a cache (%s), so it may be out of date", f.HTTP.Cached)
}

// cachedReads warns of an answer of the API from a cache by which a hop would pass.
func cachedReads(h *Hop, c *Case, findings []diag.Finding) []diag.Finding {
	if slices.ContainsFunc(findings, func(f diag.Finding) bool { return f.Status != diag.StatusWarn }) {
		return nil
	}
	for i := range h.Steps {
		s := &h.Steps[i]
		if f := c.judgedFact(s); s.Token && s.Uses == "" && readFromCache(c, f) {
			return []diag.Finding{warn("", f, "%s", fromCache(f))}
		}
	}
	return nil
}
