package net

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// timedOut reports whether err is a timeout, of ctx or of the kernel.
func timedOut(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(ctx.Err(), context.DeadlineExceeded)
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e == syscall.ETIMEDOUT // Timeout is also true for EAGAIN, which means an exhausted resource
	}
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		(errors.As(err, &t) && t.Timeout())
}

// errnoWords maps errors of connect to failures.
var errnoWords = map[syscall.Errno]diag.Failure{
	syscall.ECONNREFUSED:  diag.TCPRefused,
	syscall.ETIMEDOUT:     diag.TCPTimeout,
	syscall.ECONNRESET:    diag.TCPReset,
	syscall.ECONNABORTED:  diag.TCPReset,
	syscall.EPIPE:         diag.TCPReset,
	syscall.EHOSTUNREACH:  diag.TCPNoRoute,
	syscall.EHOSTDOWN:     diag.TCPNoRoute,
	isolated:              diag.TCPNoRoute,
	syscall.ENOPROTOOPT:   diag.TCPNoRoute, // ICMP: protocol unreachable, as firewalls reject by --reject-with
	syscall.EINVAL:        diag.TCPNoRoute, // connect's error for a blackhole route
	syscall.ENETUNREACH:   diag.TCPNetUnreachable,
	syscall.ENETDOWN:      diag.TCPNetUnreachable,
	syscall.EADDRNOTAVAIL: diag.TCPNetUnreachable,
	syscall.EPERM:         diag.TCPDenied,
	syscall.EACCES:        diag.TCPDenied,
	syscall.EAFNOSUPPORT:  diag.TCPDenied,
}

// errnoWord returns the failure for a network call's errno, "" if there is none. An errno alone is ambiguous, so it
// also considers the call and the state of this machine.
func errnoWord(err error) diag.Failure {
	var e syscall.Errno
	switch {
	case !errors.As(err, &e):
		return ""
	case measure.ResourceOf(err) != "":
		return diag.HostExhausted
	case e == syscall.EAFNOSUPPORT && noSuchFamily(err):
		return diag.TCPNetUnreachable
	}
	if p, ok := errors.AsType[*prohibited](err); ok && p.elsewhere() {
		return diag.TCPNoRoute // as over IPv4, where the errno says so
	}
	return errnoWords[e]
}

// jumpWords maps a jump host's errors for a connection to failures. They are texts (ssh.OpenChannelError, whose message
// is the remote kernel's strerror or Go's).
var jumpWords = [...]struct {
	text string
	word diag.Failure
}{
	{"connection refused", diag.TCPRefused},
	{"connection timed out", diag.TCPTimeout},
	{"i/o timeout", diag.TCPTimeout},
	{"connection reset", diag.TCPReset},
	{"no route to host", diag.TCPNoRoute},
	{"protocol not available", diag.TCPNoRoute}, // ENOPROTOOPT
	{"network is unreachable", diag.TCPNetUnreachable},
	{"operation not permitted", diag.TCPDenied},
	{"administratively prohibited", diag.TCPDenied},
}

// connectWord returns the failure of a connection attempt.
func connectWord(err error) diag.Failure {
	var e syscall.Errno
	if errors.As(err, &e) {
		if w := errnoWord(err); w != "" {
			return w
		}
		return diag.Unknown
	}
	text := strings.ToLower(err.Error())
	for _, j := range jumpWords {
		if strings.Contains(text, j.text) {
			return j.word
		}
	}
	return diag.Unknown
}

// TLS alerts about a client's certificate (RFC 8446, 6.2), and two general ones.
const (
	alertHandshakeFailure    = 40
	alertBadCertificate      = 42
	alertUnsupportedCert     = 43
	alertRevokedCert         = 44
	alertExpiredCert         = 45
	alertUnknownCert         = 46
	alertUnknownCA           = 48
	alertAccessDenied        = 49
	alertCertificateRequired = 116
	alertNoProtocol          = 120 // ALPN, RFC 7301
)

// remoteAlert returns the alert that the peer sent, if err is one. crypto/tls wraps it in an unexported integer type
// (tls.AlertError is used for QUIC only), so its kind is checked; only alerts have "remote error" as their operation.
func remoteAlert(err error) (uint8, bool) {
	var a tls.AlertError
	if errors.As(err, &a) {
		return uint8(a), true
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return uint8(v.Uint()), true
}

// clientCert is what an alert can be about: the client certificate that was sent, and the server's request for one.
type clientCert struct {
	requested bool
	sent      bool
	notBefore time.Time
}

// alertWord returns the failure for an alert. Servers call a certificate that is not yet valid "expired", and some
// report a missing one as "handshake failure" or "bad certificate".
func alertWord(alert uint8, cert clientCert, now time.Time) diag.Failure {
	if cert.requested && !cert.sent {
		switch alert {
		case alertHandshakeFailure, alertBadCertificate, alertCertificateRequired:
			return diag.MTLSCertRequired
		}
	}
	switch alert {
	case alertCertificateRequired:
		return diag.MTLSCertRequired
	case alertUnknownCA:
		return diag.MTLSUnknownCA
	case alertExpiredCert, alertBadCertificate:
		if cert.sent && now.Before(cert.notBefore) {
			return diag.MTLSCertNotYetValid
		}
		if alert == alertExpiredCert {
			return diag.MTLSCertExpired
		}
		return diag.MTLSCertRejected
	case alertUnsupportedCert, alertRevokedCert, alertUnknownCert, alertAccessDenied:
		return diag.MTLSCertRejected
	case alertNoProtocol:
		return diag.TLSALPN
	}
	return diag.TLSProtocol
}

// alertPhase tells alerts about the client's certificate from those about the handshake.
func alertPhase(alert uint8, cert clientCert) string {
	switch alertWord(alert, cert, time.Time{}) {
	case diag.TLSProtocol, diag.TLSALPN:
		return phaseTLS
	}
	return phaseMTLS
}

// handshakeWord returns the failure of a handshake that did not fail for the server's certificate.
func handshakeWord(err error, cert clientCert, now time.Time) diag.Failure {
	if a, ok := remoteAlert(err); ok {
		return alertWord(a, cert, now)
	}
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return diag.TLSNotTLS
	case broken(err):
		return diag.TLSClosed
	}
	return diag.TLSProtocol
}

// broken reports whether the peer ended the connection, orderly or not.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// exchangeWord returns the phase and the failure of an exchange without an HTTP answer. A TLS 1.3 server's alert about
// the client certificate arrives only with the first read after the handshake.
func exchangeWord(err error, cert clientCert, now time.Time) (phase string, word diag.Failure) {
	if a, ok := remoteAlert(err); ok {
		return alertPhase(a, cert), alertWord(a, cert, now)
	}
	if w := errnoWord(err); w != "" {
		return phaseHTTP, w
	}
	switch {
	case errors.Is(err, errHTTP2):
		return phaseHTTP, diag.TLSALPN
	case errors.Is(err, errClosed):
		return phaseHTTP, diag.HTTPClosed
	}
	return phaseHTTP, diag.HTTPNotHTTP
}

// noSuchFamily reports whether the kernel was started without the address's family, so that no policy refuses it.
func noSuchFamily(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return false
	}
	host, _, splitErr := net.SplitHostPort(op.Addr.String())
	if splitErr != nil || !strings.Contains(host, ":") {
		return false
	}
	_, statErr := os.Stat("/proc/net/if_inet6")
	return errors.Is(statErr, fs.ErrNotExist)
}
