package chaos

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// Authority is who signs a drill's certificates: the environment's own signing CA.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ParseAuthority reads certificate and key of a CA, both PEM.
func ParseAuthority(cert, key []byte) (*Authority, error) {
	block, _ := pem.Decode(cert)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate of a CA")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate of the CA: %w", err)
	}
	block, _ = pem.Decode(key)
	if block == nil {
		return nil, errors.New("no key of a CA")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if k, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return nil, errors.New("the key of the CA is neither PKCS 8 nor EC")
		}
	}
	signer, ok := k.(crypto.Signer)
	if !ok || !c.IsCA {
		return nil, errors.New("this is no CA that could sign")
	}
	return &Authority{c, signer}, nil
}

// Make mints m, as far as this machine can: certificates, a CA, a key. A token is the platform's to issue, and a bearer
// the operator's to give. own may be nil where m does not need it.
func (m Mint) Make(own *Authority, now time.Time) (Material, error) {
	out := Material{Mint: m}
	var err error
	switch {
	case m.What == MintCert && m.By == BySigning && own == nil:
		err = errors.New("the profile names no CA that could sign it (chaos.ca_cert, chaos.ca_key)")
	case m.What == MintCert && m.By == BySigning:
		out.Text, out.Key, err = m.certificate(own, now)
	case m.What == MintCert:
		if own, err = stranger(now); err == nil {
			out.Text, out.Key, err = m.certificate(own, now)
		}
	case m.What == MintCA:
		var ca *Authority
		if ca, err = stranger(now); err == nil {
			out.Text = toPEM("CERTIFICATE", ca.cert.Raw)
		}
	case m.What == MintKey:
		out.Text, err = signingKeyPEM()
	default:
		err = errors.New("it is not made here")
	}
	if err != nil {
		return Material{}, fmt.Errorf("mint %s: %w", m, err)
	}
	return out, nil
}

// certificate is a node's, as the platform itself would sign it but for its dates, and marked as a drill's.
func (m Mint) certificate(by *Authority, now time.Time) (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	serial, err := newSerial()
	if err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: m.Node, Organization: []string{"gpuaas nodes"}, OrganizationalUnit: []string{DrillUnit}},
		URIs: []*url.URL{{Scheme: "gpuaas", Opaque: "node:" + m.Node}}, DNSNames: []string{m.Node},
		NotBefore: now.Add(m.From.Std()), NotAfter: now.Add(m.Until.Std()),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, by.cert, k.Public(), by.key)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	return toPEM("CERTIFICATE", der), toPEM("PRIVATE KEY", raw), err
}

// stranger is a CA that nobody knows, and whose key is gone with this process.
func stranger(now time.Time) (*Authority, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: StrangerName, OrganizationalUnit: []string{DrillUnit}}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: StrangerName, OrganizationalUnit: []string{DrillUnit}}}, k.Public(), k)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	return &Authority{c, k}, err
}

func signingKeyPEM() (string, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	return toPEM("PRIVATE KEY", raw), err
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
