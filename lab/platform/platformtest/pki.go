package platformtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority is a CA of a test.
type authority struct {
	cert   *x509.Certificate
	key    crypto.Signer
	pem    []byte
	keyPEM []byte
}

func newAuthority(tb testing.TB, name string) authority {
	tb.Helper()
	key := newKey(tb)
	t := &x509.Certificate{
		SerialNumber: newSerial(tb), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return authority{cert: cert, key: key, pem: certPEM(der), keyPEM: keyPEM(tb, key)}
}

// issue creates a key pair from a template; it fills in zero dates and a zero serial.
func (a authority) issue(tb testing.TB, t *x509.Certificate) (cert, key []byte) {
	tb.Helper()
	k := newKey(tb)
	if t.SerialNumber == nil {
		t.SerialNumber = newSerial(tb)
	}
	if t.NotBefore.IsZero() {
		t.NotBefore = time.Now().Add(-time.Hour)
	}
	if t.NotAfter.IsZero() {
		t.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return certPEM(der), keyPEM(tb, k)
}

func (a authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// serverTemplate names every host under which the tests reach a server.
func serverTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		DNSNames:    []string{"localhost", "api.gpuaas.test", "term.gpuaas.test", "node-api.gpuaas.test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

func serverPair(tb testing.TB, a authority, name string) (tls.Certificate, []byte) {
	tb.Helper()
	cert, key := a.issue(tb, serverTemplate(name))
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		tb.Fatal(err)
	}
	return pair, cert
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func newSerial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func newTaskKey(tb testing.TB) []byte {
	tb.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return keyPEM(tb, k)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(tb testing.TB, k crypto.Signer) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
