package probe

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxRoots bounds TLSFacts.TrustRoots: a private bundle has few certificates, and a report does not need hundreds.
const maxRoots = 16

// certInfo describes one certificate. Serials are lower-case hex without separators.
func certInfo(c *x509.Certificate) diag.CertInfo {
	sum := sha256.Sum256(c.Raw)
	return diag.CertInfo{
		Subject:     c.Subject.String(),
		Issuer:      c.Issuer.String(),
		Serial:      c.SerialNumber.Text(16),
		DNSNames:    c.DNSNames,
		NotBefore:   diag.At(c.NotBefore),
		NotAfter:    diag.At(c.NotAfter),
		Fingerprint: hex.EncodeToString(sum[:]),
	}
}

func certInfos(certs []*x509.Certificate, most int) []diag.CertInfo {
	certs = certs[:min(len(certs), most)]
	infos := make([]diag.CertInfo, len(certs))
	for i, c := range certs {
		infos[i] = certInfo(c)
	}
	return infos
}

// trust is the set of roots that verifies a server's chain.
type trust struct {
	source string
	roots  *x509.CertPool // nil: the host's own
	certs  []*x509.Certificate
}

// readTrust reads the roots that the request names: inline PEM, a bundle's path, else the host's own roots.
func readTrust(req diag.Request) (trust, error) {
	var text []byte
	t := trust{source: "system"}
	switch {
	case req.CAInline != "":
		t.source, text = "inline", []byte(req.CAInline)
	case req.CABundle != "":
		t.source = req.CABundle
		var err error
		if text, err = readPEM(req.CABundle); err != nil {
			return t, err
		}
	default:
		return t, nil
	}
	var err error
	if t.certs, err = parseCerts(text); err != nil {
		return t, fmt.Errorf("the CA bundle %s: %w", t.source, err)
	}
	t.roots = x509.NewCertPool()
	for _, c := range t.certs {
		t.roots.AddCert(c)
	}
	return t, nil
}

// parseCerts parses every certificate of a PEM text, which must have at least one.
func parseCerts(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnparseable, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%w: no PEM certificate in it", errUnparseable)
	}
	return certs, nil
}

// readClientCert reads a certificate and its key on the probing machine. It returns nil for a request without Cert.
func readClientCert(req diag.Request) (*tls.Certificate, error) {
	if req.Cert == "" {
		return nil, nil
	}
	certPEM, err := readPEM(req.Cert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPEM(req.Key)
	if err != nil {
		return nil, err
	}
	if _, err := parseCerts(certPEM); err != nil {
		return nil, fmt.Errorf("%s: %w", req.Cert, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err == nil {
		return &pair, nil
	}
	// crypto/tls has no error type for a key that does not match, only these texts.
	if text := err.Error(); text == "tls: private key does not match public key" ||
		text == "tls: private key type does not match public key type" {
		return nil, fmt.Errorf("%s and %s: %w", req.Cert, req.Key, errMismatch)
	}
	return nil, fmt.Errorf("%s: %w: %w", req.Key, errUnparseable, err)
}

// verifyChain verifies a server's chain and name at now, and returns the failure. It reports dates before the chain,
// and the chain before the name: the library calls a certificate that is not yet valid expired, and its owner can renew
// an expired certificate whatever else is wrong.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, name string, now time.Time) (diag.Failure, error) {
	if len(chain) == 0 {
		return diag.TLSProtocol, errors.New("the server sent no certificate")
	}
	leaf := chain[0]
	opts := x509.VerifyOptions{Roots: roots, CurrentTime: now, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := leaf.Verify(opts)
	nameErr := leaf.VerifyHostname(name)
	if err == nil {
		if nameErr != nil {
			return diag.TLSNameMismatch, nameErr
		}
		return diag.OK, nil
	}
	if nameErr != nil {
		err = fmt.Errorf("%w; and %w", err, nameErr)
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return dateWord(invalid.Cert, now, diag.TLSUnknownCA), err
	}
	// Verify stops at the first error; the leaf's dates matter nevertheless.
	return dateWord(leaf, now, diag.TLSUnknownCA), err
}

// dateWord returns the failure for a certificate that is not valid at now, else other.
func dateWord(c *x509.Certificate, now time.Time, other diag.Failure) diag.Failure {
	switch {
	case now.Before(c.NotBefore):
		return diag.TLSNotYetValid
	case now.After(c.NotAfter):
		return diag.TLSExpired
	}
	return other
}

// subjectNames decodes the distinguished names of a certificate request, in the format of the chain's subjects.
func subjectNames(raw [][]byte) []string {
	var names []string
	for _, der := range raw {
		var rdn pkix.RDNSequence
		if rest, err := asn1.Unmarshal(der, &rdn); err != nil || len(rest) > 0 {
			names = append(names, "unreadable name")
			continue
		}
		var n pkix.Name
		n.FillFromRDNSequence(&rdn)
		names = append(names, n.String())
	}
	return names
}
