package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

// errnoName is the symbolic errno inside err, or "".
func errnoName(err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	return unix.ErrnoName(e)
}

// timedOut reports whether the time was up, ours or the kernel's.
func timedOut(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(ctx.Err(), context.DeadlineExceeded)
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e == syscall.ETIMEDOUT // Timeout is true of EAGAIN, too, which means an exhausted resource
	}
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		(errors.As(err, &t) && t.Timeout())
}

// errnoWords is what the kernel's answers to a connection attempt are called.
var errnoWords = map[syscall.Errno]diag.Failure{
	syscall.ECONNREFUSED:  diag.TCPRefused,
	syscall.ETIMEDOUT:     diag.TCPTimeout,
	syscall.ECONNRESET:    diag.TCPReset,
	syscall.ECONNABORTED:  diag.TCPReset,
	syscall.EPIPE:         diag.TCPReset,
	syscall.EHOSTUNREACH:  diag.TCPNoRoute,
	syscall.EHOSTDOWN:     diag.TCPNoRoute,
	syscall.EINVAL:        diag.TCPNoRoute, // connect's error for a blackhole route
	syscall.ENETUNREACH:   diag.TCPNetUnreachable,
	syscall.ENETDOWN:      diag.TCPNetUnreachable,
	syscall.EADDRNOTAVAIL: diag.TCPNetUnreachable,
	syscall.EPERM:         diag.TCPDenied,
	syscall.EACCES:        diag.TCPDenied,
	syscall.EAFNOSUPPORT:  diag.TCPDenied,
}

// errnoWord is the failure for the kernel's error of a network call; "" where none is defined. An errno alone is
// ambiguous: the call and the state of this machine count, too.
func errnoWord(err error) diag.Failure {
	var e syscall.Errno
	switch {
	case !errors.As(err, &e):
		return ""
	case resourceOf(err) != "":
		return diag.HostExhausted
	case e == syscall.EAFNOSUPPORT && noSuchFamily(err):
		return diag.TCPNetUnreachable
	}
	return errnoWords[e]
}

// jumpWords is the same for a connection that a jump host was asked for: it answers in words only
// (ssh.OpenChannelError, whose message is the far kernel's strerror or Go's).
var jumpWords = [...]struct {
	text string
	word diag.Failure
}{
	{"connection refused", diag.TCPRefused},
	{"connection timed out", diag.TCPTimeout},
	{"i/o timeout", diag.TCPTimeout},
	{"connection reset", diag.TCPReset},
	{"no route to host", diag.TCPNoRoute},
	{"network is unreachable", diag.TCPNetUnreachable},
	{"operation not permitted", diag.TCPDenied},
	{"administratively prohibited", diag.TCPDenied},
}

// connectWord names a failed connection attempt.
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

// TLS alerts that a server sends about a client's certificate (RFC 8446, 6.2), and two general ones.
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

// remoteAlert is the alert that the peer sent, if err is one. crypto/tls wraps it in an unexported integer type
// (tls.AlertError is used for QUIC only), so its kind is looked at; nothing else has "remote error" as its operation.
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

// clientCert is what was shown to the server, as far as an alert about it goes.
type clientCert struct {
	requested bool
	sent      bool
	notBefore time.Time
}

// alertWord names an alert. Servers call a certificate that is not valid yet "expired", and some answer a missing one
// with "handshake failure" or "bad certificate".
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

// alertPhase distinguishes alerts about the client's certificate from those about the handshake.
func alertPhase(alert uint8, cert clientCert) string {
	switch alertWord(alert, cert, time.Time{}) {
	case diag.TLSProtocol, diag.TLSALPN:
		return phaseTLS
	}
	return phaseMTLS
}

// handshakeWord names a handshake that failed for another reason than the server's certificate.
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

// broken reports whether the peer ended the connection, politely or not.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// exchangeWord names an exchange that brought no HTTP answer, and the phase it belongs to: a TLS 1.3 server's word
// on the client certificate arrives with the first read after the handshake.
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

// fileWord names a file that could not be read, or that does not hold what it should.
func fileWord(err error) diag.Failure {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return diag.FileMissing
	case errors.Is(err, errUnparseable):
		return diag.FileUnparseable
	case errors.Is(err, errMismatch):
		return diag.FileMismatch
	}
	return diag.FileUnreadable
}

var (
	errUnparseable = errors.New("not what it should be")
	errMismatch    = errors.New("the key is not the certificate's")
)
