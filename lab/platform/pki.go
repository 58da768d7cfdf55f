package platform

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// nodeURIScheme is the prefix of a node certificate's SAN URI, gpuaas:node:<id>.
const nodeURIScheme = "gpuaas:node:"

// backdate allows for a node clock that is somewhat behind ours.
const backdate = 2 * time.Minute

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// pki holds the platform's keys and certificates.
type pki struct {
	files        PKIFiles
	ca           *x509.Certificate
	caPEM        []byte
	caKey        crypto.Signer
	pool         *x509.CertPool // the signing CA alone
	terminalPool *x509.CertPool // client CAs of the node terminal
	terminal     tls.Certificate
	nodeCABundle []byte
	recoveryCA   []byte // nil: nodes have no recovery trust of their own
}

func loadPKI(f PKIFiles) (*pki, error) {
	p := &pki{files: f, pool: x509.NewCertPool()}
	pair, err := tls.LoadX509KeyPair(f.SigningCACert, f.SigningCAKey)
	if err != nil {
		return nil, fmt.Errorf("load signing CA: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("load signing CA: %s is not a CA certificate", f.SigningCACert)
	}
	p.ca, p.caKey = pair.Leaf, key
	p.caPEM = certPEM(p.ca)
	p.pool.AddCert(p.ca)
	p.terminalPool = p.pool
	if f.TerminalClientCA != "" {
		certs, err := readCerts(f.TerminalClientCA)
		if err != nil {
			return nil, fmt.Errorf("load terminal client CA: %w", err)
		}
		p.terminalPool = x509.NewCertPool()
		for _, c := range certs {
			p.terminalPool.AddCert(c)
		}
	}
	if p.terminal, err = tls.LoadX509KeyPair(f.TerminalCert, f.TerminalKey); err != nil {
		return nil, fmt.Errorf("load terminal certificate: %w", err)
	}
	if p.nodeCABundle, err = os.ReadFile(f.NodeCABundle); err != nil {
		return nil, fmt.Errorf("load node CA bundle: %w", err)
	}
	if f.RecoveryCABundle != "" {
		if p.recoveryCA, err = os.ReadFile(f.RecoveryCABundle); err != nil {
			return nil, fmt.Errorf("load recovery CA bundle: %w", err)
		}
	}
	return p, nil
}

// fingerprint returns the sha256 of a certificate as lower-case hex.
func fingerprint(c *x509.Certificate) string {
	return fmt.Sprintf("%x", sha256.Sum256(c.Raw))
}

func certPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// serialText formats a serial number as lower-case hex.
func serialText(c *x509.Certificate) string { return c.SerialNumber.Text(16) }

// readCerts reads all certificates of a PEM file; there must be at least one.
func readCerts(path string) ([]*x509.Certificate, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s: no certificate in it", path)
	}
	return certs, nil
}

// Trust is the platform's own view of its trust relations; fingerprints are sha256 in lower-case hex.
type Trust struct {
	SigningCA              string   `json:"signing_ca"`
	IngressCA              string   `json:"ingress_ca,omitempty"` // the first of IngressCAs
	IngressCAs             []string `json:"ingress_cas,omitempty"`
	NodeAPIServer          string   `json:"node_api_server,omitempty"`
	TerminalServer         string   `json:"terminal_server"`
	IngressTrustsSigningCA *bool    `json:"ingress_trusts_signing_ca,omitempty"` // absent: not known
	Errors                 []string `json:"errors,omitempty"`
}

// trust reads the files that others may change; an unreadable file is absent and reported.
func (p *pki) trust() Trust {
	t := Trust{SigningCA: fingerprint(p.ca), TerminalServer: fingerprint(p.terminal.Leaf)}
	if certs, err := readCerts(p.files.IngressCA); err != nil {
		t.Errors = append(t.Errors, "ingress CA: "+err.Error())
	} else {
		trusted := false
		for _, c := range certs {
			t.IngressCAs = append(t.IngressCAs, fingerprint(c))
			trusted = trusted || bytes.Equal(c.Raw, p.ca.Raw)
		}
		t.IngressCA, t.IngressTrustsSigningCA = t.IngressCAs[0], &trusted
	}
	if certs, err := readCerts(p.files.NodeAPIServerCert); err != nil {
		t.Errors = append(t.Errors, "node API server certificate: "+err.Error())
	} else {
		t.NodeAPIServer = fingerprint(certs[0])
	}
	return t
}

// verifyNode checks that c is a currently valid client certificate of our signing CA. The error is x509's own.
func (p *pki) verifyNode(c *x509.Certificate, now time.Time) error {
	_, err := c.Verify(x509.VerifyOptions{Roots: p.pool, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// errCSR wraps errors that are the caller's fault.
var errCSR = errors.New("certificate request is not acceptable")

// parseCSR returns a certificate request with a valid self-signature.
func parseCSR(text string) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("%w: not a PEM certificate request", errCSR)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCSR, err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: its signature does not prove the key: %w", errCSR, err)
	}
	switch k := csr.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return nil, fmt.Errorf("%w: an RSA key has at least 2048 bits", errCSR)
		}
	default:
		return nil, fmt.Errorf("%w: unknown kind of key", errCSR)
	}
	return csr, nil
}

// sign issues the certificate that binds a key to a node: CN and SAN URI (and DNS name if the id is one).
func (p *pki) sign(nodeID string, generation int64, key any, now time.Time,
	ttl time.Duration) (*x509.Certificate, store.Cert, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, store.Cert{}, err
	}
	notAfter := now.Add(ttl)
	if notAfter.After(p.ca.NotAfter) {
		notAfter = p.ca.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: nodeID, Organization: []string{"gpuaas nodes"}},
		URIs:      []*url.URL{{Scheme: "gpuaas", Opaque: "node:" + nodeID}},
		NotBefore: now.Add(-backdate), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if dnsName.MatchString(nodeID) {
		template.DNSNames = []string{nodeID}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, key, p.caKey)
	if err != nil {
		return nil, store.Cert{}, fmt.Errorf("sign certificate of node %s: %w", nodeID, err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, store.Cert{}, err
	}
	return c, store.Cert{Serial: serialText(c), NodeID: nodeID, Generation: generation, Fingerprint: fingerprint(c),
		IssuerFingerprint: fingerprint(p.ca), NotBefore: c.NotBefore, NotAfter: c.NotAfter, IssuedAt: now}, nil
}

// boundTo reports whether a certificate names the node in its CN and its SAN URI.
func boundTo(c *x509.Certificate, nodeID string) bool {
	return c.Subject.CommonName == nodeID &&
		slices.ContainsFunc(c.URIs, func(u *url.URL) bool { return u.String() == nodeURIScheme+nodeID })
}

// loadSigningKey reads the ed25519 key that signs tasks.
func loadSigningKey(path string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load task signing key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("load task signing key: %s is not PEM", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("load task signing key: %s: %w", path, err)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("load task signing key: %s is not an ed25519 key", path)
	}
	return key, nil
}

// TaskPubkeys returns the GPUAAS_TASK_SIGNING_PUBKEYS value for the private key in a file.
func TaskPubkeys(keyFile string) (string, error) {
	key, err := loadSigningKey(keyFile)
	if err != nil {
		return "", err
	}
	return queue.NewSigner(key).Pubkeys(), nil
}
