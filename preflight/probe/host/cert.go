package host

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// cert checks the credential pair Cert and Key; the key is compared here and never leaves this machine. Failures:
// file_missing, file_unreadable, file_unparseable, file_mismatch (the key belongs to another certificate),
// mtls_cert_not_yet_valid, mtls_cert_expired. A certificate of another node is not a failure here: NodeBound shows it.
func (p *Prober) cert(_ context.Context, req diag.Request, f *diag.Fact) {
	text, err := measure.ReadCAs(req.Cert)
	if err != nil {
		measure.Fail(f, "cert", measure.FileWord(err), err)
		return
	}
	chain, err := measure.ParseCerts(text)
	if err != nil && measure.IsPKCS12(text) {
		err = errors.New("it is PKCS#12, which is not read here: the agent's certificate and key are needed in PEM")
	}
	if err != nil {
		measure.Fail(f, "cert", diag.FileUnparseable, fmt.Errorf("%s: %w", req.Cert, err))
		return
	}
	leaf := chain[0]
	f.Cert = &diag.CertFacts{Leaf: measure.CertInfo(leaf)}
	if more := measure.CertInfos(chain[1:], measure.MaxRoots-1); len(more) > 0 {
		f.Cert.Chain = more
	}
	var bound bool
	if f.Cert.BoundTo, bound = nodeBinding(leaf, req.NodeID); req.NodeID != "" {
		f.Cert.NodeBound = &bound
	}
	if req.Key != "" && !checkKey(leaf, req.Key, f) {
		return
	}
	if pid := p.Agent.PID; pid > 0 {
		f.Cert.DeniedFile, f.Cert.DeniedUID = deniedTo(pid, req.Cert, req.Key)
	}
	switch now := time.Now(); {
	case now.Before(leaf.NotBefore):
		measure.Fail(f, "dates", diag.MTLSCertNotYetValid,
			fmt.Errorf("%s is not valid before %s", req.Cert, f.Cert.Leaf.NotBefore.Format(diag.TimeLayout)))
	case now.After(leaf.NotAfter):
		measure.Fail(f, "dates", diag.MTLSCertExpired,
			fmt.Errorf("%s is not valid after %s", req.Cert, f.Cert.Leaf.NotAfter.Format(diag.TimeLayout)))
	}
}

// checkKey compares the key file with the certificate; it returns false if f has failed.
func checkKey(leaf *x509.Certificate, file string, f *diag.Fact) bool {
	text, err := measure.ReadPEM(file)
	if err != nil {
		measure.Fail(f, "key", measure.FileWord(err), err)
		return false
	}
	public, err := publicOf(text)
	if err != nil {
		// The parser's own text may quote what it read.
		measure.Fail(f, "key", diag.FileUnparseable, fmt.Errorf("%s holds no private key that can be read", file))
		return false
	}
	matches := public.Equal(leaf.PublicKey)
	f.Cert.KeyMatches = &matches
	if !matches {
		measure.Fail(f, "key", diag.FileMismatch, fmt.Errorf("%s is not the key of this certificate", file))
	}
	return matches
}

// publicOf returns the public half of the first private key in a PEM text.
func publicOf(text []byte) (interface{ Equal(crypto.PublicKey) bool }, error) {
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
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
			return nil, measure.ErrUnparseable
		}
		public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		if !ok {
			return nil, measure.ErrUnparseable
		}
		return public, nil
	}
	return nil, measure.ErrUnparseable
}

// nodeBinding returns the node that a certificate names: node itself if the subject, a DNS name or the last element of
// a URI equals it, else what it names instead (a URI, the subject, a DNS name).
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
		first = cmp.Or(first, n)
	}
	return first, false
}
