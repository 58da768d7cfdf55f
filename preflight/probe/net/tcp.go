package net

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// stagger is the head start of one address over the next of its family: a healthy network answers within it, and a dead
// address delays by no more than it.
const stagger = 200 * time.Millisecond

// fallbackDelay is the head start of the first address's family over the other: that of Go's dialer (net.Dialer, RFC
// 6555), which the agent uses.
const fallbackDelay = 300 * time.Millisecond

// attempt is the result of dialling one address.
type attempt struct {
	conn   net.Conn
	err    error
	remote string
	took   diag.Millis
	lane   *lane
	index  int // among the attempts
}

// connect is the second phase: a connection to the first of the addresses that answers.
func (c *exchange) connect(ctx context.Context) bool {
	began := time.Now()
	got, attempts := c.race(ctx)
	c.f.TCP = &diag.TCPFacts{Remote: got.remote, DurationMS: since(began)}
	if len(c.addrs) > 1 {
		c.f.TCP.Attempts = attempts[:min(len(attempts), diag.MaxAttempts)]
	}
	if got.err != nil {
		refusedBy(c.f.TCP, got.err)
		c.stopped(ctx, phaseTCP, diag.TCPTimeout, connectWord(got.err), got.err)
		return false
	}
	if a := got.conn.LocalAddr(); a != nil {
		c.f.TCP.Local = a.String()
	}
	c.raw = got.conn
	if conn, ok := got.conn.(*net.TCPConn); ok {
		c.raw = &Counted{TCPConn: conn}
	}
	return true
}

// lane is the rest of one address family: its next address is dialled when it is due, or when the previous ones have
// failed.
type lane struct {
	addrs []netip.Addr
	due   time.Time
	open  int // dialled and not decided
}

// lanes splits addresses by family, in their order: the first address's family goes first.
func lanes(addrs []netip.Addr, now time.Time) []*lane {
	first, second := &lane{due: now}, &lane{due: now.Add(fallbackDelay)}
	for _, a := range addrs {
		if a.Is4() == addrs[0].Is4() {
			first.addrs = append(first.addrs, a)
		} else {
			second.addrs = append(second.addrs, a)
		}
	}
	return []*lane{first, second}
}

// race dials the addresses as Go's dialer does: the second family fallbackDelay after the first, or as soon as that has
// failed, and within a family each address a stagger after the previous one. It returns the first connection, or the
// most specific failure (a missing address family on this host is the least specific), and every attempt in order.
func (c *exchange) race(ctx context.Context) (attempt, []diag.TCPAttempt) {
	r := race{c: c, began: time.Now(), results: make(chan attempt)}
	r.lanes = lanes(c.addrs, r.began)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		next := r.start(ctx)
		if r.pending == 0 {
			if len(r.attempts) == 0 { // the time was up before anything was dialled
				r.best = attempt{err: context.Cause(ctx), remote: net.JoinHostPort(c.addrs[0].String(), c.to.port)}
			}
			return r.best, r.attempts
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case a := <-r.results:
			r.record(ctx, a)
			if r.best.conn != nil {
				cancel()
			}
		}
		timer.Stop()
	}
}

// race is the state of one race.
type race struct {
	c        *exchange
	began    time.Time
	lanes    []*lane
	results  chan attempt
	pending  int
	best     attempt
	attempts []diag.TCPAttempt
}

// idle is how long a race without a next address waits at a time.
const idle = time.Minute

// start dials the addresses that are due, and returns the time until the next one.
func (r *race) start(ctx context.Context) (next time.Duration) {
	next = idle
	if r.best.conn != nil || ctx.Err() != nil {
		return next
	}
	if first := r.lanes[0]; len(first.addrs) == 0 && first.open == 0 {
		r.lanes[1].due = time.Time{}
	}
	now := time.Now()
	for _, l := range r.lanes {
		if len(l.addrs) == 0 {
			continue
		}
		if !now.Before(l.due) {
			r.dial(ctx, l, now)
		}
		if len(l.addrs) > 0 {
			next = min(next, l.due.Sub(now))
		}
	}
	return next
}

// dial begins an attempt at the lane's next address.
func (r *race) dial(ctx context.Context, l *lane, now time.Time) {
	a := attempt{remote: net.JoinHostPort(l.addrs[0].String(), r.c.to.port), lane: l, index: len(r.attempts)}
	l.addrs, l.due, l.open = l.addrs[1:], now.Add(stagger), l.open+1
	r.attempts = append(r.attempts, diag.TCPAttempt{Remote: a.remote})
	if a.index > 0 {
		r.attempts[a.index].AfterMS = diag.Measured(now.Sub(r.began))
	}
	r.pending++
	go func() {
		a.conn, a.err = r.c.p.dial(ctx, "tcp", a.remote)
		a.took = since(now)
		r.results <- a
	}()
}

// record records the result of one attempt. An attempt that ended because another one connected has none.
func (r *race) record(ctx context.Context, a attempt) {
	a.lane.open--
	r.pending--
	note := &r.attempts[a.index]
	note.DurationMS = a.took
	switch {
	case r.best.conn != nil:
		if a.conn != nil {
			a.conn.Close()
		}
		return
	case a.err == nil:
		r.best, note.Connected = a, true
		return
	}
	switch note.Failure = connectWord(a.err); {
	case errors.Is(ctx.Err(), context.Canceled):
		note.Failure = diag.Cancelled
	case timedOut(ctx, a.err):
		note.Failure = diag.TCPTimeout
	}
	a.lane.due = time.Time{}
	if r.best.err == nil || connectWord(a.err) != diag.TCPNetUnreachable {
		r.best = a
	}
}

// dial opens one connection, with Dial if the caller set it.
func (p *Prober) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.Dial != nil {
		return p.Dial(ctx, network, address)
	}
	return dialAddress(ctx, network, address)
}

// sixFirst orders addresses as they are tried, each once.
func sixFirst(addrs []netip.Addr) []netip.Addr {
	seen := make(map[netip.Addr]bool, len(addrs))
	var six, four []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if seen[a] {
			continue
		}
		seen[a] = true
		if a.Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	return append(six, four...)
}
