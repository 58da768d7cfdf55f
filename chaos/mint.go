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
	"net/url"
	"time"
)

// Authority signs a drill's certificates: it is the environment's own signing CA.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ParseAuthority parses the certificate and the key of a CA, both PEM.
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
		return nil, errors.New("this is not a CA with a key that can sign")
	}
	return &Authority{c, signer}, nil
}

// Make creates the material that this machine can create: certificates, a CA, a key. The platform issues tokens,
// and the operator provides bearers. own may be nil if m does not need it.
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

// certificate creates a node's certificate as the platform would, but with the dates of m and marked as a drill's.
func (m Mint) certificate(by *Authority, now time.Time) (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: m.Node, Organization: []string{"gpuaas nodes"},
			OrganizationalUnit: []string{DrillUnit}},
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

// stranger creates a CA that no bundle contains; its key is discarded.
func stranger(now time.Time) (*Authority, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: StrangerName, OrganizationalUnit: []string{DrillUnit}},
		IsCA:    true, BasicConstraintsValid: true, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: StrangerName, OrganizationalUnit: []string{DrillUnit}}},
		k.Public(), k)
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

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Mint describes material that is created for one run on the operator's machine and is partly secret. It serves as
// its own key: equal Mints are created once.
type Mint struct {
	What  string   `json:"what"`            // a Mint's name, below
	Node  string   `json:"node,omitempty"`  // subject of a certificate or token
	From  Duration `json:"from,omitempty"`  // offset from now of a certificate's start; negative: in the past
	Until Duration `json:"until,omitempty"` // from now, when it ends
	// signer: signing, the environment's own CA; or stranger, a CA that no bundle contains
	By string `json:"by,omitempty"`
}

// Kinds of material.
const (
	MintCert   = "certificate" // a node's certificate and its key
	MintCA     = "ca"          // the certificate of a CA that no bundle contains; without a key, since it signs nothing
	MintKey    = "signing-key" // a private key, ed25519, PKCS 8
	MintToken  = "token"       // a recovery token, which the platform issues
	MintBearer = "bearer"      // the operator's own token as a header line, for a tool on the platform's machine
	BySigning  = "signing"
	ByStranger = "stranger"
)

// Material is created material.
type Material struct {
	Mint
	Text string `json:"-"` // PEM, or a token
	Key  string `json:"-"` // PEM of a certificate's key
}

// String describes the material.
func (m Mint) String() string {
	switch m.What {
	case MintCert:
		return fmt.Sprintf("a certificate of %s by %s, from %s until %s of now", m.Node, m.By, m.From, m.Until)
	case MintCA:
		return "the certificate of an unknown CA"
	case MintKey:
		return "an unknown signing key"
	case MintToken:
		return "a current recovery token of " + m.Node
	case MintBearer:
		return "the operator's token as a header"
	}
	return m.What
}

// placeholder returns a substitute for material that does not exist yet; a plan's hash uses it for all material.
func (m Mint) placeholder() Material {
	return Material{Mint: m, Text: "<" + m.String() + ">\n", Key: "<the key of " + m.String() + ">\n"}
}
