package probe

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// suspicion is how long a kept connection may be silent before a new one is tried beside it. Most answers come within
// it, and what is left of a request's time is enough to tell a dead network from a slow server.
const suspicion = 500 * time.Millisecond

// Warm opens a connection for req and keeps it for the next request that goes the same way: a WebSocket whose token
// is still being minted finds its handshake done. The fact tells how the connection was made.
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
	if c.link != nil && c.link.whole && c.link.verified && c.link.br.Buffered() == 0 {
		c.p.pool.park(c.link)
		c.link = nil
	}
	c.leave()
}

// overKept makes one exchange over the climb's link. On a kept connection two things may be wrong that a new one would
// have told: the peer ended it in the meantime, and then a new one takes its place where asking again does no harm; or
// the network is gone, which looks like a server that thinks. So a second connection is tried beside a silent one, and
// its failure is the one to tell. It returns the exchange's error, or
// not ok with the failure written.
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

// tryBeside connects anew, and hangs up, once the link was silent for a while. The returned func ends that and gives
// its outcome: no error unless the attempt failed.
func (c *climb) tryBeside(ctx context.Context) (settle func() attempt) {
	ctx, cancel := context.WithCancel(ctx)
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
			got.err = nil // the link answered meanwhile
		}
		return got
	}
}
