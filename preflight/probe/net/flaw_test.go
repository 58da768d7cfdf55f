package net

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// issued is a certificate with its key.
type issued struct {
	*x509.Certificate
	key any
}

// issue signs a certificate for name; a nil signer is the certificate itself.
func issue(t *testing.T, by *issued, name string, change func(*x509.Certificate)) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issueFor(t, by, key, &key.PublicKey, name, change)
}

func issueFor(t *testing.T, by *issued, key, public any, name string, change func(*x509.Certificate)) *issued {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true}
	change(c)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issued{parsed, key}
}

func authority(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }

func forEdge(c *x509.Certificate) { c.DNSNames = []string{"edge.test"} }

// TestFlawsOfAServersCertificate: what is wrong with a chain is one word of a closed list, whichever word the failure
// has; none where the failure says it all.
func TestFlawsOfAServersCertificate(t *testing.T) {
	root := issue(t, nil, "root", authority)
	middle := issue(t, root, "middle", authority)
	leaf := issue(t, middle, "edge.test", forEdge)
	plain := issue(t, root, "plain", func(*x509.Certificate) {})
	constrained := issue(t, root, "constrained", func(c *x509.Certificate) {
		authority(c)
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"other.test"}, true
	})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaRoot := issueFor(t, nil, key, &key.PublicKey, "rsa root", authority)
	sameName, other := issue(t, nil, "root", authority), issue(t, nil, "another root", authority)
	with := func(by *issued, more func(*x509.Certificate)) *issued {
		return issue(t, by, "edge.test", func(c *x509.Certificate) { forEdge(c); more(c) })
	}
	nothing := func(*x509.Certificate) {}
	clients := with(root, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	sha1 := with(rsaRoot, func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA })
	named := issue(t, root, "edge.test", nothing)
	ended := with(middle, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	byAddress := issue(t, root, "edge.test", func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 2)}
	})
	for what, c := range map[string]struct {
		chain []*issued
		roots *issued
		name  string
		word  diag.Failure
		flaw  diag.CertFlaw
	}{
		"whole":                     {[]*issued{leaf, middle}, root, "", diag.OK, ""},
		"in the wrong order":        {[]*issued{leaf, root, middle}, root, "", diag.OK, ""},
		"without its intermediate":  {[]*issued{leaf}, root, "", diag.TLSUnknownCA, diag.FlawNoIssuer},
		"with another intermediate": {[]*issued{leaf, constrained}, root, "", diag.TLSUnknownCA, diag.FlawNoIssuer},
		"to a root that is missing": {[]*issued{leaf, middle, root}, other, "", diag.TLSUnknownCA, ""},
		"a root that has a new key": {[]*issued{leaf, middle}, sameName, "", diag.TLSUnknownCA, diag.FlawOtherKey},
		"signed by itself":          {[]*issued{with(nil, nothing)}, root, "", diag.TLSUnknownCA, diag.FlawSelfSigned},
		"signed by what is no CA":   {[]*issued{with(plain, nothing), plain}, root, "", diag.TLSUnknownCA, diag.FlawNoCA},
		"beyond what its CA may do": {[]*issued{with(constrained, nothing), constrained}, root, "", diag.TLSUnknownCA,
			diag.FlawNotAllowed},
		"for clients alone":        {[]*issued{clients}, root, "", diag.TLSUnknownCA, diag.FlawNotForServer},
		"SHA-1":                    {[]*issued{sha1}, rsaRoot, "", diag.TLSUnknownCA, diag.FlawWeak},
		"the name in the CN alone": {[]*issued{named}, root, "", diag.TLSNameMismatch, diag.FlawNameInCN},
		"asked for by address": {[]*issued{leaf, middle}, root, "192.0.2.1", diag.TLSNameMismatch,
			diag.FlawNoIPName},
		"another address": {[]*issued{byAddress}, root, "192.0.2.1", diag.TLSNameMismatch,
			diag.FlawNoIPName},
		"another name":                 {[]*issued{leaf, middle}, root, "term.test", diag.TLSNameMismatch, ""},
		"of last year, and incomplete": {[]*issued{ended}, root, "", diag.TLSExpired, ""},
	} {
		t.Run(what, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AddCert(c.roots.Certificate)
			var chain []*x509.Certificate
			for _, i := range c.chain {
				chain = append(chain, i.Certificate)
			}
			name := "edge.test"
			if c.name != "" {
				name = c.name
			}
			v := verifyChain(chain, trust{roots: roots, certs: []*x509.Certificate{c.roots.Certificate}}, name, time.Now())
			if v.word != c.word || v.flaw != c.flaw || (v.flaw != "" && !slices.Contains(diag.CertFlaws[:], v.flaw)) {
				t.Errorf("%q with the flaw %q, want %q and %q: %v", v.word, v.flaw, c.word, c.flaw, v.err)
			}
		})
	}
}

// TestAFlawIsInTheFact: a server that sends its certificate alone is shown as that, with where its issuer's certificate
// is.
func TestAFlawIsInTheFact(t *testing.T) {
	kit.NoLeaks(t)
	root := kit.NewAuthority(t, "root")
	leaf := root.Intermediate(t, "middle", time.Now().Add(time.Hour)).Leaf(t, kit.Leaf{})
	leaf.Certificate = leaf.Certificate[:1]
	s := kit.Site(t, leaf, http.NotFoundHandler())
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, []byte(root.PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	f := run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CABundle: bundle})
	if f.Failure != diag.TLSUnknownCA || f.TLS == nil || f.TLS.Flaw != diag.FlawNoIssuer || len(f.TLS.Chain) != 1 ||
		!slices.Equal(f.TLS.Chain[0].Usages, []string{"server", "client"}) {
		t.Errorf("%s: %+v", f.Failure, f.TLS)
	}
}
