package world

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// LetIn describes what contradicts that f, a refusal, is a decision about this node: what let the node in, or that the
// same answer goes to others. "" if nothing does, or if the platform confirms f.
func LetIn(c *hop.Case, f *diag.Fact) string {
	switch {
	case PassedOnce(c, f): // one of several servers may be the one that confirms
		return "the same request was let in at other times"
	case confirmed(c, f):
		return ""
	case GatewayAccepts(c):
		return "the terminal gateway accepts the same certificate"
	case ingressAccepts(c):
		return "the node ingress accepts the same certificate"
	case OperatorGetsSame(c, f):
		return "the operator, who shows no certificate, gets the same answer"
	}
	return ""
}

// ingressAccepts reports whether the node ingress asked for the node's certificate, and let this walk's task wait in,
// if only once.
func ingressAccepts(c *hop.Case) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	return w != nil && ((reading.Admitted(w) && reading.AsksForCert(w) && (w.HTTP == nil || w.HTTP.Cached == "")) ||
		PassedOnce(c, w))
}

// confirmed reports whether the platform gives the same code for this node elsewhere: as the end of its terminal, or in
// the read model as its last denial since the node was last seen.
func confirmed(c *hop.Case, f *diag.Fact) bool {
	word := strings.TrimPrefix(reading.Code(f), "node_")
	return word != "" && (strings.TrimPrefix(Decided(c), "node_") == word ||
		strings.TrimPrefix(recordedDenial(c), "node_") == word)
}

// DeniesAccess reports whether f was refused with 401 or 403; a login page and a rate limiter's answer do not count. A
// health page is requested without a token: a platform may close it, which is not a fault.
func DeniesAccess(f *diag.Fact) bool {
	return f != nil && !f.Throttled() && (reading.Status(f) == 401 || reading.Status(f) == 403) &&
		f.Failure != diag.HTTPEdgeAuth
}

// DeniesNode reports whether a refusal of the node's certificate is the platform's decision about this node. Such a
// decision holds at every listener and for every request, unless a listener looks for the session before it looks at
// the node: so what lets the node in counts only where nothing else of the platform says the same.
func DeniesNode(c *hop.Case, f *diag.Fact) bool {
	return reading.PlatformDenies(f) && LetIn(c, f) == ""
}

// Denials returns the refusals of the node's identity: the answer to the task wait, and the denial that the platform
// recorded since its last contact with the node.
func Denials(c *hop.Case) []classify.Denial {
	var out []classify.Denial
	if _, whole := profileMismatch(c); whole {
		return nil // another machine was refused
	}
	if w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait); DeniesAccess(w) && !(reading.AsksForNoCert(w) &&
		AsProfiled(c)) &&
		LetIn(c, w) == "" && (reading.Code(w) == "" || reading.PlatformDenies(w)) {
		d := classify.Denial{Source: "task wait", Code: reading.Code(w)}
		if w.TLS != nil {
			d.Asked = w.TLS.CertRequested
		}
		out = append(out, d)
	}
	if word := recordedDenial(c); word != "" {
		out = append(out, classify.Denial{Source: "read model", Code: word})
	}
	return out
}

// recordedDenial returns the code of the denial that the platform recorded since its last contact with the node; ""
// without one, or if it is about the node's identity and the ingress let this walk's task wait in, which is no contact.
func recordedDenial(c *hop.Case) string {
	read, word := LastRead(c), ReadModel(c, "node.last_denial_code")
	at, seen := hop.TimeOf(read, "node.last_denial_at"), hop.TimeOf(read, "node.last_seen_at")
	if diag.LimiterCode(word) || !at.After(seen) {
		return ""
	}
	why, _ := diag.DenialReason(word)
	ofIdentity := why == diag.ReasonIdentityRevokedOrFenced || why == diag.ReasonCertExpired
	if ofIdentity && ingressAccepts(c) {
		return ""
	}
	return word
}
