package net

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// misfortune is one way in which a network request fails, produced for real unless that needs privileges.
type misfortune struct {
	word  diag.Failure
	phase string
	name  string
	fact  func(t *testing.T) diag.Fact
}

// misfortunes covers the failure words of all phases.
func misfortunes() []misfortune {
	return slices.Concat(dnsMisfortunes, tcpMisfortunes, tlsMisfortunes, mtlsMisfortunes, httpMisfortunes, wsMisfortunes,
		fileMisfortunes)
}

// late is a misfortune that ends by timeout. The measurement gets its time, in ms.
func late(word diag.Failure, phase, name string, fact func(t *testing.T, ms int64) diag.Fact) misfortune {
	return misfortune{word, phase, name, func(t *testing.T) diag.Fact {
		return kit.OutOfTime(func(ms int64) diag.Fact { return fact(t, ms) },
			func(f diag.Fact) bool { return f.Failure == word && f.Phase == phase })
	}}
}

func TestEveryMisfortuneHasItsWord(t *testing.T) {
	tier.NeedsHost(t)
	for _, m := range misfortunes() {
		t.Run(string(m.word)+"/"+m.name, func(t *testing.T) {
			kit.NoLeaks(t)
			f := m.fact(t)
			if f.Failure != m.word || f.Phase != m.phase {
				t.Fatalf("got %q in phase %q (%s %s), want %q in %q", f.Failure, f.Phase, f.Errno, f.Detail, m.word, m.phase)
			}
			if f.Passed() || f.DurationMS == 0 || f.At.IsZero() {
				t.Errorf("not a whole fact: %+v", f)
			}
		})
	}
}

// TestEveryWordIsMade fails if a failure word of the network is added that no test produces.
func TestEveryWordIsMade(t *testing.T) {
	tier.NeedsHost(t)
	elsewhere := map[diag.Failure]string{
		diag.DNSMismatch:    "said by a judge that compares two facts",
		diag.FileUnreadable: "root reads every file: see TestFileWord",
	}
	made := map[diag.Failure]bool{}
	for _, m := range misfortunes() {
		made[m.word] = true
	}
	for _, w := range diag.Failures {
		family, _, _ := strings.Cut(string(w), "_")
		ours := slices.Contains([]string{"dns", "tcp", "tls", "mtls", "http", "ws", "file", "timeout", "cancelled",
			"unsupported"}, family) ||
			slices.Contains([]diag.Failure{diag.UserMissing, diag.ShellMissing, diag.PTYFailed, diag.PTYSilent}, w)
		if ours && !made[w] && elsewhere[w] == "" {
			t.Errorf("no test makes %s", w)
		}
	}
}

// lookupOf measures one name with servers in the host's own files.
func lookupOf(h dns.HandlerFunc) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		p := newProber(t)
		namesFrom(t, p, "", "nameserver "+dnstest.Serve(t, h)+"\noptions attempts:1 timeout:30\n", "")
		return kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000})
	}
}

// tomorrow is a leaf that is not valid before the tests have ended, however long they take.
var tomorrow = kit.Leaf{NotBefore: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour)}

var dnsMisfortunes = []misfortune{
	{diag.DNSNXDomain, "dns", "no such name", lookupOf(kit.Zone(nil))},
	{diag.DNSNoAnswer, "dns", "a name without addresses",
		lookupOf(kit.Zone(map[string][]string{"api.gpuaas.test.": nil}))},
	{diag.DNSServFail, "dns", "the server fails", lookupOf(kit.RCode(dns.RcodeServerFailure))},
	{diag.DNSRefused, "dns", "the server refuses", lookupOf(kit.RCode(dns.RcodeRefused))},
	{diag.DNSRefused, "dns", "nobody listens", func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: porttest.UDP(t)})
	}},
	late(diag.DNSTimeout, "dns", "the server is silent", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "https://api.gpuaas.test/healthz", TimeoutMS: ms,
			Resolver: dnstest.Serve(t, func(dns.ResponseWriter, *dns.Msg) {})})
	}),
	{diag.DNSTimeout, "dns", "the servers of resolv.conf are silent, and there is time left",
		func(t *testing.T) diag.Fact {
			p := newProber(t)
			namesFrom(t, p, "", "nameserver "+dnstest.Serve(t, func(dns.ResponseWriter, *dns.Msg) {})+
				"\noptions attempts:1 timeout:1\n", "")
			return kit.Run(context.Background(), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 5000})
		}},
	{diag.DNSServFail, "dns", "rubbish comes back",
		lookupOf(func(w dns.ResponseWriter, _ *dns.Msg) { _, _ = w.Write([]byte("no")) })},
}

// dialed fails every connection attempt with a kernel's error.
func dialed(errno syscall.Errno) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		p := newProber(t)
		p.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		}
		return kit.Run(context.Background(), p, diag.Request{Op: diag.OpTCP, Target: "127.0.0.1:1"})
	}
}

var tcpMisfortunes = []misfortune{
	{diag.TCPRefused, "tcp", "nobody listens", func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpTCP, Target: kit.ClosedPort(t)})
	}},
	late(diag.TCPTimeout, "tcp", "no answer", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpTLS, Target: kit.SilentPort(t), TimeoutMS: ms})
	}),
	{diag.TCPTimeout, "tcp", "the kernel gave up", dialed(syscall.ETIMEDOUT)},
	{diag.TCPReset, "tcp", "reset while connecting", dialed(syscall.ECONNRESET)},
	{diag.TCPReset, "http", "reset after the request", func(t *testing.T) diag.Fact {
		addr := kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); kit.Reset(c) })
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/"})
	}},
	{diag.TCPNoRoute, "tcp", "host unreachable", dialed(syscall.EHOSTUNREACH)},
	{diag.TCPNoRoute, "tcp", "protocol unreachable", dialed(syscall.ENOPROTOOPT)},
	{diag.TCPNetUnreachable, "tcp", "network unreachable", dialed(syscall.ENETUNREACH)},
	{diag.TCPDenied, "tcp", "EPERM", dialed(syscall.EPERM)},
	{diag.TCPDenied, "tcp", "EACCES", dialed(syscall.EACCES)},
	{diag.Unsupported, "target", "no host", func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "/healthz"})
	}},
	{diag.Unsupported, "target", "a pin that is no address", func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpTCP, Target: "edge.test:443", Resolve: "edge.test"})
	}},
	{diag.Cancelled, "tls", "somebody gave up", func(t *testing.T) diag.Fact {
		ctx, cancel := context.WithCancel(context.Background())
		addr := kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); cancel(); kit.UntilClosed(c) })
		return kit.Run(ctx, newProber(t), diag.Request{Op: diag.OpTLS, Target: addr})
	}},
	late(diag.HTTPTimeout, "http", "the caller's own deadline is no cancellation", func(t *testing.T, ms int64) diag.Fact {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
		defer cancel()
		return kit.Run(ctx, newProber(t), diag.Request{Op: diag.OpHTTP, Target: "http://" + kit.ServeTCP(t,
			kit.UntilClosed) + "/",
			TimeoutMS: 60_000})
	}),
}

// shaken makes a handshake with a server that has this certificate.
func shaken(o kit.Leaf, how ...func(*tls.Config)) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, o), http.NotFoundHandler(), how...)
		return run(t, diag.Request{Op: diag.OpTLS, Target: s.Listener.Addr().String(), CAInline: ca.PEM})
	}
}

func greeted(serve func(net.Conn)) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpTLS, Target: kit.ServeTCP(t, serve)})
	}
}

var tlsMisfortunes = []misfortune{
	{diag.TLSUnknownCA, "tls", "signed by somebody else", func(t *testing.T) diag.Fact {
		s := kit.Site(t, kit.NewAuthority(t, "ca").Leaf(t, kit.Leaf{}), http.NotFoundHandler())
		return run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: kit.NewAuthority(t, "another").PEM})
	}},
	{diag.TLSExpired, "tls", "expired", shaken(kit.Leaf{NotAfter: time.Now().Add(-time.Minute)})},
	{diag.TLSNotYetValid, "tls", "not yet valid", shaken(tomorrow)},
	{diag.TLSExpired, "tls", "expired, and by an unknown CA", func(t *testing.T) diag.Fact {
		s := kit.Site(t, kit.NewAuthority(t, "ca").Leaf(t, kit.Leaf{NotAfter: time.Now().Add(-time.Minute)}),
			http.NotFoundHandler())
		return run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: kit.NewAuthority(t, "another").PEM})
	}},
	{diag.TLSNameMismatch, "tls", "for another name", shaken(kit.Leaf{Name: "other.test"})},
	{diag.TLSNameMismatch, "tls", "for another name than SNI", func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.NotFoundHandler())
		return run(t, diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: ca.PEM, ServerName: "api.gpuaas.test"})
	}},
	{diag.TLSProtocol, "tls", "an old version only",
		shaken(kit.Leaf{}, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 })},
	{diag.TLSALPN, "tls", "no protocol in common",
		shaken(kit.Leaf{}, func(c *tls.Config) { c.NextProtos = []string{"h3"} })},
	{diag.TLSNotTLS, "tls", "plain HTTP", greeted(func(c net.Conn) {
		kit.ReadSome(c)
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
	})},
	{diag.TLSNotTLS, "tls", "an SSH banner",
		greeted(func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); kit.UntilClosed(c) })},
	{diag.TLSClosed, "tls", "closed", greeted(kit.ReadSome)},
	{diag.TLSClosed, "tls", "reset", greeted(func(c net.Conn) { kit.ReadSome(c); kit.Reset(c) })},
	late(diag.Timeout, "tls", "silence", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpTLS, Target: kit.ServeTCP(t, kit.UntilClosed), TimeoutMS: ms})
	}),
}

// badClient presents a certificate to a server that requires one of ca. The maker gets the CA that the server trusts.
func badClient(maker func(t *testing.T, ca kit.Authority) *tls.Certificate,
	how ...func(*tls.Config)) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"),
			append([]func(*tls.Config){func(c *tls.Config) {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
			}}, how...)...)
		req := diag.Request{Op: diag.OpHTTP, Target: s.URL + "/tasks/wait", CAInline: ca.PEM}
		if pair := maker(t, ca); pair != nil {
			req.Cert, req.Key = kit.WritePair(t, *pair)
		}
		return run(t, req)
	}
}

func clientLeaf(o kit.Leaf) func(*testing.T, kit.Authority) *tls.Certificate {
	return func(t *testing.T, ca kit.Authority) *tls.Certificate {
		c := ca.Leaf(t, o)
		return &c
	}
}

func noClientLeaf(*testing.T, kit.Authority) *tls.Certificate { return nil }

func foreignLeaf(t *testing.T, _ kit.Authority) *tls.Certificate {
	c := kit.NewAuthority(t, "another").Leaf(t, kit.Leaf{})
	return &c
}

func tls12(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }

func refuseAll(c *tls.Config) {
	c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("revoked") }
}

const (
	nginxSSLError = "<html>\r\n<head><title>400 The SSL certificate error</title></head>\r\n<body>\r\n<center><h1>400 " +
		"Bad Request</h1></center>\r\n" +
		"<center>The SSL certificate error</center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
	nginxNoCert = "<html>\r\n<head><title>400 No required SSL certificate was " +
		"sent</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n" +
		"<center>No required SSL certificate was sent</center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
	nginxBadGateway = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad " +
		"Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
)

var mtlsMisfortunes = []misfortune{
	{diag.MTLSCertRequired, "mtls", "none sent, TLS 1.3", badClient(noClientLeaf)},
	{diag.MTLSCertRequired, "mtls", "none sent, TLS 1.2", badClient(noClientLeaf, tls12)},
	{diag.MTLSUnknownCA, "mtls", "signed by somebody else, TLS 1.3", badClient(foreignLeaf)},
	{diag.MTLSUnknownCA, "mtls", "signed by somebody else, TLS 1.2", badClient(foreignLeaf, tls12)},
	{diag.MTLSCertExpired, "mtls", "expired", badClient(clientLeaf(kit.Leaf{NotAfter: time.Now().Add(-time.Minute)}))},
	{diag.MTLSCertNotYetValid, "mtls", "not yet valid", badClient(clientLeaf(tomorrow))},
	{diag.MTLSCertRejected, "mtls", "rejected", badClient(clientLeaf(kit.Leaf{}), refuseAll)},
	{diag.MTLSNotRequested, "mtls", "a public edge",
		badClient(clientLeaf(kit.Leaf{}), func(c *tls.Config) { c.ClientAuth = tls.NoClientCert })},
	{diag.MTLSIngress400, "http", "nginx dislikes the certificate", answered(kit.Page(400, "text/html", nginxSSLError))},
	{diag.MTLSIngress400, "http", "nginx wants a certificate", answered(kit.Page(400, "text/html", nginxNoCert))},
}

// answered sends a request to an HTTP server without TLS, for which the failure words are the same.
func answered(h http.HandlerFunc) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), h)
		return run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL + "/healthz", CAInline: ca.PEM, TimeoutMS: 60_000})
	}
}

func replied(text string) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		addr := kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); _, _ = c.Write([]byte(text)) })
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", TimeoutMS: 60_000})
	}
}

var httpMisfortunes = []misfortune{
	{diag.HTTPStatus, "http", "500", answered(kit.Page(500, kit.JSONType, `{"error":{"code":"internal"}}`))},
	{diag.HTTPStatus, "http", "404", answered(kit.Page(404, "text/plain; charset=utf-8", "404 page not found"))},
	{diag.HTTPStatus, "http", "401 typed", answered(kit.Page(401, kit.JSONType, `{"error":{"code":"revoked"}}`))},
	{diag.HTTPRateLimited, "http", "429", answered(kit.Page(429, "text/html", "slow down", "Retry-After", "7"))},
	late(diag.HTTPTimeout, "http", "no answer", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + kit.ServeTCP(t, kit.UntilClosed) + "/",
			TimeoutMS: ms})
	}),
	late(diag.HTTPTimeout, "http", "half an answer", func(t *testing.T, ms int64) diag.Fact {
		addr := kit.ServeTCP(t, func(c net.Conn) {
			kit.ReadSome(c)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
			kit.UntilClosed(c)
		})
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", TimeoutMS: ms})
	}),
	late(diag.HTTPTimeout, "poll", "never what was hoped for", func(t *testing.T, ms int64) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, `{"status":"queued"}`))
		return run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, TimeoutMS: ms,
			Extract: map[string]string{"status": "status"}, Poll: &diag.Poll{Field: "status", Until: []string{"completed"}}})
	}),
	{diag.HTTPNotHTTP, "http", "another protocol", replied("220 mail.test ESMTP\r\n")},
	late(diag.HTTPNotHTTP, "http", "bytes that never end a line", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + kit.ServeTCP(t, func(c net.Conn) {
			kit.ReadSome(c)
			_, _ = c.Write([]byte("\x00\xff\x00"))
			kit.UntilClosed(c)
		}), TimeoutMS: ms})
	}),
	{diag.HTTPNotHTTP, "http", "1xx without an end", replied(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000))},
	{diag.HTTPMalformed, "http", "half a JSON that is marked as whole", func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, `{"status":"queue`))
		return run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM,
			Extract: map[string]string{"status": "status"}})
	}},
	{diag.HTTPClosed, "http", "closed without a word", replied("")},
	{diag.HTTPClosed, "http", "closed within a header", replied("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n")},
	{diag.TLSALPN, "http", "HTTP/2 settings", replied("\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
	{diag.HTTPEdgePage, "http", "nginx 502", answered(kit.Page(502, "text/html", nginxBadGateway))},
	{diag.HTTPEdgePage, "http", "nginx 404",
		answered(kit.Page(404, "text/html", strings.ReplaceAll(nginxBadGateway, "502 Bad Gateway", "404 Not Found")))},
	{diag.HTTPEdgePage, "http", "Cloudflare 522",
		answered(kit.Page(522, "text/html; charset=UTF-8", "<title>522: Connection timed out</title>", "Server",
			"cloudflare"))},
	{diag.HTTPEdgePage, "http", "Cloudflare 1020",
		answered(kit.Page(403, "text/plain", "error code: 1020", "Server", "cloudflare"))},
	{diag.HTTPEdgePage, "http", "Envoy 503",
		answered(kit.Page(503, "text/plain",
			"upstream connect error or disconnect/reset before headers. reset reason: connection failure"))},
	{diag.HTTPEdgeAuth, "http", "sent to a login",
		answered(kit.Page(302, "text/html", "", "Location",
			"https://team.cloudflareaccess.com/cdn-cgi/access/login/x?kid=1"))},
	{diag.HTTPEdgeAuth, "http", "sent to an authorize page",
		answered(kit.Page(303, "text/html", "", "Location", "https://id.test/oauth2/authorize?state=x"))},
	{diag.HTTPEdgeAuth, "http", "a login page",
		answered(kit.Page(403, "text/html", `<form><input name="p" type="password"></form>`))},
	{diag.HTTPEdgeAuth, "http", "401 for browsers",
		answered(kit.Page(401, "text/html", "<h1>401 Authorization Required</h1>", "WWW-Authenticate", "Basic"))},
}

var wsMisfortunes = []misfortune{
	{diag.WSUpgradeRejected, "ws", "a typed no",
		refusedUpgrade(kit.Page(403, kit.JSONType, `{"error":{"code":"token_expired"}}`))},
	{diag.WSUpgradeRejected, "ws", "an edge that strips the upgrade", refusedUpgrade(kit.Page(200, kit.JSONType, `{}`))},
	{diag.WSUpgradeRejected, "ws", "a wrong handshake", refusedUpgrade(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Sec-WebSocket-Accept", "no")
		w.Header().Set("Sec-WebSocket-Protocol", "gpuaas.terminal.v1")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})},
	{diag.HTTPRateLimited, "http", "an upgrade too many", refusedUpgrade(kit.Page(429, "text/html", ""))},
	{diag.HTTPEdgeAuth, "http", "an upgrade without the edge's cookie",
		refusedUpgrade(kit.Page(302, "text/html", "", "Location", "/.pomerium/sign_in"))},
	{diag.HTTPEdgePage, "http", "no gateway behind the edge", refusedUpgrade(kit.Page(502, "text/html", nginxBadGateway))},
	{diag.MTLSIngress400, "http", "an upgrade without a certificate", refusedUpgrade(kit.Page(400, "text/html",
		nginxNoCert))},
	late(diag.HTTPTimeout, "ws", "no answer to an upgrade", func(t *testing.T, ms int64) diag.Fact {
		return run(t, diag.Request{Op: diag.OpWS, Target: "ws://" + kit.ServeTCP(t, kit.UntilClosed) + "/", TimeoutMS: ms})
	}),
	{diag.TCPReset, "ws", "reset during an upgrade", func(t *testing.T) diag.Fact {
		return run(t, diag.Request{Op: diag.OpWS, Target: "ws://" + kit.ServeTCP(t,
			func(c net.Conn) { kit.ReadSome(c); kit.Reset(c) }) +
			"/"})
	}},
	{diag.WSSubprotocol, "ws", "none chosen",
		terminalBy(&websocket.AcceptOptions{InsecureSkipVerify: true}, sendTexts(`{"type":"ready"}`))},
	{diag.WSSubprotocol, "ws", "the token chosen", refusedUpgrade(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r,
			&websocket.AcceptOptions{Subprotocols: []string{"bearer." + kit.Canary}, InsecureSkipVerify: true})
		if err == nil {
			_, _, _ = c.Read(context.Background())
		}
	})},
	silence(diag.WSSilent, "ws", "accepted and forgotten",
		func(ctx context.Context, c *websocket.Conn) { _, _, _ = c.Read(ctx) }),
	{diag.WSClosed, "ws", "closed with a reason",
		terminalOf(func(_ context.Context, c *websocket.Conn) { _ = c.Close(4001, "session replaced") })},
	{diag.WSClosed, "ws", "broken", terminalOf(func(_ context.Context, c *websocket.Conn) { _ = c.CloseNow() })},
	{diag.WSClosed, "ws", "an error of the gateway",
		terminalOf(sendTexts(`{"type":"error","code":"node_stream_timeout","message":"no stream"}`))},
	{diag.WSClosed, "pty", "closed before the shell answered", terminalOf(func(ctx context.Context, c *websocket.Conn) {
		sendTexts(`{"type":"ready"}`)(ctx, c)
		_ = c.Close(1011, "gone")
	})},
	{diag.UserMissing, "pty", "no such user",
		terminalOf(sendTexts(`{"type":"error","code":"user_missing","message":"no user"}`))},
	{diag.ShellMissing, "pty", "no such shell", terminalOf(sendTexts(`{"type":"error","code":"user_shell_missing"}`))},
	{diag.PTYFailed, "pty", "no PTY", terminalOf(sendTexts(`{"type":"error","code":"pty_failed"}`))},
	{diag.PTYFailed, "pty", "the shell ends at once",
		terminalOf(sendTexts(`{"type":"ready"}`, `{"type":"exit","code":"pty_exited"}`))},
	{diag.PTYFailed, "pty", "said by the close frame only",
		terminalOf(func(_ context.Context, c *websocket.Conn) { _ = c.Close(1011, "pty_failed") })},
	silence(diag.PTYSilent, "pty", "an echo is not a shell", echo),
	silence(diag.PTYSilent, "pty", "ready and nothing more", func(ctx context.Context, c *websocket.Conn) {
		sendTexts(`{"type":"ready"}`)(ctx, c)
		for ctx.Err() == nil {
			if _, _, err := c.Read(ctx); err != nil {
				return
			}
		}
	}),
}

// material makes a handshake with files that spoil has modified.
func material(spoil func(t *testing.T, req *diag.Request)) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.NotFoundHandler())
		req := diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: ca.PEM}
		req.Cert, req.Key = kit.WritePair(t, ca.Leaf(t, kit.Leaf{}))
		spoil(t, &req)
		return run(t, req)
	}
}

func rubbish(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rubbish.pem")
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var fileMisfortunes = []misfortune{
	{diag.FileMissing, "cert", "no certificate",
		material(func(_ *testing.T, r *diag.Request) { r.Cert = "/nonexistent/cert.pem" })},
	{diag.FileMissing, "cert", "no key", material(func(_ *testing.T, r *diag.Request) { r.Key = "/nonexistent/key.pem" })},
	{diag.FileUnparseable, "cert", "a certificate that is none",
		material(func(t *testing.T, r *diag.Request) { r.Cert = rubbish(t) })},
	{diag.FileUnparseable, "cert", "a key that is none",
		material(func(t *testing.T, r *diag.Request) { r.Key = rubbish(t) })},
	{diag.FileMismatch, "cert", "another certificate's key", material(func(t *testing.T, r *diag.Request) {
		_, r.Key = kit.WritePair(t, kit.NewAuthority(t, "x").Leaf(t, kit.Leaf{}))
	})},
	{diag.FileMissing, "trust", "no bundle",
		material(func(_ *testing.T, r *diag.Request) { r.CAInline, r.CABundle = "", "/nonexistent/ca.crt" })},
	{diag.FileUnparseable, "trust", "an empty bundle",
		material(func(t *testing.T, r *diag.Request) { r.CAInline, r.CABundle = "", rubbish(t) })},
}
