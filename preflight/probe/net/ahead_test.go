package net

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// openAhead opens a connection ahead of req, and returns when it is open or has failed. It is closed with the test, or
// by the returned function.
func openAhead(t *testing.T, p *Prober, req diag.Request) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.Ahead(ctx, req) })
	end = func() { cancel(); wg.Wait() }
	t.Cleanup(end)
	wait.For(t, "the connection is open, or failed", func() bool {
		p.offers.mu.Lock()
		defer p.offers.mu.Unlock()
		for _, a := range p.offers.all {
			select {
			case <-a.ready:
				return true
			default:
			}
		}
		return false
	})
	return end
}

// TestAnEffectTakesItsConnectionAhead: a request with an effect uses the connection that was opened for it, and no
// other request does.
func TestAnEffectTakesItsConnectionAhead(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, "{}"))
	post := diag.Request{ID: "mint", Op: diag.OpHTTP, Method: "POST", Body: "{}", Target: s.URL + "/a", CAInline: ca.PEM}
	for name, c := range map[string]struct {
		change func(*diag.Request)
		ahead  bool
	}{
		"the request itself":      {func(*diag.Request) {}, true},
		"another path":            {func(r *diag.Request) { r.Target = s.URL + "/b" }, true},
		"another request":         {func(r *diag.Request) { r.ID = "enqueue" }, false},
		"a read":                  {func(r *diag.Request) { r.Method, r.Body = "GET", "" }, false},
		"a proof":                 {func(r *diag.Request) { r.Fresh = true }, false},
		"another address":         {func(r *diag.Request) { r.Resolve = "127.0.0.1" }, false},
		"another name to present": {func(r *diag.Request) { r.ServerName = "edge.test" }, false},
	} {
		p := newProber(t)
		end := openAhead(t, p, post)
		req := post
		c.change(&req)
		f := kit.Run(context.Background(), p, req)
		if !f.Passed() || f.TCP.Ahead != c.ahead || f.TCP.Reused || f.TLS == nil || f.TLS.DurationMS == 0 || f.DNS == nil {
			t.Errorf("%s: %s %s %+v %+v", name, f.Failure, f.Detail, f.TCP, f.TLS)
		}
		if again := kit.Run(context.Background(), p, post); c.ahead && again.TCP.Ahead {
			t.Errorf("%s: the connection was taken twice", name)
		}
		end()
		if len(p.offers.all) != 0 {
			t.Errorf("%s: an offer remains", name)
		}
	}
}

// TestAConnectionAheadIsNoFault: if it ends before its request, cannot be opened, or takes long, the request opens its
// own and shows what that gives.
func TestAConnectionAheadIsNoFault(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	var first atomic.Bool
	answers := func(c net.Conn) {
		kit.ReadSome(c)
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	}
	for name, serve := range map[string]func(net.Conn){
		"closed while idle": func(net.Conn) {}, "reset while idle": kit.Reset,
	} {
		first.Store(true)
		addr := kit.ServeTCP(t, func(c net.Conn) {
			if first.Swap(false) {
				serve(c)
				return
			}
			answers(c)
		})
		p := newProber(t)
		req := diag.Request{ID: "mint", Op: diag.OpHTTP, Method: "POST", Body: "{}", Target: "http://" + addr + "/"}
		openAhead(t, p, req)
		wait.For(t, "the end has arrived", func() bool {
			p.offers.mu.Lock()
			defer p.offers.mu.Unlock()
			l := p.offers.all[0].link // nil: the end came first
			return l == nil || !l.usable()
		})
		if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Ahead {
			t.Errorf("%s: %s %s %+v", name, f.Failure, f.Detail, f.TCP)
		}
	}
	p, closed := newProber(t), kit.ClosedPort(t)
	req := diag.Request{ID: "mint", Op: diag.OpHTTP, Method: "POST", Body: "{}", Target: "http://" + closed + "/"}
	openAhead(t, p, req)
	if f := kit.Run(context.Background(), p, req); f.Failure != diag.TCPRefused || f.TCP.Ahead {
		t.Errorf("a closed port: %q %+v", f.Failure, f.TCP)
	}
}

// TestARequestDoesNotWaitForLong: a connection that is still being opened is left when its request has waited a moment,
// and is closed when it is open.
func TestARequestDoesNotWaitForLong(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(kit.Page(200, kit.JSONType, "{}")))
	p := newProber(t)
	hold, holding := make(chan struct{}), make(chan struct{})
	var dials atomic.Int32
	p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			close(holding)
			<-hold
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	req := diag.Request{ID: "mint", Op: diag.OpHTTP, Method: "POST", Body: "{}", Target: s.URL, CAInline: ca.PEM}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.Ahead(ctx, req) })
	<-holding
	if f := kit.Run(context.Background(), p, req); !f.Passed() || f.TCP.Ahead {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.TCP)
	}
	close(hold)
	cancel()
	wg.Wait()
	if len(p.offers.all) != 0 {
		t.Error("an offer remains")
	}
}
