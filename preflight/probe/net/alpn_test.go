package net

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestHTTP2IsTheSameServers: a server that closes a connection without ALPN, but accepts one that offers HTTP/2, speaks
// only HTTP/2. If the second connection presents another certificate, it reached another server, which was not
// verified.
func TestHTTP2IsTheSameServers(t *testing.T) {
	ca := kit.NewAuthority(t, "ca")
	own := ca.Leaf(t, kit.Leaf{})
	for name, tc := range map[string]struct {
		second tls.Certificate
		want   diag.Failure
	}{
		"the same server": {own, diag.TLSALPN},
		"another server":  {kit.NewAuthority(t, "another").Leaf(t, kit.Leaf{}), diag.HTTPClosed},
	} {
		t.Run(name, func(t *testing.T) {
			addr := kit.ServeTCP(t, func(raw net.Conn) {
				c := tls.Server(raw, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == "h2" {
						return &tls.Config{Certificates: []tls.Certificate{tc.second}, NextProtos: []string{"h2"}}, nil
					}
					return &tls.Config{Certificates: []tls.Certificate{own}}, nil
				}})
				if c.Handshake() == nil {
					kit.ReadSome(c)
					_ = c.Close()
				}
			})
			f := run(t, diag.Request{Op: diag.OpHTTP, Target: "https://" + addr + "/", CAInline: ca.PEM, TimeoutMS: 60_000})
			if f.Failure != tc.want {
				t.Errorf("got %s (%s), want %s", f.Failure, f.Detail, tc.want)
			}
		})
	}
}
