package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

const waitFact = "node_recovery_status/task_wait"

// sent has the listener ask for the node's certificate, get it, and end the question in a phase.
func sent(failure diag.Failure, phase string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		failWith(failure, phase)(f)
		f.HTTP, f.TLS.CertSent = nil, "serial"
	}
}

// htmlOf is a page for people.
func htmlOf(code int, failure diag.Failure) func(*diag.Fact) {
	return func(f *diag.Fact) {
		answerOf(code, failure)(f)
		f.HTTP.ContentType = "text/html"
	}
}

// TestEdges: what an edge does by itself is not blamed on the node, its certificate, or the operator's token.
func TestEdges(t *testing.T) {
	html404, hungUp := htmlOf(404, diag.HTTPStatus), failWith(diag.HTTPClosed, "http")
	closed := func(f *diag.Fact) { hungUp(f); f.HTTP = nil }
	for name, c := range map[string]struct {
		answers answers
		signal  diag.Signal // "": no blame
		owner   string
		never   string // in no text
	}{
		"a revocation list that is out of date": {answers{waitFact: sent(diag.MTLSCertExpired, "mtls")},
			diag.SigIngressCADrift, "PKI, edge profile", "re-enroll the node"},
		"a refusal in JSON without a code": {answers{waitFact: allOf(sent(diag.HTTPStatus, "http"), func(f *diag.Fact) {
			f.HTTP = &diag.HTTPFacts{Status: 403, ContentType: "application/json"}
		})}, diag.SigAPIUnreachable, "edge and route profile, control plane API", "re-enroll the node"},
		"one of several servers with an old certificate": {answers{waitFact: sent(diag.TLSExpired, "tls")},
			diag.SigAPITLSFailed, "PKI, edge profile", "behind it"},
		"a listener that asks for no certificate": {answers{waitFact: func(f *diag.Fact) {
			sent(diag.MTLSNotRequested, "mtls")(f)
			f.HTTP, f.TLS.CertSent, f.TLS.CertRequested = &diag.HTTPFacts{Status: 403}, "", new(bool)
		}}, diag.SigEndpointProfileDrift, "edge and route profile, environment profile", "re-enroll the node"},
		"a login in front of the trust page": {answers{authFact: htmlOf(401, diag.HTTPEdgeAuth)}, "", "operator access",
			"refuses the operator's token"},
		"a status that is not of a node": {answers{taskFact: nobodyClaims,
			readModelFact: func(f *diag.Fact) { f.HTTP.Fields = map[string]string{"node.status": "ok"} }},
			diag.SigTaskClaimFailed, "", "never heard"},
		"no route to the nodes": {answers{readModelFact: html404, allocationFact: html404}, "",
			"edge and route profile, operator access", "knows no"},
		"a backend that hangs up": {answers{readModelFact: closed, mintFact: closed}, diag.SigControlPlaneUnreachable,
			"control plane API, edge and route profile", "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			v, signal, text := r.Verdict, diag.Signal(""), r.Verdict.Because+strings.Join(r.Verdict.Recovery, "\n")
			if v.Blame != nil {
				signal, text = v.Blame.Signal, text+v.Blame.Text
			}
			for _, h := range r.Hops {
				text += h.Text + h.Because
			}
			if signal != c.signal || (c.owner != "" && v.Owner != c.owner) || strings.Contains(text, c.never) ||
				v.Outcome == diag.OutcomePass {
				t.Errorf("signal %q, owner %q, want %q and %q, and not %q\n%s\n%s", signal, v.Owner, c.signal, c.owner, c.never,
					describe(r), text)
			}
		})
	}
}
