package platform

import (
	"sync"
	"time"
)

const (
	// strangerRows is how many denials of one kind are evidence per audit window where anybody can cause them, without a
	// certificate or under a node id that is none: the first tells all.
	strangerRows = 1
	// nodeRows is the same of a node's own denials. A walk, and a node that backs off, stay far below it; each is read
	// by its correlation id.
	nodeRows = 30
	// maxGate bounds the kinds that are told apart; those beyond it share one count.
	maxGate = 1024
)

// denialKind is what makes two denials the same: who, from where, why. A node id is one that exists, or "".
type denialKind struct{ remote, code, nodeID string }

// denialGate keeps what a caller can repeat from filling the evidence. The zero value is ready for use.
type denialGate struct {
	mu    sync.Mutex
	kinds map[denialKind]*denialCount
}

type denialCount struct {
	since time.Time // start of the window
	kept  int       // rows in it
	count int64     // denials since the last row
}

// take counts one denial and says whether it is to be a row: one of the first rows within a window. count is how many
// denials that row stands for.
func (g *denialGate) take(k denialKind, rows int, now time.Time, window time.Duration) (count int64, keep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.kinds[k]
	if c == nil {
		if len(g.kinds) >= maxGate {
			g.forget(now, window)
		}
		if len(g.kinds) >= maxGate {
			k = denialKind{}
			c = g.kinds[k]
		}
	}
	if c == nil {
		c = &denialCount{since: now}
		if g.kinds == nil {
			g.kinds = map[denialKind]*denialCount{}
		}
		g.kinds[k] = c
	}
	if now.Sub(c.since) >= window {
		c.since, c.kept = now, 0
	}
	c.count++
	if c.kept >= rows {
		return 0, false
	}
	count, c.count = c.count, 0
	c.kept++
	return count, true
}

// forget drops the kinds whose window is over; what they still counted is in the audit and in the metrics.
func (g *denialGate) forget(now time.Time, window time.Duration) {
	for k, c := range g.kinds {
		if now.Sub(c.since) >= window {
			delete(g.kinds, k)
		}
	}
}
