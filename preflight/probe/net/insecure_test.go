package net

import (
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// peer is a connection to an address.
type peer struct {
	net.Conn
	to string
}

func (p peer) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", p.to)
	return a
}

// TestMayReveal: without TLS, the address that was dialled decides whether secrets are sent, whatever the name says.
func TestMayReveal(t *testing.T) {
	for to, want := range map[string]bool{
		"127.0.0.1:80": true, "127.8.8.8:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "0.0.0.0:80": false, "[::]:80": false, "[fd00::1]:80": false, "[::ffff:10.0.0.1]:80": false,
		"169.254.169.254:80": false,
	} {
		c := &exchange{link: &link{raw: peer{to: to}, verified: true}}
		if got := c.mayReveal(); got != want {
			t.Errorf("%s: %v, want %v", to, got, want)
		}
		c.to.secure = true
		if !c.mayReveal() {
			t.Errorf("%s over TLS: nothing is revealed", to)
		}
		c.to.secure, c.req.InsecureHTTP = false, true
		if !c.mayReveal() {
			t.Errorf("%s: allowed, and nothing is revealed", to)
		}
	}
}

// TestNoSecretToAnotherMachine: a request with a token, a cookie or a secret query over http:// is not sent to an
// address that is not the loopback; here it is one of this machine's own.
func TestNoSecretToAnotherMachine(t *testing.T) {
	tier.NeedsHost(t)
	l, err := net.Listen("tcp", net.JoinHostPort(outside(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	var requests, secrets atomic.Int32
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" ||
			strings.Contains(r.Header.Get("Sec-WebSocket-Protocol")+r.URL.RawQuery, "canary") {
			secrets.Add(1)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until it is closed
	}()
	defer func() { s.Close(); <-done }()
	canary := diag.NewSecret("canary-of-a-token")
	p := &Prober{}
	for _, req := range []diag.Request{
		{Op: diag.OpHTTP, Token: canary}, {Op: diag.OpHTTP, Cookie: canary}, {Op: diag.OpWS, Token: canary},
		{Op: diag.OpWS, Cookie: canary}, {Op: diag.OpHTTP, Query: canary}, {Op: diag.OpWS, Query: canary},
	} {
		req.Target, req.TimeoutMS = "http://"+l.Addr().String()+"/", 10_000
		requests.Store(0)
		if f := kit.Run(t.Context(), p, req); f.Failure != diag.Unsupported || !strings.Contains(f.Detail,
			"nothing was sent") ||
			requests.Load() > 0 {
			t.Errorf("%s: %q %s, %d requests", req.Op, f.Failure, f.Detail, requests.Load())
		}
		req.InsecureHTTP = true
		if kit.Run(t.Context(), p, req); requests.Load() == 0 || secrets.Load() == 0 {
			t.Errorf("%s: allowed, and nothing was sent", req.Op)
		}
		secrets.Store(0)
	}
}

// outside returns an address of this machine that is not the loopback.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("skipped: needs an address that is not the loopback")
	return ""
}
