package net

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestErrnoWords tests every errno of network calls, from each call that may return it.
func TestErrnoWords(t *testing.T) {
	tier.NeedsHost(t)
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	call := func(op, network, syscallName string, e syscall.Errno) error {
		return &net.OpError{Op: op, Net: network, Addr: here, Err: os.NewSyscallError(syscallName, e)}
	}
	for _, tc := range []struct {
		errno    syscall.Errno
		call     string
		connect  diag.Failure
		lookup   diag.Failure
		exchange diag.Failure
	}{
		{syscall.EAGAIN, "connect", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.EAGAIN, "read", diag.Unknown, diag.DNSServFail, diag.HTTPNotHTTP},
		{syscall.EMFILE, "socket", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.ENFILE, "socket", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.ENOBUFS, "socket", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.ENOBUFS, "write", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.ENOMEM, "socket", diag.HostExhausted, diag.HostExhausted, diag.HostExhausted},
		{syscall.EADDRNOTAVAIL, "connect", diag.HostExhausted, diag.TCPNetUnreachable, diag.HostExhausted},
		{syscall.EPERM, "connect", diag.TCPDenied, diag.TCPDenied, diag.TCPDenied},
		{syscall.EACCES, "connect", diag.TCPDenied, diag.TCPDenied, diag.TCPDenied},
		{syscall.EAFNOSUPPORT, "socket", diag.TCPDenied, diag.TCPDenied, diag.TCPDenied},
		{syscall.ETIMEDOUT, "connect", diag.TCPTimeout, diag.DNSTimeout, diag.TCPTimeout},
		{syscall.ECONNREFUSED, "connect", diag.TCPRefused, diag.DNSRefused, diag.TCPRefused},
		{syscall.EHOSTUNREACH, "connect", diag.TCPNoRoute, diag.TCPNoRoute, diag.TCPNoRoute},
		{syscall.ENOPROTOOPT, "connect", diag.TCPNoRoute, diag.TCPNoRoute, diag.TCPNoRoute},
		{syscall.ENONET, "connect", diag.TCPNoRoute, diag.TCPNoRoute, diag.TCPNoRoute},
		{syscall.ENETUNREACH, "connect", diag.TCPNetUnreachable, diag.TCPNetUnreachable, diag.TCPNetUnreachable},
	} {
		name := unix.ErrnoName(tc.errno) + " of " + tc.call
		if got := connectWord(call("dial", "tcp", tc.call, tc.errno)); got != tc.connect {
			t.Errorf("%s: connecting is %s, want %s", name, got, tc.connect)
		}
		if got := dnsErrorWord(t.Context(), call("dial", "udp", tc.call, tc.errno)); got != tc.lookup {
			t.Errorf("%s: a look-up is %s, want %s", name, got, tc.lookup)
		}
		if _, got := exchangeWord(call("dial", "tcp", tc.call, tc.errno), clientCert{}, time.Now()); got != tc.exchange {
			t.Errorf("%s: an exchange is %s, want %s", name, got, tc.exchange)
		}
	}
}

// TestResolverErrno: Go's resolver returns a text instead of an errno; the DNS server must not be blamed for it.
func TestResolverErrno(t *testing.T) {
	for e, want := range map[syscall.Errno]diag.Failure{
		syscall.EMFILE: diag.HostExhausted, syscall.EAGAIN: diag.HostExhausted, syscall.EPERM: diag.TCPDenied,
		syscall.EAFNOSUPPORT: diag.TCPDenied, syscall.ENETUNREACH: diag.TCPNetUnreachable,
	} {
		err := &net.DNSError{Name: "x.test", Err: "dial udp 192.0.2.53:53: connect: " + e.Error(), IsTimeout: e.Timeout(),
			IsTemporary: e.Temporary()}
		if word, phase, errno := ClassifyDial(t.Context(), &net.OpError{Op: "dial", Net: "tcp", Err: err}); word != want ||
			phase != "dns" || errno != unix.ErrnoName(e) {
			t.Errorf("%s: %s in %s (%s), want %s", unix.ErrnoName(e), word, phase, errno, want)
		}
	}
	if got := measure.ResourceOf(errors.New("dial: too many open files")); got != "" {
		t.Errorf("words alone are %s", got)
	}
}
