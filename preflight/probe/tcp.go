package probe

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// stagger is the head start of one address over the next: a healthy network answers within it, and a dead address
// costs no more than it.
const stagger = 200 * time.Millisecond

// attempt is the outcome of dialling one address.
type attempt struct {
	conn   net.Conn
	err    error
	remote string
	took   diag.Millis
}

// connect is the second rung: a connection to the first of the addresses that answers.
func (c *climb) connect(ctx context.Context) bool {
	began := time.Now()
	got := c.race(ctx)
	c.f.TCP = &diag.TCPFacts{Remote: got.remote, DurationMS: since(began)}
	if got.err != nil {
		c.stopped(ctx, phaseTCP, diag.TCPTimeout, connectWord(got.err), got.err)
		return false
	}
	if a := got.conn.LocalAddr(); a != nil {
		c.f.TCP.Local = a.String()
	}
	c.raw = got.conn
	return true
}

// race dials the addresses in order, each one stagger after the last or as soon as one failed. It returns the first
// connection, or the failure that says most: an address family that this host does not have says little.
func (c *climb) race(ctx context.Context) attempt {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt)
	pending, next := 0, 0
	start := func() {
		remote := net.JoinHostPort(c.addrs[next].String(), c.to.port)
		next++
		pending++
		go func() {
			conn, err := c.p.dial(ctx, "tcp", remote)
			results <- attempt{conn: conn, err: err, remote: remote}
		}()
	}
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	var best attempt
	start()
	for pending > 0 {
		select {
		case <-timer.C:
			if next < len(c.addrs) && best.conn == nil && ctx.Err() == nil {
				start()
				timer.Reset(stagger)
			}
		case a := <-results:
			pending--
			switch {
			case best.conn != nil:
				if a.conn != nil {
					a.conn.Close()
				}
			case a.err == nil:
				best = a
				cancel()
			default:
				if best.err == nil || connectWord(a.err) != diag.TCPNetUnreachable {
					best = a
				}
				if next < len(c.addrs) && ctx.Err() == nil {
					start()
					timer.Reset(stagger)
				}
			}
		}
	}
	return best
}

// dial opens one connection, through Dial where the caller gave one.
func (p *Prober) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.Dial != nil {
		return p.Dial(ctx, network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
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
