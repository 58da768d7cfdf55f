package probe

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxPEM bounds what is read of a certificate or key file.
const maxPEM = 1 << 20

// cert looks at the credential pair Cert and Key; the key is compared here and never leaves. Words: file_missing,
// file_unreadable, file_unparseable, file_mismatch (the key is another certificate's), mtls_cert_not_yet_valid,
// mtls_cert_expired. A certificate of another node is no failure here: NodeBound says it.
func (p *Prober) cert(_ context.Context, req diag.Request, f *diag.Fact) {
	text, err := readPEM(req.Cert)
	if err != nil {
		fail(f, "cert", fileWord(err), err)
		return
	}
	chain, err := parseCerts(text)
	if err != nil {
		fail(f, "cert", diag.FileUnparseable, fmt.Errorf("%s: %w", req.Cert, err))
		return
	}
	leaf := chain[0]
	f.Cert = &diag.CertFacts{Leaf: certInfo(leaf)}
	if more := certInfos(chain[1:], maxRoots-1); len(more) > 0 {
		f.Cert.Chain = more
	}
	var bound bool
	if f.Cert.BoundTo, bound = nodeBinding(leaf, req.NodeID); req.NodeID != "" {
		f.Cert.NodeBound = &bound
	}
	if req.Key != "" && !checkKey(leaf, req.Key, f) {
		return
	}
	switch now := time.Now(); {
	case now.Before(leaf.NotBefore):
		fail(f, "dates", diag.MTLSCertNotYetValid, fmt.Errorf("%s is not valid before %s", req.Cert, f.Cert.Leaf.NotBefore.Format(diag.TimeLayout)))
	case now.After(leaf.NotAfter):
		fail(f, "dates", diag.MTLSCertExpired, fmt.Errorf("%s is not valid after %s", req.Cert, f.Cert.Leaf.NotAfter.Format(diag.TimeLayout)))
	}
}

// checkKey compares the key file with the certificate; false when f has failed.
func checkKey(leaf *x509.Certificate, file string, f *diag.Fact) bool {
	text, err := readPEM(file)
	if err != nil {
		fail(f, "key", fileWord(err), err)
		return false
	}
	public, err := publicOf(text)
	if err != nil {
		// The parser's own words may quote what it read.
		fail(f, "key", diag.FileUnparseable, fmt.Errorf("%s holds no private key that can be read", file))
		return false
	}
	matches := public.Equal(leaf.PublicKey)
	f.Cert.KeyMatches = &matches
	if !matches {
		fail(f, "key", diag.FileMismatch, fmt.Errorf("%s is not the key of this certificate", file))
	}
	return matches
}

// readPEM reads a small regular file. It never waits on what is none.
func readPEM(name string) ([]byte, error) {
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

// publicOf is the public half of the first private key of a PEM text.
func publicOf(text []byte) (interface{ Equal(crypto.PublicKey) bool }, error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return nil, errUnparseable
		}
		var key any
		var err error
		switch b.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, errUnparseable
		}
		public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		if !ok {
			return nil, errUnparseable
		}
		return public, nil
	}
}

// nodeBinding is the node that a certificate names: node itself when the subject, a DNS name or the last element of a
// URI is exactly that, else what it names in its place (a URI, the subject, a DNS name).
func nodeBinding(c *x509.Certificate, node string) (string, bool) {
	var names []string
	for _, u := range c.URIs {
		names = append(names, path.Base(u.Path))
		if u.Path == "" {
			names[len(names)-1] = u.Opaque
		}
	}
	names = append(names, c.Subject.CommonName)
	names = append(names, c.DNSNames...)
	first := ""
	for _, n := range names {
		if n == node && node != "" {
			return node, true
		}
		if first == "" {
			first = n
		}
	}
	return first, false
}
