package walk

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// LimitTries and limitPause bound how often, and after which pauses, a request is sent again that was refused beside
// others of the walk: together less than a second. limitWait bounds how long a request then waits while none of the
// others ends: longer than a slow platform takes for an answer, and shorter than a terminal's session, which may stay
// open.
const (
	LimitTries = 3
	limitPause = 120 * time.Millisecond
	limitWait  = 2 * time.Second
)

// endpointLoad counts the requests of a walk at one endpoint, from one vantage: those that are open, and those that
// were answered, whose connections may be kept. limit is how many may be open: as many as were when the server refused
// another, at least one; 0 if it refused none. ended is closed when the next one ends.
type endpointLoad struct {
	open, served, limit int
	ended               chan struct{}
}

// probeLimited is probe for a step's request, whose repeats it starts. If the server refuses the request and not others
// of this walk, it is sent again, up to LimitTries times, and from then on no more requests are open there than the
// server took: a limit on connections per client is no fault of the platform. A request that waits to be sent is not
// silent, nor is one that was refused: the repeats begin after the wait, and end with a refusal.
func (w *walker) probeLimited(walk, ctx context.Context, h *hop.Hop, s hop.Step, req diag.Request, budget *budgeted) (
	diag.Fact, *repeater) {
	at := loadKey(s.From, req)
	others := w.join(ctx, at)
	repeating := w.startRepeats(walk, ctx, h, s, req, budget)
	for refused := 0; ; refused++ {
		f := w.probe(walk, ctx, s.From, []diag.Request{req})[0]
		f.Refused = refused
		again := refusedUnseen(s, req, &f)
		now := w.requestEnded(at, !again && world.AnsweredRemotely(&f))
		beside := now.served > 0 || refused > 0 || (others.open+now.open > 0 && !reading.InPhase(&f, "tcp"))
		if !again || refused == LimitTries || !beside {
			return f, repeating
		}
		repeating.end()
		w.closeAhead(at)
		w.limitTo(at, max(1, now.open))
		select {
		case <-time.After(limitPause << refused):
		case <-ctx.Done():
			return f, repeating
		}
		others = w.join(ctx, at)
	}
}

// loadKey is the key of a request's endpoint in walker.loads.
func loadKey(from string, req diag.Request) string { return from + " " + hop.EndpointOf(req.Target) }

// probeBeside is probe for a repeat or a counter-probe, which keeps an endpoint's limit and sets none.
func (w *walker) probeBeside(walk, ctx context.Context, from string, req diag.Request) diag.Fact {
	at := loadKey(from, req)
	w.join(ctx, at)
	defer w.requestEnded(at, false)
	return w.probe(walk, ctx, from, []diag.Request{req})[0]
}

// join adds an open request at an endpoint: once fewer are open there than its limit, or none of them ended for
// limitWait, or ctx ended. It returns what was there before.
func (w *walker) join(ctx context.Context, at string) endpointLoad {
	for {
		before, ended := w.tryJoin(at, false)
		if ended == nil {
			return before
		}
		select {
		case <-ended:
			continue
		case <-time.After(limitWait):
		case <-ctx.Done():
		}
		before, _ = w.tryJoin(at, true)
		return before
	}
}

// tryJoin adds an open request at an endpoint, unless its limit is reached and it is not to be added anyway: then it
// returns a channel that is closed when one of the others ends.
func (w *walker) tryJoin(at string, anyway bool) (before endpointLoad, ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.loads[at]
	if !anyway && before.limit > 0 && before.open >= before.limit {
		return before, before.ended
	}
	k := before
	if k.ended == nil {
		k.ended = make(chan struct{})
	}
	k.open++
	w.loads[at] = k
	return before, nil
}

// limitTo lowers the limit of an endpoint.
func (w *walker) limitTo(at string, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.loads[at]
	if k.limit == 0 || limit < k.limit {
		k.limit = limit
		w.loads[at] = k
	}
}

// requestEnded removes an open request, which was answered or not, and returns what is still there.
func (w *walker) requestEnded(at string, answered bool) endpointLoad {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.loads[at]
	close(k.ended)
	k.open, k.ended = k.open-1, make(chan struct{})
	if answered {
		k.served++
	}
	w.loads[at] = k
	return k
}

// refusedUnseen reports whether a server refused a request that may be sent again: one without an effect by a 503
// without a code or by hanging up, any before it was sent. A proxy's 503 does not show that: its upstream may have hung
// up on the request.
func refusedUnseen(s hop.Step, req diag.Request, f *diag.Fact) bool {
	once := reading.HasEffect(&req) || (s.Policy.Once != nil && s.Policy.Once(req)) || req.Op.Row().Once
	if reading.NoCode503(f) {
		return !once
	}
	unseen := reading.HungUp(f) || f.Failure == diag.TCPReset || f.Failure == diag.TCPRefused
	return s.From == hop.Operator && unseen && (!once || reading.InPhase(f, "tcp", "tls"))
}
