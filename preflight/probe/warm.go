package probe

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// suspicion is how long a kept connection may be silent before a new one is tried beside it. Most answers come within
// it, and the rest of a request's time is enough to distinguish a dead network from a slow server.
const suspicion = 500 * time.Millisecond

// Warm opens a connection for req and keeps it for the next request that goes the same way: a WebSocket whose token
// is still being minted finds its handshake done. The fact describes how the connection was made.
func (p *Prober) Warm(ctx context.Context, req diag.Request) diag.Fact {
	return p.measure(ctx, req, (*Prober).warm)
}

func (p *Prober) warm(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newClimb(req, f)
	if c == nil {
		return
	}
	if c.up(ctx) {
		c.park()
	}
	c.leave()
}

// arrive gets a link: a kept one, or by climbing the whole ladder. The name is looked up in any case, so that an
// older connection never hides that the name is gone or leads elsewhere. A kept link brings the facts of its handshake
// along, without durations, since those phases were not measured now.
func (c *climb) arrive(ctx context.Context) (warm, ok bool) {
	if c.link != nil {
		return true, true
	}
	if !c.lookup(ctx) {
		return false, false
	}
	if c.req.Fresh {
		return false, c.connect(ctx) && c.secure(ctx)
	}
	l := c.p.pool.take(c.key(), c.addrs)
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

// park leaves the connection to the next request, if it is fit for one.
func (c *climb) park() {
	if c.link != nil && !c.req.Fresh && c.link.whole && c.link.verified && c.link.br.Buffered() == 0 {
		c.countResent()
		c.p.pool.park(c.link)
		c.link = nil
	}
	c.leave()
}

// overKept makes one exchange over the climb's link. A kept connection hides two faults that a new one would show:
// the peer ended it in the meantime, and then a new one replaces it if a repeat is harmless; or the network is gone,
// which looks like a slow server. So a second connection is tried beside a silent one, and its failure is reported.
// It returns the exchange's error, or not ok with the failure recorded.
func (c *climb) overKept(ctx context.Context, warm bool, exchange func() error) (ok bool, err error) {
	if !warm {
		return true, exchange()
	}
	settle := c.tryBeside(ctx)
	err = exchange()
	beside := settle()
	switch {
	case err == nil:
	case broken(err) && ctx.Err() == nil && idempotent(c.req.Method):
		c.leave()
		if !c.up(ctx) {
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

// tryBeside connects again, and hangs up, once the link was silent for a while. The returned func ends that and gives
// its outcome: no error unless the attempt failed.
func (c *climb) tryBeside(whole context.Context) (settle func() attempt) {
	ctx, cancel := context.WithCancel(whole)
	remote := c.link.tcp.Remote
	outcome := make(chan attempt, 1)
	go func() {
		got := attempt{remote: remote}
		if pause(ctx, suspicion) {
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

// spare is a connection made beside a request's own, for those that will follow. The zero value has none.
type spare struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// dialing counts the requests that make a connection of their own under one key.
type dialing struct {
	mu  sync.Mutex // guards now
	now map[poolKey]int
}

// begin returns how many there are, with this one.
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

// dialOwn climbs to a connection of c's own. Where it is the second to do so at the same time, one more is made beside
// it and parked: a peer that is asked two things at once is asked three next, and the last caller would wait three
// round trips for a handshake. What becomes of the spare one is not a finding.
func (c *climb) dialOwn(ctx context.Context) bool {
	key := c.key()
	if c.p.dialing.begin(key) == 2 {
		var spareCtx context.Context
		spareCtx, c.spare.cancel = context.WithCancel(ctx)
		c.spare.wg.Go(func() { c.p.Warm(spareCtx, c.req) })
	}
	defer c.p.dialing.end(key)
	return c.connect(ctx) && c.secure(ctx)
}

// settle ends a spare connection that is not there by now.
func (s *spare) settle() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}
