package probe

import (
	"context"
	"sync"
)

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
// it and parked: a peer that is asked two things at once is asked three next, and whoever comes last would wait three
// round trips for a handshake. What becomes of the spare one is nobody's finding.
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
