package probetest

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// ServeTCP starts a listener whose connections are handled by serve, one goroutine each, and waits for all of them.
func ServeTCP(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

// UntilClosed reads until the peer closes, like a server that does not answer.
func UntilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// Reset resets a connection.
func Reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// ReadSome waits for the first bytes of a request.
func ReadSome(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }

// ClosedPort returns a port on which nothing listens.
func ClosedPort(t *testing.T) string { return porttest.TCP(t) }

// SilentPort listens with a full backlog: a further connection attempt gets no answer at all.
func SilentPort(t *testing.T) string {
	t.Helper()
	tier.NeedsHost(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*syscall.SockaddrInet4).Port}).String()
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the backlog does not fill up")
	return ""
}

// Site starts an HTTPS server with a certificate of ca, modified by how.
func Site(t *testing.T, cert tls.Certificate, h http.Handler, how ...func(*tls.Config)) *httptest.Server {
	t.Helper()
	tier.NeedsHost(t)
	s := UnstartedSite(cert, h)
	for _, f := range how {
		f(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// UnstartedSite returns an HTTPS server that the caller configures and starts.
func UnstartedSite(cert tls.Certificate, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	return s
}

// Page returns a handler with a fixed answer.
func Page(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const JSONType = "application/json"

// Zone answers from a table of name (with dot) to addresses; other names do not exist.
func Zone(names map[string][]string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		addrs, ok := names[q.Question[0].Name]
		if !ok {
			r.Rcode = dns.RcodeNameError
		}
		for _, a := range addrs {
			ip := net.ParseIP(a)
			h := dns.RR_Header{Name: q.Question[0].Name, Class: dns.ClassINET, Ttl: 1}
			switch four := ip.To4() != nil; {
			case four && q.Question[0].Qtype == dns.TypeA:
				h.Rrtype = dns.TypeA
				r.Answer = append(r.Answer, &dns.A{Hdr: h, A: ip})
			case !four && q.Question[0].Qtype == dns.TypeAAAA:
				h.Rrtype = dns.TypeAAAA
				r.Answer = append(r.Answer, &dns.AAAA{Hdr: h, AAAA: ip})
			}
		}
		_ = w.WriteMsg(r)
	}
}

// RCode answers every query with one code.
func RCode(code int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, code)) }
}

// Canary is a secret that must appear only on the wire.
const Canary = "Canary-7f3a9c2e5b8d4f60"
