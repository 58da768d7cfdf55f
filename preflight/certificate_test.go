package preflight

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// leafCert and caCert are what a server presents.
var (
	leafCert = diag.CertInfo{Subject: "CN=node-api", Issuer: "CN=issuing", Fingerprint: "11",
		NotBefore: diag.At(noon.Add(-time.Hour)), NotAfter: diag.At(noon.AddDate(10, 0, 0))}
	caCert = diag.CertInfo{Subject: "CN=issuing", Issuer: "CN=root", Fingerprint: "22",
		NotBefore: diag.At(noon.AddDate(-1, 0, 0)), NotAfter: diag.At(noon.Add(-time.Hour))}
)

// presents is a server whose certificate the node does not verify.
func presents(word diag.Failure, misdated *diag.CertInfo, chain ...diag.CertInfo) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP, f.WS = word, "tls", nil, nil
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"}
		f.TLS = &diag.TLSFacts{Chain: chain, Misdated: misdated, TrustSource: f.Request.CABundle}
	}
}

// TestMisdatedCAIsNamed: of a chain, the certificate whose dates are at fault is named with its own dates, and it is
// the observed cause. The one of the server is valid for years.
func TestMisdatedCAIsNamed(t *testing.T) {
	dates := "valid from 2025-01-02 12:00:00 to 2026-01-02 11:00:00"
	for name, tc := range map[string]struct {
		misdated *diag.CertInfo
		want     string
		field    string
	}{
		"a CA that is presented": {&caCert,
			"the CA certificate that the server presents with its own, CN=issuing, is " + dates, "tls.misdated"},
		"a root of the bundle": {&diag.CertInfo{Subject: "CN=root", Fingerprint: "33", NotBefore: caCert.NotBefore,
			NotAfter: caCert.NotAfter}, "the root in /etc/gpuaas/ca-bundle.crt, CN=root, is " + dates, "tls.misdated"},
		"a report from before": {nil, "valid until 2036", ""},
	} {
		r := walkWith(t, with(silentAgent(), answers{reach: presents(diag.TLSExpired, tc.misdated, leafCert, caCert)}))
		v := r.Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigAPITLSFailed || !strings.Contains(v.Blame.Text, tc.want) {
			t.Errorf("%s: %+v\n%s", name, v.Blame, describe(r))
			continue
		}
		switch o := v.Observation; {
		case (o == nil) != (tc.field == ""):
			t.Errorf("%s: observed %+v", name, o)
		case o != nil && (o.Field != tc.field || !strings.Contains(o.Text, "ended at 2026-01-02T11:00:00")):
			t.Errorf("%s: observed %+v", name, o)
		}
	}
}

// TestLeafOfOneNode: where the node alone is shown another certificate than the operator, something on its path ends
// its TLS; the text has both, and what the platform states. Nobody re-enrolls a node over that.
func TestLeafOfOneNode(t *testing.T) {
	other := diag.CertInfo{Subject: "CN=node-api", Issuer: "CN=proxy", Fingerprint: "99", NotAfter: leafCert.NotAfter}
	const network = "environment networking"
	for name, tc := range map[string]struct {
		operator *diag.CertInfo
		stated   string
		want     string
		owner    string
	}{
		"the operator and the platform have another": {&leafCert, "11",
			"the operator gets another one, by CN=issuing, sha256 11..., and the node gets 99...; " +
				"the platform states the operator's, so something on this node's path ends its TLS", network},
		"the operator has another": {&leafCert, "", "so something on this node's path ends its TLS", network},
		"three certificates":       {&leafCert, "77", "sha256 11..., and the node gets 99...", "PKI, edge profile"},
		"the operator has the same, and the platform another": {&other, "11",
			"the operator gets the same one, and the platform states another one, sha256 11...", "PKI, edge profile"},
		"the operator has the same": {&other, "", "presented: CN=node-api by CN=proxy", "PKI, edge profile"},
		"the platform alone has another": {nil, "11",
			"the platform states another one, sha256 11..., and the node gets 99..., so something else may end",
			"PKI, edge profile"},
		"the platform alone has the same": {nil, "99", "presented: CN=node-api by CN=proxy", "PKI, edge profile"},
	} {
		control := failWith(diag.TCPTimeout, "tcp")
		if tc.operator != nil {
			control = presents(diag.TLSUnknownCA, nil, *tc.operator)
		}
		world := answers{reach: presents(diag.TLSUnknownCA, nil, other), reach + "~from-operator": control}
		if tc.stated != "" {
			world[authFact] = setField("trust.node_api_server", tc.stated)
		}
		r := walkWith(t, with(silentAgent(), world))
		v := r.Verdict
		if v.Blame == nil || !strings.Contains(v.Blame.Text, tc.want) || v.Owner != tc.owner {
			t.Errorf("%s: %s: %+v", name, v.Owner, v.Blame)
		}
		if reenroll := strings.Contains(strings.Join(v.Recovery, " "), "node reenroll"); reenroll == (tc.owner == network) {
			t.Errorf("%s: re-enroll: %t", name, reenroll)
		}
	}
}

// TestUnreadRootsAreSaid: a certificate of the bundle that nobody can read is in the finding of a server that the node
// does not trust, and a warning where the node trusts it by another one.
func TestUnreadRootsAreSaid(t *testing.T) {
	unread := func(f *diag.Fact) {
		f.TLS = cmp.Or(f.TLS, &diag.TLSFacts{CertRequested: new(true), Verified: true})
		f.TLS.TrustUnread, f.Request.CABundle = 1, "/etc/gpuaas/ca-bundle.crt"
	}
	for name, tc := range map[string]struct {
		reach  func(*diag.Fact)
		status diag.Status
	}{
		"trusted by another": {unread, diag.StatusWarn},
		"not trusted": {func(f *diag.Fact) {
			failWith(diag.TLSUnknownCA, "tls")(f)
			unread(f)
		}, diag.StatusFail},
	} {
		r := walkWith(t, answers{reachFact: tc.reach})
		h := hopOf(r, diag.HopNodeRuntimeAPI)
		if h.Status != tc.status || !strings.Contains(h.Text, "of whose certificates 1 cannot be read") {
			t.Errorf("%s: %s %s%s", name, h.Status, h.Text, h.Because)
		}
	}
}
