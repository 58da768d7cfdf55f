package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	apiListener      = "node_recovery_status/api_listener"
	terminalListener = "node_recovery_status/terminal_listener"
)

// asksFor is a listener that asks for certificates of these CAs, by a handshake that the bundle verifies.
func asksFor(names ...string) func(*diag.Fact) {
	yes := true
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP, f.Env, f.Cert = "", "", nil, nil, nil
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"}
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes, AcceptableCAs: names, Chain: []diag.CertInfo{leafCert},
			TrustRoots: []diag.CertInfo{{Subject: "CN=node CA", Fingerprint: "5151"}}}
	}
}

// TestListenersWithoutTheNode: if the login on the node fails, the operator's handshakes with the listeners for nodes
// show a drift of the control plane, which is a finding beside the login's. A listener that does not answer the
// operator is none: there may be no path. While the node can be asked, nothing is sent.
func TestListenersWithoutTheNode(t *testing.T) {
	signs := func(print string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			setField("trust.signing_ca", print)(f)
			setField("trust.ingress_ca", "")(f)
		}
	}
	down := failWith(diag.TCPTimeout, "tcp")
	silent := func(a answers) answers {
		return with(silentAgent(), with(answers{loginFact: func(f *diag.Fact) { down(f); f.SSH = nil }}, a))
	}
	for name, tc := range map[string]struct {
		answers answers
		signal  diag.Signal // of the finding; "": none
		text    string
	}{
		"the ingress asks for another CA than the platform signs with": {silent(answers{authFact: signs("5151"),
			apiListener: asksFor("CN=another"), terminalListener: down}), diag.SigIngressCADrift,
			"the platform signs node certificates with CN=node CA (as it states), and the node ingress at " +
				"https://node-api.test asks only for certificates of CN=another"},
		"the two listeners ask for different CAs": {silent(answers{authFact: signs(""), apiListener: asksFor("CN=another"),
			terminalListener: asksFor("CN=node CA", "CN=old")}), diag.SigIngressCADrift, "a node has one certificate for both"},
		"while a CA is replaced": {silent(answers{authFact: signs("5151"), apiListener: asksFor("CN=old", "CN=node CA"),
			terminalListener: asksFor("CN=node CA")}), "", ""},
		"a listener that names no CA": {silent(answers{authFact: signs("5151"), apiListener: asksFor(),
			terminalListener: asksFor("CN=node CA")}), "", ""},
		"a certificate that has ended": {silent(answers{apiListener: presents(diag.TLSExpired, &caCert, leafCert, caCert),
			terminalListener: down}), diag.SigAPITLSFailed, "CN=issuing, is valid from"},
		"a bundle that does not verify it": {silent(answers{apiListener: presents(diag.TLSUnknownCA, nil, leafCert),
			terminalListener: presents(diag.TLSUnknownCA, nil, leafCert)}), "", ""},
		"no path to them": {silent(answers{apiListener: down, terminalListener: down}), "", ""},
	} {
		r := walkWith(t, tc.answers)
		h := hopOf(r, diag.HopNodeRecoveryStatus)
		if h.Signal != tc.signal || !strings.Contains(h.Text, tc.text) || (h.Status == diag.StatusFail) != (tc.signal != "") {
			t.Errorf("%s: %s %s: %s%s\n%s", name, h.Status, h.Signal, h.Text, h.Because, describe(r))
		}
		blamed := func(b *diag.Blame) bool { return b != nil && b.Hop == h.ID && b.Signal == tc.signal }
		found := blamed(r.Verdict.Blame)
		for i := range r.Verdict.OtherFindings {
			found = found || blamed(&r.Verdict.OtherFindings[i])
		}
		if found != (tc.signal != "") {
			t.Errorf("%s: blame %+v, beside %+v", name, r.Verdict.Blame, r.Verdict.OtherFindings)
		}
	}
	for _, f := range walkWith(t, answers{}).Facts {
		if f.ID == apiListener || f.ID == terminalListener {
			t.Errorf("a healthy walk sends %s", f.ID)
		}
	}
}
