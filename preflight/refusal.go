package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// A server refuses a client certificate by a TLS alert, by HTTP above TLS, or by ending the connection, before or
// after the handshake: the form depends on the server rather than on the certificate. So judges use these functions.

// refusesCert reports whether a listener that asked for and got the certificate of f did not let the request through,
// and may have done so because of the certificate.
func refusesCert(f *diag.Fact) bool {
	if f == nil || f.Passed() || f.Throttled() {
		return false
	}
	s := status(f)
	switch {
	case isMTLS(f.Failure), f.Failure == diag.MTLSIngress400:
		return true
	case !asksForCert(f) || f.TLS.CertSent == "":
		return false
	case withheld(f):
		return true
	}
	return (s == 400 && !platformSpeaks(f)) || ((s == 401 || s == 403) && !platformDenies(f)) || (vague(f) && s != 400)
}

// withheld reports whether a listener asked for and got the certificate of f, but the platform behind it reports that
// it did not get it. The platform then judged no certificate.
func withheld(f *diag.Fact) bool {
	return asksForCert(f) && f.TLS.CertSent != "" && !f.Throttled() && diag.MissingFromEdge(code(f)) != ""
}

// heldBack is the finding for edgeWithholds. Both listeners of a platform may be behind one edge, hence the culprit.
func heldBack(sig diag.Signal, f *diag.Fact, reason diag.ReasonCode) diag.Finding {
	out := fail(sig, f, "%s requests the node's certificate, gets it, and does not pass it on: %s (%s)", where(f),
		diag.MissingFromEdge(code(f)), saw(f))
	out.Side, out.Reason, out.Culprit = diag.SideEdge, reason, culpritEdgeKeeps
	return out
}

// culpritEdgeKeeps is the culprit if an edge does not pass on the certificate that it got.
const culpritEdgeKeeps = "edge that ends the node's TLS"

// vague reports whether a refusal has no stated cause: the end of the connection, an alert that is not about a
// certificate, a 401 or 403 that may come from a rule, a 400 that names no certificate and may come from a limit on
// requests. Servers use each of these to reject a certificate.
func vague(f *diag.Fact) bool {
	s := status(f)
	return hungUp(f) || s == 401 || s == 403 || (s == 400 && !isMTLS(f.Failure) && f.Failure != diag.MTLSIngress400)
}

// admitted reports whether the node API accepted a task wait: an HTML page or a redirect comes from something else.
func admitted(f *diag.Fact) bool {
	return f.Passed() && (f.HTTP == nil ||
		(good(f) && !strings.HasPrefix(strings.ToLower(f.HTTP.ContentType), "text/html")))
}

// endedUnshown reports whether a listener asked for a certificate, got none, and ended the connection without a reason,
// as load balancers do. Only a step that sends a certificate measures the answer to one.
func endedUnshown(f *diag.Fact) bool { return asksForCert(f) && f.TLS.CertSent == "" && hungUp(f) }

// hungUp reports whether the listener ended the connection within or after the handshake, before any answer: by
// closing it, or by an alert that is not about a certificate.
func hungUp(f *diag.Fact) bool {
	switch f.Failure {
	case diag.HTTPClosed, diag.TLSClosed, diag.TLSProtocol:
		return status(f) == 0
	case diag.TCPReset:
		return inPhase(f, "tls", "http", "ws")
	}
	return false
}

// asksForCert reports whether the listener of f asked for a client certificate.
func asksForCert(f *diag.Fact) bool { asked := certRequested(f); return asked != nil && *asked }

// asksForNoCert reports whether the listener of f is known to have asked for none.
func asksForNoCert(f *diag.Fact) bool { asked := certRequested(f); return asked != nil && !*asked }

// certRequested is nil if no handshake got far enough to show it.
func certRequested(f *diag.Fact) *bool {
	if f == nil || f.TLS == nil {
		return nil
	}
	return f.TLS.CertRequested
}

// unlisted reports whether the listener of f names the CAs that it accepts, and issuer is not one of them.
func unlisted(f *diag.Fact, issuer string) bool {
	return f.TLS != nil && len(f.TLS.AcceptableCAs) > 0 && !slices.Contains(f.TLS.AcceptableCAs, issuer)
}

// culpritDenied is the culprit if a listener denies the node by a code: the same code from another listener is the same
// fault.
func culpritDenied(c *Case, f *diag.Fact) string {
	if code(f) == "" {
		return ""
	}
	return "identity of " + c.Subject.NodeID + " " + code(f)
}

func isMTLS(f diag.Failure) bool {
	switch f {
	case diag.MTLSCertRequired, diag.MTLSUnknownCA, diag.MTLSCertExpired, diag.MTLSCertNotYetValid, diag.MTLSCertRejected:
		return true
	}
	return false
}

// culpritAgentEnv is the culprit if the agent's environment is not known.
const culpritAgentEnv = "node agent environment"

// refusedAlike reports whether the operator's connection to the same address is refused as well. Nothing listens there:
// a refusal is an answer, so the way to it works.
func refusedAlike(c *Case, f *diag.Fact) bool {
	control := question(c, f.ID, counterFromOperator)
	return f.Failure == diag.TCPRefused && f.TCP != nil && control != nil && control.all(func(k *diag.Fact) bool {
		return k.Failure == diag.TCPRefused && k.TCP != nil && k.TCP.Remote == f.TCP.Remote
	})
}

// replied reports whether a listener gave f an answer, even a refusal. A mere connection does not count.
func replied(f *diag.Fact) bool {
	return f.Passed() || status(f) != 0 || inPhase(f, "mtls") || endedUnshown(f)
}

// controls reports whether the operator's request is comparable in the phase in which the node's failed: it reached
// that phase, with the same credentials if they matter. The operator has no node certificate, and a pinned address
// needs no look-up.
func controls(f, control *diag.Fact) bool {
	switch {
	case inPhase(f, "dns"):
		return control.Request.Resolve == ""
	case inPhase(f, "tcp"):
		return true
	case inPhase(f, "tls") && !distrusts(f):
		return true
	}
	return f.Request.Cert == "" && rung(f.Phase) > rung("tls")
}

// source describes where an address came from.
func source(d *diag.DNSFacts) string {
	var parts []string
	for _, s := range []string{d.Source, d.SourceLine, d.Server} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// distrusts reports whether f failed at the server's certificate, or at the bundle to verify it with.
func distrusts(f *diag.Fact) bool {
	switch f.Failure {
	case diag.TLSUnknownCA, diag.TLSExpired, diag.TLSNotYetValid, diag.TLSNameMismatch:
		return true
	}
	return inPhase(f, "trust") // an alert, and a broken handshake, are not evidence about the node's trust
}

// distrust describes the server that the node does not trust, and the bundle.
func distrust(f *diag.Fact) string {
	if inPhase(f, "trust") {
		return fmt.Sprintf("the node cannot use its bundle %s to check %s", f.Request.CABundle, where(f))
	}
	return fmt.Sprintf("the node does not trust %s with its bundle %s", where(f), f.Request.CABundle)
}

// noURL is the text for a target that the agent's environment should name.
func noURL(f *diag.Fact, name string) string {
	return fmt.Sprintf("which %s the agent uses is not known: %s", name, f.Detail)
}

// notNamed is the finding of a hop whose listener should be in this variable of the agent's environment, and is not.
func notNamed(f *diag.Fact, variable string) []diag.Finding {
	return []diag.Finding{{
		Status: diag.StatusSkipped, Evidence: []string{f.ID},
		Because: fmt.Sprintf("%s is not set in the agent's environment, so there is no listener to ask", variable),
	}}
}

// notAllowed reports whether f failed only because this login lacks the permission to read. Root may read all.
func notAllowed(f *diag.Fact) bool {
	return f.Failure == diag.NotPermitted ||
		(inPhase(f, "env", "trust", "cert", "key") && (f.Errno == "EACCES" || f.Errno == "EPERM"))
}

// refusesCredential reports whether f is a 401 or 403 to a request with a token or a certificate.
func refusesCredential(f *diag.Fact) bool {
	s := status(f)
	return (s == 401 || s == 403) && (!f.Request.Token.IsZero() || f.Request.Cert != "")
}
