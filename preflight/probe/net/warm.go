package net

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// suspicion is how long a kept connection may be silent before a second connection is tried. Most answers arrive within
// it, and the rest of a request's time is enough to tell a dead network from a slow server.
const suspicion = 500 * time.Millisecond

// Warm opens a connection for req and keeps it for the next request with the same route. The fact describes how the
// connection was opened.
func (p *Prober) Warm(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	if c.establish(ctx) {
		c.release()
	}
	c.close()
}

// once reports whether a request may have an effect, so that it is not sent again. A server may close a kept connection
// in the moment in which a request arrives, which is no fault of either; such a request therefore gets its own
// connection, in place of a kept one: a server may allow each client only a few.
func once(req diag.Request) bool { return !idempotent(req.Method) || req.Op == diag.OpSession }

// connectWarm gets a link: a kept one, or a new one through all phases. It looks up the name in any case, so that an
// older connection never hides that the name is gone or resolves elsewhere. A kept link adds the facts of its
// handshake, without durations, since those phases were not measured now.
func (c *exchange) connectWarm(ctx context.Context) (warm, ok bool) {
	if c.link != nil {
		return true, true
	}
	if !c.lookup(ctx) {
		return false, false
	}
	if c.req.Fresh {
		return false, c.connect(ctx) && c.secure(ctx)
	}
	if once(c.req) && c.connectAhead(ctx) {
		return true, true
	}
	l := c.p.pool.get(c.key(), c.addrs)
	if once(c.req) {
		if l != nil {
			l.close()
		}
		return false, c.connect(ctx) && c.secure(ctx)
	}
	if l == nil {
		return false, c.dialOwn(ctx)
	}
	c.link = l
	c.f.TCP = &diag.TCPFacts{Remote: l.tcp.Remote, Local: l.tcp.Local, Reused: true}
	c.f.TLS = nil
	if l.tls != nil {
		facts := *l.tls
		facts.DurationMS = 0
		c.f.TLS = &facts
	}
	return true, true
}

// release leaves the connection to the next request if it can be reused.
func (c *exchange) release() {
	if c.link != nil && !c.req.Fresh && c.link.whole && c.link.verified && c.link.br.Buffered() == 0 {
		c.countResent()
		c.p.pool.put(c.link)
		c.link = nil
	}
	c.close()
}

// overKept makes one request over the exchange's link. A kept connection hides two faults that a new one would show. If
// the peer closed it in the meantime, a new one replaces it, provided that a repeat is harmless. If the network is
// gone, that looks like a slow server, so a second connection is tried while the first one is silent, and its failure
// is reported. It returns the exchange's error, or not ok with the failure recorded.
func (c *exchange) overKept(ctx context.Context, warm bool, exchange func() error) (ok bool, err error) {
	if !warm {
		return true, exchange()
	}
	settle := c.tryBeside(ctx)
	err = exchange()
	beside := settle()
	switch {
	case err == nil:
	case broken(err) && ctx.Err() == nil && !once(c.req):
		c.close()
		if !c.establish(ctx) {
			return false, nil
		}
		return true, exchange()
	case beside.err != nil && timedOut(ctx, err):
		c.f.TCP, c.f.TLS = &diag.TCPFacts{Remote: beside.remote, DurationMS: beside.took}, nil
		word := diag.TCPTimeout
		if !errors.Is(beside.err, context.DeadlineExceeded) && !errors.Is(beside.err, os.ErrDeadlineExceeded) {
			word = connectWord(beside.err)
		}
		c.failed(phaseTCP, word, beside.err)
		return false, nil
	}
	return true, err
}

// tryBeside opens a second connection, and closes it, after the link was silent for a while. The returned func ends the
// attempt and returns its result: no error unless the attempt failed.
func (c *exchange) tryBeside(whole context.Context) (settle func() attempt) {
	ctx, cancel := context.WithCancel(whole)
	remote := c.link.tcp.Remote
	outcome := make(chan attempt, 1)
	go func() {
		got := attempt{remote: remote}
		if sleep.For(ctx, suspicion) {
			began := time.Now()
			got.conn, got.err = c.p.dial(ctx, "tcp", remote)
			got.took = since(began)
		}
		outcome <- got
	}()
	return func() attempt {
		cancel()
		got := <-outcome
		if got.conn != nil {
			got.conn.Close()
		}
		if errors.Is(got.err, context.Canceled) {
			got.err = whole.Err() // none: the link answered meanwhile
		}
		return got
	}
}

// spare is a connection opened in addition to a request's own, for later requests. The zero value has none.
type spare struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// dialing counts the requests that are opening a connection of their own, by key.
type dialing struct {
	mu  sync.Mutex // guards now
	now map[poolKey]int
}

// begin returns how many there are, including this one.
func (d *dialing) begin(key poolKey) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		d.now = map[poolKey]int{}
	}
	d.now[key]++
	return d.now[key]
}

func (d *dialing) end(key poolKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now[key]--; d.now[key] == 0 {
		delete(d.now, key)
	}
}

// dialOwn opens a connection for c itself. If it is the second to do so at the same time, it opens one more and parks
// it: a peer that gets two simultaneous requests usually gets three next, and the last caller would wait three round
// trips for a handshake. The result of the spare connection is not reported.
func (c *exchange) dialOwn(ctx context.Context) bool {
	key := c.key()
	if c.p.dialing.begin(key) == 2 {
		var spareCtx context.Context
		spareCtx, c.spare.cancel = context.WithCancel(ctx)
		c.spare.wg.Go(func() { c.p.Warm(spareCtx, c.req, &diag.Fact{}) })
	}
	defer c.p.dialing.end(key)
	return c.connect(ctx) && c.secure(ctx)
}

// settle abandons a spare connection that is not open by now.
func (s *spare) settle() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}
