package net

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestBadChainIsShownAndNotUsed: the chain is recorded, and not a byte of the request is sent over the connection.
func TestBadChainIsShownAndNotUsed(t *testing.T) {
	kit.NoLeaks(t)
	var asked atomic.Int32
	ca, other := kit.NewAuthority(t, "ca"), kit.NewAuthority(t, "other")
	leaf := ca.Leaf(t, kit.Leaf{})
	s := kit.Site(t, leaf, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	bundle := filepath.Join(t.TempDir(), "ca-bundle.crt")
	if err := os.WriteFile(bundle, []byte(other.PEM+kit.NewAuthority(t, "third").PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CABundle: bundle, Token: diag.NewSecret(kit.Canary)})
	if f.Failure != diag.TLSUnknownCA || f.HTTP != nil || asked.Load() != 0 {
		t.Errorf("failure %s, http %+v, asked %d times", f.Failure, f.HTTP, asked.Load())
	}
	x := f.TLS
	if x.Verified || len(x.Chain) != 2 || x.Chain[0].Serial != leaf.Leaf.SerialNumber.Text(16) ||
		x.Chain[0].Issuer != "CN=ca,O=GPUaaS test" {
		t.Errorf("chain: %+v", x.Chain)
	}
	if x.TrustSource != bundle || len(x.TrustRoots) != 2 || x.TrustRoots[0].Subject != "CN=other,O=GPUaaS test" {
		t.Errorf("trust: %s %+v", x.TrustSource, x.TrustRoots)
	}
	if x.Version != "TLS 1.3" || x.DurationMS == 0 || x.ServerName != "127.0.0.1" {
		t.Errorf("handshake: %+v", x)
	}
}

// TestLookGoesOnWithoutSecrets: a request over a bad chain reads the answer, keeps the failure, and sends no secret.
func TestLookGoesOnWithoutSecrets(t *testing.T) {
	kit.NoLeaks(t)
	headers := make(chan http.Header, 1)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		kit.Page(200, kit.JSONType, `{"status":"ok"}`)(w, r)
	}))
	p := newProber(t)
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: kit.NewAuthority(t, "other").PEM, TLSLook: true,
		Token: diag.NewSecret(kit.Canary), Cookie: diag.NewSecret("sid=" + kit.Canary),
		Extract: map[string]string{"status": "status"}}
	f := kit.Run(context.Background(), p, req)
	if f.Failure != diag.TLSUnknownCA || f.Phase != "tls" || f.TLS.Verified || f.HTTP == nil ||
		f.HTTP.Fields["status"] != "ok" {
		t.Fatalf("%s in %s, %+v", f.Failure, f.Phase, f.HTTP)
	}
	if h := <-headers; h.Get("Authorization") != "" || h.Get("Cookie") != "" {
		t.Errorf("secrets went to a stranger: %v", h)
	}
	req.TLSLook = false
	if f = kit.Run(context.Background(), p, req); f.HTTP != nil || f.TCP.Reused {
		t.Errorf("the connection of a look was used again: %+v", f)
	}
}

// TestClientCertificateIsAlwaysShown: the certificate is sent even to a server that lists only other issuers, to get
// its real answer.
func TestClientCertificateIsAlwaysShown(t *testing.T) {
	kit.NoLeaks(t)
	ca, ingress := kit.NewAuthority(t, "ca"), kit.NewAuthority(t, "ingress clients")
	pair := ca.Leaf(t, kit.Leaf{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"), func(c *tls.Config) {
			c.ClientAuth, c.ClientCAs, c.MaxVersion = tls.RequireAndVerifyClientCert, ingress.Pool(), version
		})
		req := diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM}
		req.Cert, req.Key = kit.WritePair(t, pair)
		f := run(t, req)
		if f.Failure != diag.MTLSUnknownCA {
			t.Errorf("%s: %s in %s: %s", tls.VersionName(version), f.Failure, f.Phase, f.Detail)
		}
		x := f.TLS
		if x.CertRequested == nil || !*x.CertRequested || x.CertSent != pair.Leaf.SerialNumber.Text(16) ||
			!slices.Equal(x.AcceptableCAs, []string{"CN=ingress clients,O=GPUaaS test"}) {
			t.Errorf("%s: %+v", tls.VersionName(version), x)
		}
		if !x.Verified {
			t.Errorf("%s: the server's own certificate is good", tls.VersionName(version))
		}
	}
}

// TestGreenHandshakeProvesNothing shows why an exchange must follow: with TLS 1.3 the handshake of a rejected client
// succeeds.
func TestGreenHandshakeProvesNothing(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"), func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	})
	req := diag.Request{Op: diag.OpTLS, Target: s.URL, CAInline: ca.PEM}
	req.Cert, req.Key = kit.WritePair(t, kit.NewAuthority(t, "another").Leaf(t, kit.Leaf{}))
	if f := run(t, req); !f.Passed() {
		t.Fatalf("the handshake alone: %s: %s", f.Failure, f.Detail)
	}
	req.Op = diag.OpHTTP
	if f := run(t, req); f.Failure != diag.MTLSUnknownCA || f.TLS == nil || f.HTTP != nil {
		t.Errorf("the exchange: %s: %s", f.Failure, f.Detail)
	}
}

// TestPublicEdgeIsNamedAndItsAnswerKept: the listener never requested a certificate, whatever it answers.
func TestPublicEdgeIsNamedAndItsAnswerKept(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(401, kit.JSONType, `{"error":{"code":"unauthenticated"}}`))
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM}
	req.Cert, req.Key = kit.WritePair(t, ca.Leaf(t, kit.Leaf{}))
	p := newProber(t)
	for _, op := range []diag.Op{diag.OpHTTP, diag.OpHTTP, diag.OpWS} { // the second over a kept connection
		req.Op = op
		f := kit.Run(context.Background(), p, req)
		if f.Failure != diag.MTLSNotRequested || f.HTTP == nil || f.HTTP.Status != 401 ||
			f.HTTP.ErrorCode != "unauthenticated" {
			t.Errorf("%s: %s, %+v", op, f.Failure, f.HTTP)
		}
		if f.TLS == nil || f.TLS.CertRequested == nil || *f.TLS.CertRequested || f.TLS.CertSent != "" {
			t.Errorf("%s: %+v", op, f.TLS)
		}
	}
}

// TestServerNameAndPin: SNI and the verified name follow ServerName, the address follows Resolve, Host stays.
func TestServerNameAndPin(t *testing.T) {
	kit.NoLeaks(t)
	type seen struct{ sni, host string }
	got := make(chan seen, 1)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}),
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- seen{r.TLS.ServerName, r.Host} }))
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: "https://api.gpuaas.test:" + port + "/", Resolve: "127.0.0.1",
		ServerName: "edge.test", CAInline: ca.PEM})
	if !f.Passed() || f.DNS.Source != "pinned" || f.TLS.ServerName != "edge.test" {
		t.Fatalf("%s: %s", f.Failure, f.Detail)
	}
	if g := <-got; g.sni != "edge.test" || g.host != "api.gpuaas.test:"+port {
		t.Errorf("server saw %+v", g)
	}
}

func TestFactsHoldNoSecrets(t *testing.T) {
	kit.NoLeaks(t)
	for _, m := range wsMisfortunes {
		f := m.fact(t)
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), kit.Canary) {
			t.Errorf("%s/%s: the token is in the fact: %s", m.word, m.name, b)
		}
	}
}

func TestErrnoIsNamed(t *testing.T) {
	tier.NeedsHost(t)
	f := run(t, diag.Request{Op: diag.OpTCP, Target: kit.ClosedPort(t)})
	if f.Errno != "ECONNREFUSED" || f.TCP == nil || f.TCP.Remote == "" || f.TCP.DurationMS == 0 {
		t.Errorf("%s %+v", f.Errno, f.TCP)
	}
}

func TestFileWord(t *testing.T) {
	for err, want := range map[error]diag.Failure{
		os.ErrNotExist: diag.FileMissing, syscall.ENOTDIR: diag.FileMissing, os.ErrPermission: diag.FileUnreadable,
		syscall.EIO: diag.FileUnreadable, measure.ErrUnparseable: diag.FileUnparseable,
		measure.ErrMismatch: diag.FileMismatch,
	} {
		if got := measure.FileWord(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

// TestJumpWords quotes x/crypto/ssh's errors for a channel that a jump host could not open.
func TestJumpWords(t *testing.T) {
	for text, want := range map[string]diag.Failure{
		"ssh: rejected: connect failed (Connection refused)":             diag.TCPRefused,
		"ssh: rejected: connect failed (No route to host)":               diag.TCPNoRoute,
		"ssh: rejected: connect failed (Connection timed out)":           diag.TCPTimeout,
		"ssh: rejected: connect failed (Network is unreachable)":         diag.TCPNetUnreachable,
		"ssh: rejected: administratively prohibited (open failed)":       diag.TCPDenied,
		"ssh: rejected: unknown channel type (something else entirely!)": diag.Unknown,
	} {
		if got := connectWord(textError(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }
