package net

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// timeUp is a context whose deadline passes when its channel is closed.
type timeUp struct {
	context.Context
	done chan struct{}
}

func (c timeUp) Done() <-chan struct{} { return c.done }

func (c timeUp) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestClassifyExchange breaks a standard HTTP client's exchange in one way at a time.
func TestClassifyExchange(t *testing.T) {
	tier.NeedsHost(t)
	asked := make(chan struct{}, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // a handler that returned normally would answer the aborted exchange
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	late := func() time.Time { return server.Certificate().NotAfter.Add(time.Hour) }
	early := func() time.Time { return server.Certificate().NotBefore.Add(-time.Hour) }
	for name, c := range map[string]struct {
		url    string
		config *tls.Config
		want   diag.Failure
	}{
		"unknown CA": {url: server.URL, config: &tls.Config{RootCAs: x509.NewCertPool()}, want: diag.TLSUnknownCA},
		"another name": {url: server.URL, config: &tls.Config{RootCAs: trusted, ServerName: "term.gpuaas.test"},
			want: diag.TLSNameMismatch},
		"silence":   {url: server.URL, config: &tls.Config{RootCAs: trusted}, want: diag.HTTPTimeout},
		"cancelled": {url: server.URL, config: &tls.Config{RootCAs: trusted}, want: diag.Cancelled},
		"nobody":    {url: "https://" + kit.ClosedPort(t), want: diag.TCPRefused},
		"no TLS": {url: "https://" +
			kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); _, _ = io.WriteString(c, "HTTP/1.0 400 no\r\n\r\n") }),
			want: diag.TLSNotTLS},
		"closed": {url: "https://" + kit.ServeTCP(t, kit.ReadSome), want: diag.TLSClosed},
		"reset": {url: "https://" + kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); kit.Reset(c) }),
			want: diag.TCPReset},
		"old versions": {url: server.URL,
			config: &tls.Config{RootCAs: trusted, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
			want:   diag.TLSProtocol},
		"no such name": {url: "https://gpuaasctl.invalid", want: diag.DNSNXDomain},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			up := timeUp{context.Background(), make(chan struct{})}
			go func() {
				select {
				case <-asked: // the server has the request
					cancel()
					close(up.done)
				case <-t.Context().Done():
				}
			}()
			if c.want == diag.HTTPTimeout {
				ctx = up
			}
			transport := &http.Transport{TLSClientConfig: c.config, DisableKeepAlives: true}
			if c.want == diag.DNSNXDomain {
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
				}
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
				t.Fatal("it was answered")
			}
			if got := ClassifyExchange(ctx, err); got != c.want {
				t.Errorf("%s, want %s: %v", got, c.want, err)
			}
		})
	}
	for now, want := range map[time.Time]diag.Failure{late(): diag.TLSExpired, early(): diag.TLSNotYetValid,
		time.Now(): diag.TLSUnknownCA} {
		_, err := server.Certificate().Verify(x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: now})
		wrapped := &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{server.Certificate()},
			Err: err}
		if got := verificationWord(wrapped, now); err == nil || got != want {
			t.Errorf("at %s: %s, want %s (%v)", now, got, want, err)
		}
	}
}
