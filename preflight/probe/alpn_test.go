package probe

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestHTTP2IsTheSameServers: a server that closes a connection without ALPN, but accepts one that offers HTTP/2, speaks
// only HTTP/2. If the second connection presents another certificate, it reached another server, which was not
// verified.
func TestHTTP2IsTheSameServers(t *testing.T) {
	ca := newAuthority(t, "ca")
	own := ca.leaf(t, leafOf{})
	for name, tc := range map[string]struct {
		second tls.Certificate
		want   diag.Failure
	}{
		"the same server": {own, diag.TLSALPN},
		"another server":  {newAuthority(t, "another").leaf(t, leafOf{}), diag.HTTPClosed},
	} {
		t.Run(name, func(t *testing.T) {
			addr := wired(t, func(raw net.Conn) {
				c := tls.Server(raw, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == "h2" {
						return &tls.Config{Certificates: []tls.Certificate{tc.second}, NextProtos: []string{"h2"}}, nil
					}
					return &tls.Config{Certificates: []tls.Certificate{own}}, nil
				}})
				if c.Handshake() == nil {
					readSome(c)
					_ = c.Close()
				}
			})
			f := run(t, diag.Request{Op: diag.OpHTTP, Target: "https://" + addr + "/", CAInline: ca.pem, TimeoutMS: 60_000})
			if f.Failure != tc.want {
				t.Errorf("got %s (%s), want %s", f.Failure, f.Detail, tc.want)
			}
		})
	}
}
