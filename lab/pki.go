//go:build linux

package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"
)

// Lifetimes: much longer than a lab's, and with a margin for a clock that is off by an hour.
const (
	backdate     = time.Hour
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
)

// pair is a certificate and its key, both PEM.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCA creates a root. Subjects must be unique: a listener's list of accepted issuers shows names and not
// fingerprints.
func newCA(subject string, now time.Time) (pair, error) {
	return issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: subject, Organization: []string{"GPUaaS lab"}},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLifetime),
	}, nil)
}

// newServer creates a server certificate for names, signed by ca.
func newServer(ca pair, now time.Time, names ...string) (pair, error) {
	return issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   now.Add(-backdate), NotAfter: now.Add(leafLifetime),
	}, &ca)
}

// issue signs t with ca, or with its own key if ca is nil.
func issue(t *x509.Certificate, ca *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	parent, signer := t, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return pair{}, fmt.Errorf("issue a certificate for %s: %w", t.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert, key}, err
}

func (p pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

// pkcs8PEM encodes a private key as PKCS 8, which every tool reads.
func pkcs8PEM(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
