package platform

import (
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// Storage limits per node, in bytes. The burst admits everything that an agent's outbox keeps; the rate is far
// above that of a healthy node, which sends a few events an hour and a heartbeat every 15 s.
const (
	eventBurst = 6 << 20
	eventRate  = 2 << 10 // a second
	beatBurst  = 1 << 20
	beatRate   = 16 << 10 // per second: ten full heartbeats

	rowCost  = 256      // cost of storing a row in addition to its text
	maxBeat  = 64 << 10 // of one heartbeat, whose largest parts are counters and addresses
	maxRetry = time.Hour
)

// intake limits the events of each node. The zero value is ready for use; it grows with the number of existing
// nodes.
type intake struct {
	mu    sync.Mutex
	nodes map[string]*budget // guarded by mu
}

// budget is a node's remaining budget at a point in time.
type budget struct {
	left float64 // bytes
	at   time.Time
}

// spend spends size bytes of a node's budget, which is refilled by rate a second up to burst. If the budget does not
// suffice, it spends nothing and returns how long to wait.
func (i *intake) spend(nodeID string, size, burst, rate int, now time.Time) (wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	b := i.nodes[nodeID]
	if b == nil {
		if i.nodes == nil {
			i.nodes = map[string]*budget{}
		}
		b = &budget{left: float64(burst), at: now}
		i.nodes[nodeID] = b
	}
	b.left = min(float64(burst), b.left+max(0, now.Sub(b.at).Seconds())*float64(rate))
	b.at = now
	if lacks := float64(size) - b.left; lacks > 0 {
		return min(maxRetry, time.Duration(lacks/float64(rate)*float64(time.Second))+time.Second)
	}
	b.left -= float64(size)
	return 0
}

// tooMuch is the response to a node that has to wait.
func tooMuch(wait time.Duration) error {
	return &web.Error{Status: http.StatusTooManyRequests, Code: "too_much",
		Message: "this node has sent more than is stored of it in this time", RetryAfter: wait}
}

// readNode decodes a node's request, and rejects numbers and times that no node has.
func readNode(w http.ResponseWriter, r *http.Request, v any) error {
	if err := web.ReadJSON(w, r, v); err != nil {
		return err
	}
	if err := bounded.Values(v); err != nil {
		return web.Errorf(http.StatusBadRequest, "out_of_range", "%s", err)
	}
	return nil
}

// checkEvents rejects a request that no agent sends, and returns its storage cost.
func checkEvents(r wire.EventsRequest) (size int, err error) {
	if len(r.Events) > wire.MaxEvents {
		return 0, web.Errorf(http.StatusRequestEntityTooLarge, "too_many_events", "a request has at most %d events",
			wire.MaxEvents)
	}
	size = rowCost
	for _, e := range r.Events {
		if len(e.Kind) > wire.MaxEventKind || len(e.CorrelationID) > wire.MaxEventKind ||
			len(e.Detail) > wire.MaxEventDetail {
			return 0, web.Errorf(http.StatusRequestEntityTooLarge, "event_too_large",
				"event %d: kind and correlation id have at most %d bytes, detail %d", e.Seq, wire.MaxEventKind, wire.MaxEventDetail)
		}
		size += rowCost + len(e.Kind) + len(e.CorrelationID) + len(e.Detail)
	}
	return size, nil
}

// mayBeat rejects a heartbeat that is larger than any agent's, or that exceeds the node's budget.
func (p *Platform) mayBeat(r *http.Request) error {
	switch {
	case r.ContentLength < 0:
		return web.Errorf(http.StatusLengthRequired, "length_required", "a heartbeat needs a Content-Length")
	case r.ContentLength > maxBeat:
		return web.Errorf(http.StatusRequestEntityTooLarge, "heartbeat_too_large", "a heartbeat has at most %d bytes",
			maxBeat)
	case isProbe(r): // is checked, and not stored
		return nil
	}
	if wait := p.beatIntake.spend(r.PathValue("node_id"), rowCost+int(r.ContentLength), beatBurst, beatRate,
		p.now()); wait > 0 {
		return tooMuch(wait)
	}
	return nil
}

// mayTell rejects events from a host that is fenced, has sent no heartbeat or is not the proven one, and events
// that exceed the budget.
func (p *Platform) mayTell(r *http.Request, in wire.EventsRequest, now time.Time) error {
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	if err := p.deniedHost(ctx, nodeID, in.NodeInstanceID, callerOf(ctx)); err != nil {
		return err
	}
	size, err := checkEvents(in)
	if err != nil {
		return err
	}
	switch known, err := p.store.KnownInstance(ctx, nodeID, in.NodeInstanceID); {
	case err != nil:
		return err
	case !known: // an agent sends none before a response to its first heartbeat
		return web.Errorf(http.StatusConflict, "instance_unknown", "this host has sent no heartbeat as this node")
	}
	// they could end a rollout, and use up sequence numbers of the node's events
	if err := p.believed(r, nil); err != nil {
		return err
	}
	if wait := p.eventIntake.spend(nodeID, size, eventBurst, eventRate, now); wait > 0 {
		return tooMuch(wait)
	}
	return nil
}

const (
	// strangerRows is how many denials of one kind become evidence per audit window if any caller can cause them,
	// without a certificate or under an unknown node id: the first one is enough.
	strangerRows = 1
	// nodeRows is the same for a node's own denials. A walk, and a node that backs off, stay far below it; each row
	// is found by its correlation id.
	nodeRows = 30
	// maxGate bounds the number of kinds that are counted separately; further ones share one count.
	maxGate = 1024
)

// denialKind identifies repetitions of a denial: source address, node and reason. The node id is that of an
// existing node, or "".
type denialKind struct{ remote, code, nodeID string }

// denialGate keeps repeated denials from filling the evidence. The zero value is ready for use.
type denialGate struct {
	mu    sync.Mutex
	kinds map[denialKind]*denialCount
}

type denialCount struct {
	since time.Time // start of the window
	kept  int       // rows in it
	count int64     // denials since the last row
}

// spend counts one denial and reports whether it becomes a row: it is one of the first rows within a window. count
// is the number of denials that the row stands for.
func (g *denialGate) count(k denialKind, rows int, now time.Time, window time.Duration) (count int64, keep bool) {
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

// forget drops kinds whose window is over; their last counts are only in the audit and in the metrics.
func (g *denialGate) forget(now time.Time, window time.Duration) {
	for k, c := range g.kinds {
		if now.Sub(c.since) >= window {
			delete(g.kinds, k)
		}
	}
}
