package measure

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

const (
	maxCAFiles = 1000    // files of a folder with CA certificates
	maxCAs     = 4 << 20 // bytes of them together
)

// ReadCAs reads a file with CA certificates, or all of a folder with one or more in each file, under any name: a folder
// that OpenSSL has hashed holds each twice.
func ReadCAs(name string) ([]byte, error) {
	if st, err := os.Stat(name); err != nil || !st.IsDir() {
		return ReadPEM(name)
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var all []byte
	var last error
	seen := map[string]bool{}
	for i, e := range entries {
		if i >= maxCAFiles || len(all) > maxCAs {
			return nil, &os.PathError{Op: "read", Path: name,
				Err: fmt.Errorf("more than %d files, or %d bytes", maxCAFiles, maxCAs)}
		}
		text, err := ReadPEM(filepath.Join(name, e.Name()))
		switch {
		case err != nil:
			last = err
		case bytes.Contains(text, []byte("-----BEGIN CERTIFICATE-----")) && !seen[string(text)]:
			seen[string(text)] = true
			all = append(append(all, text...), '\n')
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case last != nil:
		return nil, last
	}
	return ReadPEM(name)
}

// IsPKCS12 reports whether a file is PKCS#12, which has the certificate and its key under a password.
func IsPKCS12(text []byte) bool {
	data := []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01} // PKCS#7 data
	return len(text) > 2 && text[0] == 0x30 && bytes.Contains(text[:min(len(text), 64)], data)
}
