package net

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestConnectionsAreKept(t *testing.T) {
	kit.NoLeaks(t)
	var mu sync.Mutex
	peers := map[string]int{}
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr]++
		mu.Unlock()
		kit.Page(200, kit.JSONType, "{}")(w, r)
	}))
	p := newProber(t)
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL + "/a", CAInline: ca.PEM}
	if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused || f.DNS == nil || f.TLS.DurationMS == 0 {
		t.Fatalf("cold: %s %+v", f.Failure, f)
	}
	post := req
	post.Target, post.Method, post.Body = s.URL+"/b", "POST", "{}"
	if f := kit.Run(context.Background(), p, post); !f.Passed() || f.TCP.Reused || f.TLS.DurationMS == 0 {
		t.Errorf("a POST has its own connection: %s %+v %+v", f.Failure, f.TCP, f.TLS)
	}
	warm := req
	warm.Target = s.URL + "/b"
	f := kit.Run(context.Background(), p, warm)
	if !f.Passed() || !f.TCP.Reused || f.TCP.DurationMS != 0 || f.DNS == nil || f.TLS == nil || f.TLS.DurationMS != 0 ||
		!f.TLS.Verified {
		t.Errorf("warm: %s %+v %+v %+v", f.Failure, f.DNS, f.TCP, f.TLS)
	}
	other := req
	other.Resolve = "127.0.0.1"
	if f := kit.Run(context.Background(), p, other); !f.Passed() || f.TCP.Reused {
		t.Errorf("another input, the same connection: %+v", f.TCP)
	}
	for _, op := range []diag.Op{diag.OpTCP, diag.OpTLS} {
		req.Op = op
		if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused || f.HTTP != nil {
			t.Errorf("%s measures its phase again: %s %+v", op, f.Failure, f.TCP)
		}
	}
	if len(peers) != 3 {
		t.Errorf("connections: %v", peers)
	}
}

// TestDeadKeptConnectionIsReplaced: a server closed an idle connection, noticed before the request or only during it.
func TestDeadKeptConnectionIsReplaced(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	const timeout = "HTTP/1.1 408 Request Time-out\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	for name, after := range map[string]func(net.Conn){
		"ended while idle": func(net.Conn) {},
		"reset while idle": kit.Reset,
		"ended when asked": kit.ReadSome,
		"reset when asked": func(c net.Conn) { kit.ReadSome(c); kit.Reset(c) },
		"408 while idle":   func(c net.Conn) { _, _ = c.Write([]byte(timeout)); kit.ReadSome(c) },
		"408 when asked":   func(c net.Conn) { kit.ReadSome(c); _, _ = c.Write([]byte(timeout)) },
	} {
		t.Run(name, func(t *testing.T) {
			addr := kit.ServeTCP(t, func(c net.Conn) {
				kit.ReadSome(c)
				_, _ = c.Write([]byte(answer))
				after(c)
			})
			p := newProber(t)
			req := diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/"}
			for i := range 3 {
				f := kit.Run(context.Background(), p, req)
				if !f.Passed() || f.TCP.Reused || f.DNS == nil {
					t.Errorf("request %d: %s %s %+v", i, f.Failure, f.Detail, f.TCP)
				}
				time.Sleep(20 * time.Millisecond) // let the end of the connection arrive
			}
		})
	}
}

// TestRotatedCertificateEndsKeptConnections: the state of files on disk counts.
func TestRotatedCertificateEndsKeptConnections(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"))
	p := newProber(t)
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL}
	req.CABundle, _ = kit.WritePair(t, ca.Leaf(t, kit.Leaf{}))
	kit.WriteFile(t, req.CABundle, ca.PEM)
	for i, reused := range []bool{false, true} {
		if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused != reused {
			t.Fatalf("request %d: %s %+v", i, f.Failure, f.TCP)
		}
	}
	kit.WriteFile(t, req.CABundle, kit.NewAuthority(t, "other").PEM+"\n")
	if f := kit.Run(context.Background(), p, req); f.Failure != diag.TLSUnknownCA {
		t.Errorf("the old connection hid the new bundle: %q %+v", f.Failure, f.TCP)
	}
}

// TestRequestWithAnEffectMeetsNoClosingConnection: a server ends a kept connection in the moment in which the next
// request arrives. A task, a token or a session is not asked for twice, so none of them may use that connection.
func TestRequestWithAnEffectMeetsNoClosingConnection(t *testing.T) {
	kit.NoLeaks(t)
	addr := kit.ServeTCP(t, func(c net.Conn) {
		kit.ReadSome(c)
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
		kit.ReadSome(c)
	})
	for _, req := range []diag.Request{{Op: diag.OpHTTP, Method: "POST", Body: "{}"}, {Op: diag.OpSession}} {
		p := newProber(t)
		req.Target = "http://" + addr + "/"
		if f := kit.Run(context.Background(), p, diag.Request{Op: diag.OpHTTP, Target: req.Target}); !f.Passed() {
			t.Fatalf("%s %s", f.Failure, f.Detail)
		}
		f := kit.Run(context.Background(), p, req)
		if f.TCP.Reused || f.HTTP == nil || f.HTTP.Status != 200 {
			t.Errorf("%s %s: %s %s %+v", req.Op, req.Method, f.Failure, f.Detail, f.TCP)
		}
	}
}

func TestWarmConnectionServesAWebSocket(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), gateway(t, wsAccept(), ttyOf("/bin/sh", "-i")))
	p := newProber(t)
	req := wsRequest(diag.OpWS, s.URL, ca)
	cold := req
	cold.Token = diag.Secret{} // not minted yet
	if f := measure.Run(context.Background(), cold, p.Warm); !f.Passed() || f.TLS == nil || f.WS != nil {
		t.Fatalf("warming: %s %s", f.Failure, f.Detail)
	}
	if f := kit.Run(context.Background(), p, req); !f.Passed() || !f.TCP.Reused || !f.WS.Upgraded {
		t.Errorf("warm: %s %s %+v", f.Failure, f.Detail, f.TCP)
	}
	if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused {
		t.Errorf("a WebSocket's connection was kept: %s %+v", f.Failure, f.TCP)
	}
}

// TestManyAtOnce is for the race detector, and for the pool's bound.
func TestManyAtOnce(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, `{"a":1}`))
	p := newProber(t)
	reqs := make([]diag.Request, 20)
	for i := range reqs {
		reqs[i] = diag.Request{ID: fmt.Sprint(i), Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM,
			Extract: map[string]string{"a": "a"}}
	}
	for range 3 {
		for i, f := range kit.Probe(context.Background(), p, reqs) {
			if !f.Passed() || f.ID != fmt.Sprint(i) {
				t.Errorf("%s: %s %s", f.ID, f.Failure, f.Detail)
			}
		}
	}
	for _, links := range p.pool.idle {
		if len(links) > maxParked {
			t.Errorf("%d connections lie idle", len(links))
		}
	}
}

// TestKeptConnectionHidesNoName: the name is looked up although there is a connection.
func TestKeptConnectionHidesNoName(t *testing.T) {
	kit.NoLeaks(t)
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	addr := kit.ServeTCP(t, func(c net.Conn) {
		for {
			if _, err := c.Read(make([]byte, 4096)); err != nil {
				return
			}
			_, _ = c.Write([]byte(answer))
		}
	})
	_, port, _ := net.SplitHostPort(addr)
	p := newProber(t)
	namesFrom(t, p, "127.0.0.1 api.gpuaas.test\n", "", "hosts: files")
	req := diag.Request{Op: diag.OpHTTP, Target: "http://api.gpuaas.test:" + port + "/"}
	for i, reused := range []bool{false, true} {
		if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused != reused {
			t.Fatalf("request %d: %s %+v", i, f.Failure, f.TCP)
		}
	}
	kit.WriteFile(t, p.names.hosts, "127.0.0.2 api.gpuaas.test\n")
	if f := kit.Run(context.Background(), p, req); f.TCP == nil || f.TCP.Reused || f.TCP.Remote != "127.0.0.2:"+port {
		t.Errorf("the name leads elsewhere: %q %+v", f.Failure, f.TCP)
	}
	kit.WriteFile(t, p.names.hosts, "")
	if f := kit.Run(context.Background(), p, req); f.Failure != diag.DNSNXDomain || f.TCP != nil {
		t.Errorf("the name is gone: %q %+v", f.Failure, f.TCP)
	}
}

// TestKeptConnectionHidesNoDeadNetwork: a second connection beside a silent kept one tells a dead network from a slow
// server.
func TestKeptConnectionHidesNoDeadNetwork(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	for name, c := range map[string]struct {
		dial        func(ctx context.Context, address string) (net.Conn, error) // dials the second connection
		word        diag.Failure
		phase       string
		wantsReused bool
	}{
		"dropped": {func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, diag.TCPTimeout, "tcp", false},
		"rejected": {func(context.Context, string) (net.Conn, error) { return nil, errnoOf(syscall.EHOSTUNREACH) },
			diag.TCPNoRoute, "tcp", false},
		"only the service": {direct, diag.HTTPTimeout, "http", true},
	} {
		t.Run(name, func(t *testing.T) {
			addr := kit.ServeTCP(t, func(c net.Conn) {
				kit.ReadSome(c)
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
				kit.UntilClosed(c)
			})
			f := kit.OutOfTime(func(ms int64) diag.Fact {
				var dialled atomic.Int32
				p := newProber(t)
				p.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
					if dialled.Add(1) == 1 {
						return direct(ctx, address)
					}
					return c.dial(ctx, address)
				}
				req := diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", TimeoutMS: 60_000}
				if f := kit.Run(context.Background(), p, req); !f.Passed() {
					t.Fatalf("%s: %s", f.Failure, f.Detail)
				}
				req.TimeoutMS = 2 * ms
				return kit.Run(context.Background(), p, req)
			}, func(f diag.Fact) bool { return f.Failure == c.word })
			if f.Failure != c.word || f.Phase != c.phase || f.TCP.Reused != c.wantsReused {
				t.Errorf("got %s in %s: %s; %+v", f.Failure, f.Phase, f.Detail, f.TCP)
			}
		})
	}
}

// TestGoodbyeEndsKeptConnection: a TLS server that ends an idle connection says so in bytes that wait before the end.
func TestGoodbyeEndsKeptConnection(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.UnstartedSite(ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"))
	s.Config.IdleTimeout = 20 * time.Millisecond
	s.StartTLS()
	t.Cleanup(s.Close)
	p := newProber(t)
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM}
	for range 3 {
		if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Reused {
			t.Fatalf("%s request: %s %s %+v", req.Method, f.Failure, f.Detail, f.TCP)
		}
		time.Sleep(200 * time.Millisecond)
		req.Method, req.Body = "POST", "{}"
	}
}

// TestEffectReplacesKeptConnection: a server that serves one connection of a client at a time answers a POST after
// a GET.
func TestEffectReplacesKeptConnection(t *testing.T) {
	kit.NoLeaks(t)
	var one sync.Mutex
	addr := kit.ServeTCP(t, func(c net.Conn) {
		one.Lock()
		defer one.Unlock()
		for in := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
		}
	})
	p := newProber(t)
	for _, method := range []string{"GET", "POST", "GET", "POST"} {
		req := diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", Method: method}
		if f := kit.Run(context.Background(), p, req); !f.Passed() {
			t.Fatalf("%s: %s %s %+v", method, f.Failure, f.Detail, f.TCP)
		}
	}
}
