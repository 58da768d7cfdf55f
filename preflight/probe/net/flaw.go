package net

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// chainFlaw returns what is wrong with a chain that did not verify with err, for another reason than its dates; roots
// are those of a bundle, none for the host's own.
func chainFlaw(err error, chain, roots []*x509.Certificate) diag.CertFlaw {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		switch invalid.Reason {
		case x509.IncompatibleUsage:
			return diag.FlawNotForServer
		case x509.NotAuthorizedToSign:
			return diag.FlawNoCA
		case x509.CANotAuthorizedForThisName, x509.TooManyIntermediates, x509.UnconstrainedName, x509.TooManyConstraints,
			x509.NameConstraintsWithoutSANs:
			return diag.FlawNotAllowed
		}
		return ""
	}
	last := chain[0]
	for range chain { // the chain may be in any order, and may have more than one end
		if weak(last) {
			return diag.FlawWeak
		}
		i := slices.IndexFunc(chain, func(c *x509.Certificate) bool {
			return c != last && bytes.Equal(c.RawSubject, last.RawIssuer)
		})
		if i < 0 || selfSigned(last) {
			break
		}
		if last = chain[i]; last.BasicConstraintsValid && !last.IsCA {
			return diag.FlawNoCA
		}
	}
	switch {
	case selfSigned(last) && last == chain[0]:
		return diag.FlawSelfSigned
	case selfSigned(last): // a whole chain, to a root that is not trusted
		return ""
	case slices.ContainsFunc(roots, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, last.RawIssuer) }):
		return diag.FlawOtherKey
	}
	return diag.FlawNoIssuer
}

func selfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

// weak reports whether a certificate that another one signed has a signature that no client accepts.
func weak(c *x509.Certificate) bool {
	switch c.SignatureAlgorithm {
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1:
		return !selfSigned(c)
	}
	return false
}

// nameFlaw returns why a certificate is not one for name, beyond being for others.
func nameFlaw(leaf *x509.Certificate, name string) diag.CertFlaw {
	switch {
	case net.ParseIP(name) != nil:
		return diag.FlawNoIPName
	case len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.URIs)+len(leaf.EmailAddresses) == 0 &&
		leaf.Subject.CommonName == name:
		return diag.FlawNameInCN
	}
	return ""
}
