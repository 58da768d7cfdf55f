package net

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// ClassifyDial names the failure of a dial, directly or through a jump host, for callers other than probes: the failure
// word, its phase (dns or tcp), and the symbolic errno, if any. ctx is the dial's.
func ClassifyDial(ctx context.Context, err error) (word diag.Failure, phase, errno string) {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		switch {
		case dns.IsNotFound:
			return diag.DNSNXDomain, "dns", ""
		case errnoIn(dns.Err) != 0:
			e := errnoIn(dns.Err)
			return errnoWord(measure.TextErrno{Errno: e, Text: dns.Err}), "dns", measure.ErrnoName(e)
		case dns.IsTimeout || timedOut(ctx, err):
			return diag.DNSTimeout, "dns", ""
		}
		return diag.DNSServFail, "dns", ""
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return diag.Cancelled, phaseTCP, ""
	}
	if timedOut(ctx, err) {
		return diag.TCPTimeout, phaseTCP, measure.ErrnoName(err)
	}
	return connectWord(err), phaseTCP, measure.ErrnoName(err)
}

// ClassifyExchange names the failure of an exchange over TLS without an answer, for callers whose HTTP client dials,
// verifies and exchanges in one step. It uses types and errnos, and the words of ClassifyDial and of the probes. ctx is
// the exchange's.
func ClassifyExchange(ctx context.Context, err error) diag.Failure {
	var (
		dns    *net.DNSError
		op     *net.OpError
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		errno  syscall.Errno
	)
	if a, ok := remoteAlert(err); ok {
		return alertWord(a, clientCert{}, time.Now())
	}
	switch {
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		word, _, _ := ClassifyDial(ctx, err)
		return word
	case errors.As(err, &verify):
		return verificationWord(verify, time.Now())
	case errors.As(err, &record):
		return diag.TLSNotTLS
	case errors.Is(ctx.Err(), context.Canceled):
		return diag.Cancelled
	case timedOut(ctx, err):
		return diag.HTTPTimeout
	case errors.As(err, &errno):
		if w := errnoWord(err); w != "" {
			return w
		}
	case broken(err):
		return diag.TLSClosed
	}
	return diag.Unknown
}

// verificationWord returns the failure that crypto/tls found in a server's certificate. Dates come first, as in
// verifyChain.
func verificationWord(err *tls.CertificateVerificationError, now time.Time) diag.Failure {
	var (
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	other := diag.TLSUnknownCA
	if errors.As(err, &name) {
		other = diag.TLSNameMismatch
	}
	if errors.As(err, &invalid) && invalid.Cert != nil {
		other = dateWord(invalid.Cert, now, other)
	}
	if len(err.UnverifiedCertificates) == 0 {
		return other
	}
	return dateWord(err.UnverifiedCertificates[0], now, other)
}

// spokenErrnos are the errnos that concern this machine, not a DNS server.
var spokenErrnos = [...]syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
	syscall.EPERM, syscall.EACCES, syscall.EAFNOSUPPORT, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTUNREACH,
}

// errnoIn returns the errno at the end of an error's text; 0 if there is none.
func errnoIn(words string) syscall.Errno {
	for _, e := range spokenErrnos {
		if strings.HasSuffix(words, ": "+e.Error()) {
			return e
		}
	}
	return 0
}
