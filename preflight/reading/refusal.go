package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// A server refuses a client certificate by a TLS alert, by HTTP above TLS, or by ending the connection, before or
// after the handshake: the form depends on the server rather than on the certificate. So judges use these functions.

// RefusesCert reports whether a listener that asked for and got the certificate of f did not let the request through,
// and may have done so because of the certificate.
func RefusesCert(f *diag.Fact) bool {
	if f == nil || f.Passed() || f.Throttled() {
		return false
	}
	s := Status(f)
	switch {
	case IsMTLS(f.Failure), f.Failure == diag.MTLSIngress400:
		return true
	case !AsksForCert(f) || f.TLS.CertSent == "":
		return false
	case Withheld(f):
		return true
	}
	return (s == 400 && !PlatformSpeaks(f)) || ((s == 401 || s == 403) && !PlatformDenies(f)) || (Vague(f) && s != 400)
}

// Withheld reports whether a listener asked for and got the certificate of f, but the platform behind it reports that
// it did not get it. The platform then judged no certificate.
func Withheld(f *diag.Fact) bool {
	return AsksForCert(f) && f.TLS.CertSent != "" && !f.Throttled() && diag.MissingFromEdge(Code(f)) != ""
}

// HeldBack is the finding for EdgeWithholds. Both listeners of a platform may be behind one edge, hence the culprit.
func HeldBack(sig diag.Signal, f *diag.Fact, reason diag.ReasonCode) diag.Finding {
	out := Fail(sig, f, "%s requests the node's certificate, gets it, and does not pass it on: %s (%s)", Where(f),
		diag.MissingFromEdge(Code(f)), Saw(f))
	out.Side, out.Reason, out.Culprit = diag.SideEdge, reason, culpritEdgeKeeps
	return out
}

// culpritEdgeKeeps is the culprit if an edge does not pass on the certificate that it got.
const culpritEdgeKeeps = "edge that ends the node's TLS"

// Vague reports whether a refusal has no stated cause: the end of the connection, an alert that is not about a
// certificate, a 401 or 403 that may come from a rule, a 400 that names no certificate and may come from a limit on
// requests. Servers use each of these to reject a certificate.
func Vague(f *diag.Fact) bool {
	s := Status(f)
	return HungUp(f) || s == 401 || s == 403 || (s == 400 && !IsMTLS(f.Failure) && f.Failure != diag.MTLSIngress400)
}

// Admitted reports whether the node API accepted a task wait: an HTML page or a redirect comes from something else.
func Admitted(f *diag.Fact) bool {
	return f.Passed() && (f.HTTP == nil ||
		(Good(f) && !strings.HasPrefix(strings.ToLower(f.HTTP.ContentType), "text/html")))
}

// EndedUnshown reports whether a listener asked for a certificate, got none, and ended the connection without a reason,
// as load balancers do. Only a step that sends a certificate measures the answer to one.
func EndedUnshown(f *diag.Fact) bool { return AsksForCert(f) && f.TLS.CertSent == "" && HungUp(f) }

// HungUp reports whether the listener ended the connection within or after the handshake, before any answer: by
// closing it, or by an alert that is not about a certificate.
func HungUp(f *diag.Fact) bool {
	switch f.Failure {
	case diag.HTTPClosed, diag.TLSClosed, diag.TLSProtocol:
		return Status(f) == 0
	case diag.TCPReset:
		return InPhase(f, "tls", "http", "ws")
	}
	return false
}

// AsksForCert reports whether the listener of f asked for a client certificate.
func AsksForCert(f *diag.Fact) bool { asked := certRequested(f); return asked != nil && *asked }

// AsksForNoCert reports whether the listener of f is known to have asked for none.
func AsksForNoCert(f *diag.Fact) bool { asked := certRequested(f); return asked != nil && !*asked }

// certRequested is nil if no handshake got far enough to show it.
func certRequested(f *diag.Fact) *bool {
	if f == nil || f.TLS == nil {
		return nil
	}
	return f.TLS.CertRequested
}

// Unlisted reports whether the listener of f names the CAs that it accepts, and issuer is not one of them.
func Unlisted(f *diag.Fact, issuer string) bool {
	return f.TLS != nil && len(f.TLS.AcceptableCAs) > 0 && !slices.Contains(f.TLS.AcceptableCAs, issuer)
}

// CulpritDenied is the culprit if a listener denies the node by a code: the same code from another listener is the same
// fault.
func CulpritDenied(c *hop.Case, f *diag.Fact) string {
	if Code(f) == "" {
		return ""
	}
	return "identity of " + c.Subject.NodeID + " " + Code(f)
}

// IsMTLS reports whether a failure is about the client's certificate.
func IsMTLS(f diag.Failure) bool {
	switch f {
	case diag.MTLSCertRequired, diag.MTLSUnknownCA, diag.MTLSCertExpired, diag.MTLSCertNotYetValid, diag.MTLSCertRejected:
		return true
	}
	return false
}

// CulpritAgentEnv is the culprit if the agent's environment is not known.
const CulpritAgentEnv = "node agent environment"

// RefusedAlike reports whether the operator's connection to the same address is refused as well. Nothing listens there:
// a refusal is an answer, so the way to it works.
func RefusedAlike(c *hop.Case, f *diag.Fact) bool {
	control := hop.RequestOf(c, f.ID, CounterFromOperator)
	return f.Failure == diag.TCPRefused && f.TCP != nil && control != nil && control.All(func(k *diag.Fact) bool {
		return k.Failure == diag.TCPRefused && k.TCP != nil && k.TCP.Remote == f.TCP.Remote
	})
}

// Replied reports whether a listener gave f an answer, even a refusal. A mere connection does not count.
func Replied(f *diag.Fact) bool {
	return f.Passed() || Status(f) != 0 || InPhase(f, "mtls") || EndedUnshown(f)
}

// Controls reports whether the operator's request is comparable in the phase in which the node's failed: it reached
// that phase, with the same credentials if they matter. The operator has no node certificate, and a pinned address
// needs no look-up.
func Controls(f, control *diag.Fact) bool {
	switch {
	case InPhase(f, "dns"):
		return control.Request.Resolve == ""
	case InPhase(f, "tcp"):
		return true
	case InPhase(f, "tls") && !Distrusts(f):
		return true
	}
	return f.Request.Cert == "" && Rung(f.Phase) > Rung("tls")
}

// Source describes where an address came from.
func Source(d *diag.DNSFacts) string {
	var parts []string
	for _, s := range []string{d.Source, d.SourceLine, d.Server} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// Distrusts reports whether f failed at the server's certificate, or at the bundle to verify it with.
func Distrusts(f *diag.Fact) bool {
	switch f.Failure {
	case diag.TLSUnknownCA, diag.TLSExpired, diag.TLSNotYetValid, diag.TLSNameMismatch:
		return true
	}
	return InPhase(f, "trust") // an alert, and a broken handshake, are not evidence about the node's trust
}

// Distrust describes the server that the node does not trust, and the bundle.
func Distrust(f *diag.Fact) string {
	if InPhase(f, "trust") {
		return fmt.Sprintf("the node cannot use its bundle %s to check %s", f.Request.CABundle, Where(f))
	}
	return fmt.Sprintf("the node does not trust %s with its bundle %s%s", Where(f), f.Request.CABundle, UnreadRoots(f))
}

// UnreadRoots describes certificates of a bundle that cannot be read; "" if all can.
func UnreadRoots(f *diag.Fact) string {
	if f.TLS == nil || f.TLS.TrustUnread == 0 {
		return ""
	}
	return fmt.Sprintf(", of whose certificates %d cannot be read, as after a byte order mark", f.TLS.TrustUnread)
}

// NoURL is the text for a target that the agent's environment should name.
func NoURL(f *diag.Fact, name string) string {
	return fmt.Sprintf("which %s the agent uses is not known: %s", name, f.Detail)
}

// NotNamed is the finding of a hop whose listener should be in this variable of the agent's environment, and is not.
func NotNamed(f *diag.Fact, variable string) diag.Finding {
	return diag.Finding{
		Status: diag.StatusSkipped, Evidence: []string{f.ID},
		Because: fmt.Sprintf("%s is not set in the agent's environment, so there is no listener to ask", variable),
	}
}

// NotAllowed reports whether f failed only because this login lacks the permission to read. Root may read all.
func NotAllowed(f *diag.Fact) bool {
	return f.Failure == diag.NotPermitted ||
		(InPhase(f, "env", "trust", "cert", "key") && (f.Errno == "EACCES" || f.Errno == "EPERM"))
}

// RefusesCredential reports whether f is a 401 or 403 to a request with a token or a certificate.
func RefusesCredential(f *diag.Fact) bool {
	s := Status(f)
	return (s == 401 || s == 403) && (!f.Request.Token.IsZero() || f.Request.Cert != "")
}
