package net

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// trust is the set of roots that verifies a server's chain.
type trust struct {
	source string
	roots  *x509.CertPool // nil: the host's own
	certs  []*x509.Certificate
	unread int // certificates that begin in the text and are not among certs
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
		if text, err = measure.ReadCAs(req.CABundle); err != nil {
			return t, err
		}
	default:
		return t, nil
	}
	var err error
	if t.certs, err = measure.ParseCerts(text); err != nil {
		return t, fmt.Errorf("the CA bundle %s: %w", t.source, err)
	}
	t.unread = max(0, bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----"))-len(t.certs))
	t.roots = x509.NewCertPool()
	for _, c := range t.certs {
		t.roots.AddCert(c)
	}
	return t, nil
}

// readClientCert reads a certificate and its key on the probing machine. It returns nil for a request without Cert.
func readClientCert(req diag.Request) (*tls.Certificate, error) {
	if req.Cert == "" {
		return nil, nil
	}
	certPEM, err := measure.ReadPEM(req.Cert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := measure.ReadPEM(req.Key)
	if err != nil {
		return nil, err
	}
	if _, err := measure.ParseCerts(certPEM); err != nil {
		return nil, fmt.Errorf("%s: %w", req.Cert, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err == nil {
		return &pair, nil
	}
	// crypto/tls has no error type for a key that does not match, only these texts.
	if text := err.Error(); text == "tls: private key does not match public key" ||
		text == "tls: private key type does not match public key type" {
		return nil, fmt.Errorf("%s and %s: %w", req.Cert, req.Key, measure.ErrMismatch)
	}
	return nil, fmt.Errorf("%s: %w: %w", req.Key, measure.ErrUnparseable, err)
}

// verified is the result of a verification: the failure with its cause, and the certificate whose dates are the cause;
// nil for any other.
type verified struct {
	word     diag.Failure
	err      error
	misdated *x509.Certificate
	flaw     diag.CertFlaw
}

// verifyChain verifies a server's chain and name at now. It reports dates before the chain, and the chain before the
// name: the library calls a certificate that is not yet valid expired, and its owner can renew an expired certificate
// whatever else is wrong.
func verifyChain(chain []*x509.Certificate, trust trust, name string, now time.Time) verified {
	if len(chain) == 0 {
		return verified{word: diag.TLSProtocol, err: errors.New("the server sent no certificate")}
	}
	leaf := chain[0]
	opts := x509.VerifyOptions{Roots: trust.roots, CurrentTime: now, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := leaf.Verify(opts)
	nameErr := leaf.VerifyHostname(name)
	if err == nil {
		if nameErr != nil {
			return verified{word: diag.TLSNameMismatch, err: nameErr, flaw: nameFlaw(leaf, name)}
		}
		return verified{}
	}
	if nameErr != nil {
		err = fmt.Errorf("%w; and %w", err, nameErr)
	}
	// Verify stops at the first error; the leaf's dates matter nevertheless.
	dated := leaf
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		dated = invalid.Cert
	}
	out := verified{word: dateWord(dated, now, diag.TLSUnknownCA), err: err}
	if out.word != diag.TLSUnknownCA {
		out.misdated = dated
		if dated != leaf {
			out.err = fmt.Errorf("%s: %w", measure.CertInfo(dated).Subject, err)
		}
	}
	if out.word == diag.TLSUnknownCA {
		out.flaw = chainFlaw(err, chain, trust.certs)
	}
	return out
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
