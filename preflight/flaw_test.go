package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// flawed is a server whose certificate does not verify, with what is known of why.
func flawed(word diag.Failure, flaw diag.CertFlaw, change func(*diag.CertInfo)) func(*diag.Fact) {
	leaf := leafCert
	if change != nil {
		change(&leaf)
	}
	return func(f *diag.Fact) {
		presents(word, nil, leaf)(f)
		f.TLS.Flaw, f.TLS.TrustSource = flaw, "/etc/ca.pem"
	}
}

// TestFlawOfACertificateIsSaid: wherever a certificate is judged, the finding says what is wrong with it, whose it is,
// and the steps repair that.
func TestFlawOfACertificateIsSaid(t *testing.T) {
	const route, api = "terminal_public_route/healthz", "control_plane_access/healthz"
	ended := func(c *diag.CertInfo) { c.NotAfter = diag.At(noon.AddDate(-1, 0, 0)) }
	for what, c := range map[string]struct {
		step   string
		do     func(*diag.Fact)
		signal diag.Signal
		owner  string
		says   string
		step1  string // among the steps
	}{
		"the terminal's edge has one of last year": {route, flawed(diag.TLSExpired, "", ended), diag.SigTerminalEdgeTLS,
			"PKI, edge profile", "valid from 2026-01-02 11:00:00 to 2025-01-02 12:00:00", "and reload the edge"},
		"the terminal's edge has another name": {route, flawed(diag.TLSNameMismatch, "", nil), diag.SigTerminalEdgeTLS,
			"PKI, edge profile", "does not verify", "present a certificate for its name"},
		"the terminal's edge lacks the intermediate": {route, flawed(diag.TLSUnknownCA, diag.FlawNoIssuer, nil),
			diag.SigTerminalEdgeTLS, "PKI, edge profile", "without the intermediate that signed it", "full chain"},
		"the API lacks the intermediate": {api, flawed(diag.TLSUnknownCA, diag.FlawNoIssuer, nil),
			diag.SigControlPlaneUnreachable, "", "without the intermediate that signed it: nothing that it presents, and " +
				"nothing in /etc/ca.pem, is CN=issuing", "full chain"},
		"the API has an address in its URL": {api, flawed(diag.TLSNameMismatch, diag.FlawNoIPName, nil),
			diag.SigControlPlaneUnreachable, "", "it was asked for by address", ""},
		"the node API is for clients": {reach, flawed(diag.TLSUnknownCA, diag.FlawNotForServer, func(c *diag.CertInfo) {
			c.Usages = []string{"client"}
		}), diag.SigAPITLSFailed, "PKI, edge profile", "may not be used by servers: its extended key usage is client", ""},
		"the node API has the name in the CN": {reach, flawed(diag.TLSNameMismatch, diag.FlawNameInCN, nil),
			diag.SigAPITLSFailed, "PKI, edge profile", "in its subject (CN) alone", ""},
		"the node API's CA has a new key": {reach, flawed(diag.TLSUnknownCA, diag.FlawOtherKey, nil),
			diag.SigAPITLSFailed, "PKI, edge profile", "that CA has a new key", ""},
		"the node API signed itself": {reach, flawed(diag.TLSUnknownCA, diag.FlawSelfSigned, nil),
			diag.SigAPITLSFailed, "PKI, edge profile", "it signed itself", ""},
		"the node API signs with SHA-1": {reach, flawed(diag.TLSUnknownCA, diag.FlawWeak, nil),
			diag.SigAPITLSFailed, "PKI, edge profile", "SHA-1", ""},
		"the node API's intermediate is elsewhere": {reach, flawed(diag.TLSUnknownCA, diag.FlawNoIssuer,
			func(c *diag.CertInfo) { c.IssuerURL = "http://aia.test/issuing.crt" }),
			diag.SigAPITLSFailed, "PKI, edge profile", "is CN=issuing (issuing.crt)", "name that CA"},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, answers{c.step: c.do})
			v := r.Verdict
			if v.Blame == nil {
				t.Fatalf("no blame\n%s", describe(r))
			}
			steps := strings.Join(v.Recovery, "\n")
			if v.Blame.Signal != c.signal || (c.owner != "" && v.Owner != c.owner) ||
				!strings.Contains(v.Blame.Text, c.says) ||
				!strings.Contains(steps, c.step1) {
				t.Errorf("%s of %s: %s\n%s", v.Blame.Signal, v.Owner, v.Blame.Text, steps)
			}
		})
	}
}

// TestACertificateThatClientsMayNotUse: the refusal of a node's certificate by an ingress that verifies clients is the
// certificate's own fault, in whichever form it is refused; where it is taken, nothing is wrong.
func TestACertificateThatClientsMayNotUse(t *testing.T) {
	usages := func(words ...string) func(*diag.Fact) {
		return func(f *diag.Fact) { f.Cert.Leaf.Usages = words }
	}
	page := func(f *diag.Fact) {
		sent(diag.MTLSIngress400, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: 400, Page: "ssl_certificate_error"}
	}
	for what, c := range map[string]struct {
		usages  []string
		wait    func(*diag.Fact)
		blames  bool // the certificate's usage
		outcome diag.Outcome
	}{
		"nginx's page":               {[]string{"server"}, page, true, diag.OutcomeFail},
		"a TLS alert":                {[]string{"server"}, sent(diag.MTLSCertRejected, "mtls"), true, diag.OutcomeFail},
		"an alert about its CA":      {[]string{"server"}, sent(diag.MTLSUnknownCA, "mtls"), false, diag.OutcomeFail},
		"the end of the connection":  {[]string{"other"}, sent(diag.HTTPClosed, "http"), true, diag.OutcomeFail},
		"it is for clients":          {[]string{"server", "client"}, page, false, diag.OutcomeFail},
		"it is for any use":          {[]string{"any"}, page, false, diag.OutcomeFail},
		"it has no limit":            {nil, page, false, diag.OutcomeFail},
		"an ingress that takes it":   {[]string{"server"}, func(*diag.Fact) {}, false, diag.OutcomePass},
		"an ingress that fails":      {[]string{"server"}, answerOf(502, diag.HTTPStatus), false, diag.OutcomeFail},
		"nobody answers it, by then": {[]string{"server"}, failWith(diag.TCPTimeout, "tcp"), false, diag.OutcomeFail},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, answers{"node_recovery_status/identity": usages(c.usages...), waitFact: c.wait})
			v, text, steps := r.Verdict, "", strings.Join(r.Verdict.Recovery, "\n")
			if v.Blame != nil {
				text = v.Blame.Text
			}
			said := strings.Contains(text, "this certificate may not be used by clients (EKU)")
			if v.Outcome != c.outcome || said != c.blames || strings.Contains(steps, "clientAuth") != c.blames ||
				(c.blames && (v.Blame.Signal != diag.SigAuthFailed || v.Confidence != diag.Observed)) {
				t.Errorf("%s, said %t: %+v\n%s\n%s", v.Outcome, said, v.Blame, steps, describe(r))
			}
		})
	}
}
