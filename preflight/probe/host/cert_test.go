package host

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func certFact(t *testing.T, cert, key, node string) diag.Fact {
	t.Helper()
	return run(t, diag.Request{Op: diag.OpCert, Cert: cert, Key: key, NodeID: node})
}

func TestCertGood(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{kit.NewKey(t), edKey, rsaKey} {
		cert, keyFile := kit.SelfSigned(t, key, nil)
		f := certFact(t, cert, keyFile, "node-7")
		c := f.Cert
		if f.Failure != diag.OK || !*c.KeyMatches || !*c.NodeBound || c.BoundTo != "node-7" || c.Leaf.Serial != "abc" {
			t.Errorf("%T: %+v %+v", key, f, c)
		}
	}
}

func TestCertOldKeyFormats(t *testing.T) {
	key := kit.NewKey(t)
	cert, _ := kit.SelfSigned(t, key, nil)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	// openssl writes the curve's parameters before the key.
	file := kit.WritePEM(t, t.TempDir(), "ec.pem", "EC PRIVATE KEY", raw)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	params := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 1, 0}})
	if err := os.WriteFile(file, append(params, b...), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := certFact(t, cert, file, ""); f.Failure != diag.OK || f.Cert.NodeBound != nil {
		t.Errorf("%+v %+v", f, f.Cert)
	}
}

func TestCertDates(t *testing.T) {
	cert, key := kit.SelfSigned(t, kit.NewKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	if f := certFact(t, cert, key, ""); f.Failure != diag.MTLSCertExpired || !*f.Cert.KeyMatches {
		t.Errorf("%+v", f)
	}
	// Dates that contradict each other: not before the future, not after the past. A certificate that has not begun
	// cannot have expired.
	cert, key = kit.SelfSigned(t, kit.NewKey(t), func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	})
	if f := certFact(t, cert, key, ""); f.Failure != diag.MTLSCertNotYetValid {
		t.Errorf("%+v", f)
	}
}

func TestCertBinding(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*x509.Certificate)
		bound   bool
		boundTo string
	}{
		{"another node", func(c *x509.Certificate) { c.Subject.CommonName = "node-70" }, false, "node-70"},
		{"a DNS name", func(c *x509.Certificate) { c.Subject.CommonName = ""; c.DNSNames = []string{"node-7"} }, true,
			"node-7"},
		{"a URI", func(c *x509.Certificate) {
			c.Subject.CommonName = "agent"
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "gpuaas", Path: "/node/node-7"}}
		}, true, "node-7"},
		{"another's URI", func(c *x509.Certificate) {
			c.Subject.CommonName = "agent"
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "gpuaas", Path: "/node-7/x"}}
		}, false, "x"},
		{"an opaque URI", func(c *x509.Certificate) {
			c.Subject.CommonName = ""
			c.URIs = []*url.URL{{Scheme: "urn", Opaque: "node-7"}}
		}, true, "node-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert, key := kit.SelfSigned(t, kit.NewKey(t), c.change)
			f := certFact(t, cert, key, "node-7")
			if f.Failure != diag.OK || *f.Cert.NodeBound != c.bound || f.Cert.BoundTo != c.boundTo {
				t.Errorf("%+v %+v", f, f.Cert)
			}
		})
	}
}

func TestCertFiles(t *testing.T) {
	cert, key := kit.SelfSigned(t, kit.NewKey(t), nil)
	_, otherKey := kit.SelfSigned(t, kit.NewKey(t), nil)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKind := kit.SelfSigned(t, edKey, nil)
	noise := kit.TempFile(t, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
	for _, c := range []struct {
		name, cert, key string
		word            diag.Failure
		phase           string
	}{
		{"no certificate", cert + "x", key, diag.FileMissing, "cert"},
		{"no path", "", key, diag.FileMissing, "cert"},
		{"no PEM", kit.TempFile(t, "nothing"), key, diag.FileUnparseable, "cert"},
		{"a key as the certificate", key, key, diag.FileUnparseable, "cert"},
		{"a folder", t.TempDir(), key, diag.FileUnreadable, "cert"},
		{"no key", cert, key + "x", diag.FileMissing, "key"},
		{"a broken key", cert, noise, diag.FileUnparseable, "key"},
		{"a certificate as the key", cert, cert, diag.FileUnparseable, "key"},
		{"another key", cert, otherKey, diag.FileMismatch, "key"},
		{"another kind of key", cert, otherKind, diag.FileMismatch, "key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := certFact(t, c.cert, c.key, "node-7")
			if f.Failure != c.word || f.Phase != c.phase {
				t.Errorf("%s in %s: %s", f.Failure, f.Phase, f.Detail)
			}
			if c.phase == "key" && (f.Cert == nil || f.Cert.Leaf.Serial != "abc") {
				t.Error("the certificate itself is not in the fact")
			}
			if strings.Contains(f.Detail, "c2VjcmV0") || strings.Contains(f.Detail, "secret") {
				t.Errorf("the key's text is in %q", f.Detail)
			}
		})
	}
}

// TestCertBundle: a bundle is read like a credential: its first certificate, then the others.
func TestCertBundle(t *testing.T) {
	first, _ := kit.SelfSigned(t, kit.NewKey(t), nil)
	second, _ := kit.SelfSigned(t, kit.NewKey(t), func(c *x509.Certificate) { c.Subject.CommonName = "second" })
	var both []byte
	for _, path := range []string{first, second} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.crt")
	if err := os.WriteFile(bundle, both, 0o600); err != nil {
		t.Fatal(err)
	}
	f := kit.Run(t.Context(), &Prober{}, diag.Request{Op: diag.OpCert, Cert: bundle})
	if f.Failure != diag.OK || f.Cert == nil || len(f.Cert.Chain) != 1 || f.Cert.Chain[0].Subject != "CN=second" {
		t.Errorf("%s %s: %+v", f.Failure, f.Detail, f.Cert)
	}
}
