package net

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestMisdatedCertificateIsNamed: of a chain with wrong dates the fact has the certificate at fault, with its own
// dates: the server's own, a CA that is presented with it, or a root of the bundle.
func TestMisdatedCertificateIsNamed(t *testing.T) {
	kit.NoLeaks(t)
	past, soon := time.Now().Add(-time.Minute), time.Now().Add(3*time.Hour)
	root := kit.NewAuthority(t, "root")
	for name, tc := range map[string]struct {
		root  kit.Authority
		by    kit.Authority
		leaf  kit.Leaf
		word  diag.Failure
		fault string // subject of the certificate at fault
	}{
		"the leaf": {root, root, kit.Leaf{NotAfter: past}, diag.TLSExpired, "CN=leaf"},
		"a CA in the chain": {root, root.Intermediate(t, "issuing", past), kit.Leaf{}, diag.TLSExpired,
			"CN=issuing,O=GPUaaS test"},
		"a CA in the chain of tomorrow": {root, root.Intermediate(t, "issuing", soon), kit.Leaf{}, diag.TLSNotYetValid,
			"CN=issuing,O=GPUaaS test"},
		"the root": {kit.NewAuthorityUntil(t, "old root", past), kit.Authority{}, kit.Leaf{}, diag.TLSExpired,
			"CN=old root,O=GPUaaS test"},
		"none: a chain in date":      {root, root.Intermediate(t, "issuing", time.Now().Add(time.Hour)), kit.Leaf{}, "", ""},
		"none: an unknown authority": {kit.NewAuthority(t, "another"), root, kit.Leaf{}, diag.TLSUnknownCA, ""},
	} {
		by := tc.by
		if by == (kit.Authority{}) {
			by = tc.root
		}
		s := kit.Site(t, by.Leaf(t, tc.leaf), kit.Page(200, kit.JSONType, "{}"))
		f := run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: tc.root.PEM})
		if f.Failure != tc.word {
			t.Errorf("%s: %q: %s", name, f.Failure, f.Detail)
		}
		switch m := f.TLS.Misdated; {
		case (m == nil) != (tc.fault == ""):
			t.Errorf("%s: %+v", name, m)
		case m != nil && (m.Subject != tc.fault || (m.NotAfter.After(time.Now()) && m.NotBefore.Before(time.Now()))):
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestUnreadRootsAreCounted: a certificate of a bundle that a parser passes over in silence is in the fact.
func TestUnreadRootsAreCounted(t *testing.T) {
	kit.NoLeaks(t)
	first, other := kit.NewAuthority(t, "first"), kit.NewAuthority(t, "other")
	s := kit.Site(t, first.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"))
	for name, tc := range map[string]struct {
		bundle string
		word   diag.Failure
		unread int
	}{
		"two":                                {first.PEM + other.PEM, diag.OK, 0},
		"a byte order mark before the first": {"\ufeff" + first.PEM + other.PEM, diag.TLSUnknownCA, 1},
		"and before the other one":           {first.PEM + " " + other.PEM, diag.OK, 1},
		"comments between":                   {"# first\n" + first.PEM + "\n# other\n" + other.PEM, diag.OK, 0},
	} {
		f := run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: tc.bundle})
		if f.Failure != tc.word || f.TLS == nil || f.TLS.TrustUnread != tc.unread {
			t.Errorf("%s: %q, %+v: %s", name, f.Failure, f.TLS, f.Detail)
		}
	}
}
