package measure

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
)

// MaxRoots bounds TLSFacts.TrustRoots: a private bundle has few certificates, and a report does not need hundreds.
const MaxRoots = 16

// CertInfo describes one certificate. Serials are lower-case hex without separators.
func CertInfo(c *x509.Certificate) diag.CertInfo {
	sum := sha256.Sum256(c.Raw)
	issuerURL := ""
	if len(c.IssuingCertificateURL) > 0 {
		issuerURL, _, _ = diag.BareURL(c.IssuingCertificateURL[0])
	}
	return diag.CertInfo{
		Usages: usages(c), IssuerURL: issuerURL,
		Subject:     c.Subject.String(),
		Issuer:      c.Issuer.String(),
		Serial:      c.SerialNumber.Text(16),
		DNSNames:    c.DNSNames,
		NotBefore:   diag.At(c.NotBefore),
		NotAfter:    diag.At(c.NotAfter),
		Fingerprint: hex.EncodeToString(sum[:]),
	}
}

// usages returns what the extended key usage of a certificate limits it to, each once; none if it has no such limit.
func usages(c *x509.Certificate) []string {
	var all []string
	add := func(word string) {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			add("server")
		case x509.ExtKeyUsageClientAuth:
			add("client")
		case x509.ExtKeyUsageAny:
			add("any")
		default:
			add("other")
		}
	}
	if len(c.UnknownExtKeyUsage) > 0 {
		add("other")
	}
	return all
}

// CertInfos describes at most the first most certificates.
func CertInfos(certs []*x509.Certificate, most int) []diag.CertInfo {
	certs = certs[:min(len(certs), most)]
	infos := make([]diag.CertInfo, len(certs))
	for i, c := range certs {
		infos[i] = CertInfo(c)
	}
	return infos
}

// ParseCerts parses every certificate of a PEM text, which must have at least one.
func ParseCerts(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnparseable, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%w: no PEM certificate in it", ErrUnparseable)
	}
	return certs, nil
}

// maxPEM bounds the size of a certificate or key file.
const maxPEM = 1 << 20

// ReadPEM reads a small regular file. It never blocks on other types of files.
func ReadPEM(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, &os.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")})
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("longer than %d bytes", maxPEM)}
	}
	return text, err
}
