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

// TestTwoAtOnceLeaveAThird: two simultaneous requests are followed by three, none of which opens a connection.
func TestTwoAtOnceLeaveAThird(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	var both, three sync.WaitGroup
	both.Add(2)
	three.Add(3)
	p := newProber(t)
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		meet := &three
		if r.URL.Path == "/both" {
			meet = &both
			awaitSpare(t, p) // the peer is distant enough for a spare connection to be useful
		}
		meet.Done()
		meet.Wait() // all of them are here at once
		kit.Page(200, kit.JSONType, "{}")(w, r)
	}))
	var dials atomic.Int32
	var dialing sync.WaitGroup
	dialing.Add(2)
	p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) <= 2 {
			dialing.Done()
			dialing.Wait() // neither is done before the other begins
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	ask := func(path string) diag.Request {
		return diag.Request{Op: diag.OpHTTP, Target: s.URL + path, CAInline: ca.PEM, TimeoutMS: 60_000}
	}
	for _, f := range kit.Probe(context.Background(), p, []diag.Request{ask("/both"), ask("/both")}) {
		if !f.Passed() || f.TCP.Reused {
			t.Fatalf("first: %s %+v", f.Failure, f.TCP)
		}
	}
	for _, f := range kit.Probe(context.Background(), p, []diag.Request{ask("/three"), ask("/three"), ask("/three")}) {
		if !f.Passed() || !f.TCP.Reused {
			t.Errorf("then: %s %+v", f.Failure, f.TCP)
		}
	}
}

// awaitSpare waits until there is an idle connection.
func awaitSpare(t *testing.T, p *Prober) {
	t.Helper()
	wait.For(t, "a spare connection is made", func() bool {
		p.pool.mu.Lock()
		defer p.pool.mu.Unlock()
		return len(p.pool.idle) > 0
	})
}

// TestASpareConnectionIsNotWaitedFor: a spare connection that is not open when the request's answer arrives is
// abandoned.
func TestASpareConnectionIsNotWaitedFor(t *testing.T) {
	kit.NoLeaks(t)
	p := newProber(t)
	for _, f := range kit.Probe(context.Background(), p, []diag.Request{
		{Op: diag.OpHTTP, Target: "https://" + kit.SilentPort(t), TimeoutMS: 300},
		{Op: diag.OpHTTP, Target: "https://" + kit.ClosedPort(t)},
	}) {
		if f.Passed() {
			t.Errorf("%s passed", f.Request.Target)
		}
	}
	deaf := "https://" + kit.SilentPort(t)
	for _, f := range kit.Probe(context.Background(), p,
		[]diag.Request{{Op: diag.OpHTTP, Target: deaf, TimeoutMS: 300}, {Op: diag.OpHTTP, Target: deaf, TimeoutMS: 300}}) {
		if f.Failure != diag.TCPTimeout || f.DurationMS > 10_000 {
			t.Errorf("%q after %d ms", f.Failure, f.DurationMS)
		}
	}
}
