package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/wire"
)

// errnoWords is what the kernel's answers are called.
var errnoWords = map[syscall.Errno]diag.Failure{
	syscall.ECONNREFUSED: diag.TCPRefused,
	syscall.ETIMEDOUT:    diag.TCPTimeout,
	syscall.ECONNRESET:   diag.TCPReset,
	syscall.EPIPE:        diag.TCPReset,
	syscall.EHOSTUNREACH: diag.TCPNoRoute,
	syscall.ENETUNREACH:  diag.TCPNetUnreachable,
	syscall.EPERM:        diag.TCPDenied,
	syscall.EACCES:       diag.TCPDenied,
}

// failureWord names why an exchange brought no answer, by type and errno.
func failureWord(err error) diag.Failure {
	var (
		dns   *net.DNSError
		errno syscall.Errno
		rec   tls.RecordHeaderError
		op    *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return dnsWord(dns)
	case certificateWord(err) != diag.OK:
		return certificateWord(err)
	case errors.As(err, &op) && op.Op == "remote error":
		return alertWord(op.Err.Error())
	case errors.As(err, &rec):
		return diag.TLSNotTLS
	case errors.Is(err, fs.ErrNotExist):
		return diag.FileMissing
	case errors.As(err, &errno):
		if w, ok := errnoWords[errno]; ok {
			return w
		}
	case errors.Is(err, context.Canceled):
		return diag.Cancelled
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return diag.TCPTimeout
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return diag.HTTPTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return diag.TLSClosed
	}
	return diag.Unknown
}

func dnsWord(err *net.DNSError) diag.Failure {
	switch {
	case err.IsNotFound:
		return diag.DNSNXDomain
	case err.IsTimeout:
		return diag.DNSTimeout
	case strings.Contains(err.Err, "server misbehaving"): // net: errServerMisbehaving, a SERVFAIL or REFUSED
		return diag.DNSServFail
	}
	return diag.DNSNoAnswer
}

// certificateWord names what is wrong with the server's certificate, OK when that is not what failed.
func certificateWord(err error) diag.Failure {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		return diag.TLSUnknownCA
	case errors.As(err, &name):
		return diag.TLSNameMismatch
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if invalid.Cert != nil && strings.Contains(invalid.Detail, "is before") { // crypto/x509: "current time T is before T"
			return diag.TLSNotYetValid
		}
		return diag.TLSExpired
	case errors.As(err, &invalid):
		return diag.TLSUnknownCA
	}
	return diag.OK
}

// alertWord names an alert that the listener sent, by crypto/tls's words for it.
func alertWord(text string) diag.Failure {
	for _, a := range [...]struct {
		text string
		word diag.Failure
	}{
		{"certificate required", diag.MTLSCertRequired},
		{"unknown certificate authority", diag.MTLSUnknownCA},
		{"expired certificate", diag.MTLSCertExpired},
		{"certificate", diag.MTLSCertRejected}, // bad, unsupported, revoked, unknown certificate
		{"access denied", diag.MTLSCertRejected},
	} {
		if strings.Contains(text, a.text) {
			return a.word
		}
	}
	return diag.TLSProtocol
}

// denials gives the record's reason of each typed denial.
var denials = map[string]diag.RecordReason{
	wire.DenyExpired:         diag.RecCertExpired,
	wire.DenyNotNodeBound:    diag.RecIdentityRejected,
	wire.DenyRevoked:         diag.RecIdentityRevoked,
	wire.DenyFenced:          diag.RecIdentityRevoked,
	wire.DenyRetired:         diag.RecIdentityRevoked,
	wire.DenyCloned:          diag.RecClonedIdentity,
	wire.DenyProfileMismatch: diag.RecEndpointProfileDrift,
	wire.DenyTokenExpired:    diag.RecRecoveryTokenExpired,
	wire.DenyTokenConsumed:   diag.RecRecoveryEnrollmentBlocked,
}

// reasonFor gives the record's reason of an exchange that failed. fallback is the loop's own reason, for answers
// that say nothing about why; asked says whether the listener ever asked for this node's certificate.
func reasonFor(o Outcome, asked bool, local func(time.Time) diag.RecordReason, now time.Time, fallback diag.RecordReason) diag.RecordReason {
	switch w := o.Failure; {
	case strings.HasPrefix(string(w), "dns_"):
		return diag.RecDNSFailed
	case w == diag.TLSUnknownCA, w == diag.TLSExpired, w == diag.TLSNotYetValid, w == diag.TLSNameMismatch:
		return diag.RecServerTLSUntrusted
	case w == diag.HTTPRateLimited:
		return diag.RecEdgeRateLimited
	case w == diag.MTLSNotRequested:
		return diag.RecEndpointProfileDrift
	case strings.HasPrefix(string(w), "mtls_"):
		if r := local(now); r != "" { // what refused does not say why; the certificate itself may
			return r
		}
		return diag.RecIdentityRejected
	case o.Status == 401 || o.Status == 403:
		if r, ok := denials[o.Code]; ok && (asked || o.Code == wire.DenyTokenExpired || o.Code == wire.DenyTokenConsumed) {
			return r
		}
		if o.Code == "" { // nobody's word: a refusal by something in between
			return fallback
		}
		return diag.RecIdentityRejected
	case o.Status != 0:
		return fallback
	case w == diag.FileMissing:
		return diag.RecServerTLSUntrusted // the trust bundle; a missing certificate is found before anything is asked
	}
	return diag.RecAPIUnreachable
}

// scrubbed is err in its own words, without URLs' queries and without what looks like a secret.
func scrubbed(err error) string { return probe.Scrub(err.Error()) }
