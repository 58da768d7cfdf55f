package probe

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// outOfTime runs a measurement that must time out in a certain phase. A busy machine may not reach the phase in a
// second, and then gets more time.
func outOfTime(measure func(ms int64) diag.Fact, there func(f diag.Fact) bool) diag.Fact {
	for ms := int64(1000); ; ms *= 4 {
		if f := measure(ms); there(f) || ms > 30_000 {
			return f
		}
	}
}

// again repeats a measurement that ended early because the machine is busy, up to five times.
func again(measure func() diag.Fact, whole func(f diag.Fact) bool) (f diag.Fact) {
	for range 5 {
		if f = measure(); whole(f) {
			break
		}
	}
	return f
}

// patient returns a context whose short waits are longer, for busy machines.
func patient(t *testing.T) context.Context {
	t.Helper()
	return WithPatience(t.Context(), 20)
}

// noLeaks fails the test if a goroutine outlives everything that the test started; call it first.
func noLeaks(t *testing.T) {
	t.Helper()
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() { leaktest.None(t, now) })
}

// newProber returns a prober whose kept connections are closed after the test.
func newProber(t *testing.T) *Prober {
	t.Helper()
	p := &Prober{Vantage: "operator"}
	t.Cleanup(p.Close)
	return p
}

func run(t *testing.T, req diag.Request) diag.Fact {
	t.Helper()
	return newProber(t).Run(WithPatience(context.Background(), 20), req)
}

// wired starts a listener whose connections are handled by serve, one goroutine each, and waits for all of them.
func wired(t *testing.T, serve func(net.Conn)) (addr string) {
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

// untilClosed reads until the peer closes, like a server that does not answer.
func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// slam resets a connection.
func slam(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// readSome waits for the first bytes of a request.
func readSome(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }

// closedPort returns a port on which nothing listens.
func closedPort(t *testing.T) string { return porttest.TCP(t) }

// deafPort listens with a full backlog: a further connection attempt gets no answer at all.
func deafPort(t *testing.T) string {
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

// site starts an HTTPS server with a certificate of ca, modified by how.
func site(t *testing.T, cert tls.Certificate, h http.Handler, how ...func(*tls.Config)) *httptest.Server {
	t.Helper()
	tier.NeedsHost(t)
	s := unstartedSite(cert, h)
	for _, f := range how {
		f(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// unstartedSite returns an HTTPS server that the caller configures and starts.
func unstartedSite(cert tls.Certificate, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	return s
}

// page returns a handler with a fixed answer.
func page(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// newRecorder returns the answer of a handler without a network.
func newRecorder(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "https://edge.test/", nil)
	h.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const jsonType = "application/json"

// zone answers from a table of name (with dot) to addresses; other names do not exist.
func zone(names map[string][]string) dns.HandlerFunc {
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

// rcode answers every query with one code.
func rcode(code int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, code)) }
}

// namesFrom gives a prober its own hosts, resolv.conf and nsswitch.conf.
func namesFrom(t *testing.T, p *Prober, hosts, resolv, nsswitch string) {
	t.Helper()
	dir := t.TempDir()
	p.Net.names = nameFiles{hosts: filepath.Join(dir, "hosts"), resolv: filepath.Join(dir, "resolv.conf"),
		nsswitch: filepath.Join(dir, "nsswitch.conf"), behind: []string{}}
	for path, text := range map[string]string{p.Net.names.hosts: hosts, p.Net.names.resolv: resolv, p.Net.names.nsswitch: nsswitch} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
