package reading

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Misdated returns the certificate whose dates failed the verification of f's server, and what it is: the server's own,
// a CA of the chain that the server presents, or a root of the bundle. It is nil for any other failure. Reports from
// before the fact named it count as one about the server's own.
func Misdated(f *diag.Fact) (cert *diag.CertInfo, what string) {
	if f.TLS == nil || (f.Failure != diag.TLSExpired && f.Failure != diag.TLSNotYetValid) {
		return nil, ""
	}
	chain := f.TLS.Chain
	cert = f.TLS.Misdated
	switch {
	case cert == nil && len(chain) == 0:
		return nil, ""
	case cert == nil, len(chain) > 0 && chain[0].Fingerprint == cert.Fingerprint:
		return &chain[0], "the server's certificate"
	}
	for i := range chain[1:] {
		if chain[i+1].Fingerprint == cert.Fingerprint {
			return cert, "the CA certificate that the server presents with its own"
		}
	}
	return cert, "the root in " + f.TLS.TrustSource
}

// OwnDates reports whether the dates that failed the verification are those of the server's own certificate.
func OwnDates(f *diag.Fact) bool {
	cert, _ := Misdated(f)
	return cert != nil && len(f.TLS.Chain) > 0 && cert.Fingerprint == f.TLS.Chain[0].Fingerprint
}

// OwnDatesWords describes the dates of the server's own certificate where these failed its verification, else "".
func OwnDatesWords(f *diag.Fact) string {
	if !OwnDates(f) {
		return ""
	}
	return "; it is " + Dates(ServedLeaf(f))
}

// Dates describes how long a certificate is valid.
func Dates(cert *diag.CertInfo) string {
	return fmt.Sprintf("valid from %s to %s", cert.NotBefore.Format(time.DateTime), cert.NotAfter.Format(time.DateTime))
}

// ServedLeaf returns the certificate that the server of f presented as its own; nil if no handshake came so far.
func ServedLeaf(f *diag.Fact) *diag.CertInfo {
	if f == nil || f.TLS == nil || len(f.TLS.Chain) == 0 {
		return nil
	}
	return &f.TLS.Chain[0]
}
