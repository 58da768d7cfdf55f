package net

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// aheadIdle is how long a connection that was opened ahead may wait for its request: less than servers allow a client
	// before its first request (HAProxy's and nginx's shortest usual setting is 5 s), so that none is closed in the moment
	// in which the request is sent.
	aheadIdle = 2 * time.Second
	// aheadWait is how long a request waits for its connection that is being opened, before it opens another one.
	aheadWait = 500 * time.Millisecond
)

// offer is a connection that is opened ahead, for one request.
type offer struct {
	id    string // of the request
	key   poolKey
	ready chan struct{} // closed when the connection is open, or failed

	// Guarded by offers.mu.
	link    *link // once open, until it is taken
	claimed bool  // a request waits for it, or has taken it
	left    bool  // the request that claimed it has not waited
}

// offers are the connections that are opened ahead. The zero value has none.
type offers struct {
	mu  sync.Mutex // guards all, and fields of offers
	all []*offer
}

func (o *offers) add(id string, key poolKey) *offer {
	a := &offer{id: id, key: key, ready: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, a)
	return a
}

// claim returns an offer for the request that has this id and goes this way, unless it was claimed already; or nil.
func (o *offers) claim(id string, key poolKey) *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.all {
		if a.id == id && a.key == key && !a.claimed {
			a.claimed = true
			return a
		}
	}
	return nil
}

// opened passes an open connection to the request that has claimed it, or keeps it for one. It returns false if that
// request does not wait for it any more.
func (o *offers) opened(a *offer, l *link) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.left {
		return false
	}
	a.link = l
	return true
}

// get returns the connection of a claimed offer; nil if there is none by now, and then it will not be taken.
func (o *offers) get(a *offer) *link {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := a.link
	a.link, a.left = nil, true
	return l
}

// withdraw ends an offer, and returns its connection if no request has claimed it.
func (o *offers) withdraw(a *offer) *link {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = slices.DeleteFunc(o.all, func(other *offer) bool { return other == a })
	if a.claimed {
		return nil
	}
	l := a.link
	a.link = nil
	return l
}

// Ahead opens the connection of a request with an effect that will have req's id and go its way, before that request
// can be sent: it gets a connection of its own, and would wait for two round trips. Ahead sends nothing. It returns
// when ctx ends or the connection has waited for too long, which closes a connection that was not taken, or when it
// could not be opened: then the request opens its own, and finds out why.
func (p *Prober) Ahead(ctx context.Context, req diag.Request) {
	c := p.newExchange(req, &diag.Fact{})
	if c == nil {
		return
	}
	defer c.close()
	a := p.offers.add(req.ID, c.key())
	if c.establish(ctx) && c.link.verified {
		c.link.idle = time.Now()
		if p.offers.opened(a, c.link) {
			c.link = nil
		}
	}
	close(a.ready)
	timer := time.NewTimer(aheadIdle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if l := p.offers.withdraw(a); l != nil {
		l.close()
	}
}

// connectAhead takes the connection that was opened ahead for this request, if there is one.
func (c *exchange) connectAhead(ctx context.Context) bool {
	a := c.p.offers.claim(c.req.ID, c.key())
	if a == nil {
		return false
	}
	timer := time.NewTimer(aheadWait)
	defer timer.Stop()
	select {
	case <-a.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	l := c.p.offers.get(a)
	if l == nil {
		return false
	}
	to, err := netip.ParseAddrPort(l.tcp.Remote)
	if err != nil || !slices.Contains(c.addrs, to.Addr()) || time.Since(l.idle) > aheadIdle || !l.usable() {
		l.close()
		return false
	}
	tcp := l.tcp
	tcp.Ahead = true
	c.link, c.f.TCP, c.f.TLS = l, &tcp, l.tls
	return true
}
