package probetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SelfSigned writes a self-signed certificate with key for node, and returns the paths.
func SelfSigned(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) (cert, keyFile string) {
	t.Helper()
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(0xabc), Subject: pkix.Name{CommonName: "node-7"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return WritePEM(t, dir, "cert.pem", "CERTIFICATE", der), WritePEM(t, dir, "key.pem", "PRIVATE KEY", raw)
}

// WritePEM writes one PEM block to a file of dir, and returns its path.
func WritePEM(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Authority is a test's CA.
type Authority struct {
	PEM  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes a CA with this common name.
func NewAuthority(t *testing.T, name string) Authority {
	t.Helper()
	return newAuthority(t, name, time.Now().Add(time.Hour), nil)
}

// NewAuthorityUntil is NewAuthority with another end.
func NewAuthorityUntil(t *testing.T, name string, notAfter time.Time) Authority {
	t.Helper()
	return newAuthority(t, name, notAfter, nil)
}

// Intermediate makes a CA that a signs. Its leaves present it with themselves.
func (a Authority) Intermediate(t *testing.T, name string, notAfter time.Time) Authority {
	t.Helper()
	return newAuthority(t, name, notAfter, &a)
}

// newAuthority makes a CA that by signs; nil: it signs itself.
func newAuthority(t *testing.T, name string, notAfter time.Time, by *Authority) Authority {
	t.Helper()
	key := NewKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name, Organization: []string{"GPUaaS test"}},
		NotBefore: notAfter.Add(-2 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signer, signs := tmpl, key
	if by != nil {
		signer, signs = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, signer, key.Public(), signs)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Authority{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), cert: cert, key: key}
}

// Leaf is how a certificate differs from a valid one for 127.0.0.1 and edge.test.
type Leaf struct {
	Name      string // DNS name instead of edge.test and the address
	NotBefore time.Time
	NotAfter  time.Time
}

// Leaf signs a certificate that is valid for servers and clients.
func (a Authority) Leaf(t *testing.T, o Leaf) tls.Certificate {
	t.Helper()
	key := NewKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"edge.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if o.Name != "" {
		tmpl.DNSNames, tmpl.IPAddresses = []string{o.Name}, nil
	}
	if !o.NotBefore.IsZero() {
		tmpl.NotBefore = o.NotBefore
	}
	if !o.NotAfter.IsZero() {
		tmpl.NotAfter = o.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
}

// Pool has the CA alone.
func (a Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// WritePair writes a certificate and its key to files for a request.
func WritePair(t *testing.T, c tls.Certificate) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	der, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, key: {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// NewKey returns a new private key.
func NewKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t *testing.T) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	return n.Add(n, big.NewInt(1))
}
