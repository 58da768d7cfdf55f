package walk

import (
	"context"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// opener is a vantage that opens the connection of a request with an effect ahead, and sends nothing over it. It
// returns when ctx ends, or the connection was not needed in time.
type opener interface {
	Ahead(ctx context.Context, req diag.Request)
}

// aheads are connections that are being opened ahead: the cancel functions of each endpoint.
type aheads struct {
	wg     sync.WaitGroup
	cancel map[string][]context.CancelFunc // by endpoint; not changed after openAhead
}

// openAhead opens a connection for each step with an effect. Such a request needs a connection of its own, which takes
// as long as the answers that it waits for. If one of these is bad, the connection is closed unused: an effect is sent
// only when all needs have passed.
func (w *walker) openAhead(walk context.Context) {
	w.ahead.cancel = map[string][]context.CancelFunc{}
	at, ok := w.vantages[hop.Operator].(opener)
	if !ok {
		return
	}
	for i := range w.chain {
		for _, s := range w.chain[i].Steps {
			req := w.aheadOf(&w.chain[i], s)
			if req.Op == "" || !req.Op.Row().Ladder {
				continue
			}
			ctx, cancel := context.WithCancel(walk)
			key := loadKey(s.From, req)
			w.ahead.cancel[key] = append(w.ahead.cancel[key], cancel)
			w.ahead.wg.Go(func() { at.Ahead(ctx, req) })
		}
	}
}

// aheadOf returns a request with the route of the step's own, which may not be known yet; the zero request for a step
// without an effect. A terminal session goes to the service whose health page was requested.
func (w *walker) aheadOf(h *hop.Hop, s hop.Step) diag.Request {
	var req diag.Request
	switch {
	case !w.operatorSends(h, s):
	case s.Policy.Changes:
		req = w.requestOf(h, s)
	case s.Needs.Session && s.Needs.Overrules != nil:
		page := hop.In(w.chain, s.Needs.Overrules.Hop())
		for _, of := range page.Steps {
			if of.Fact(page.ID) == s.Needs.Overrules.Page {
				req = w.requestOf(page, of)
			}
		}
	}
	req.ID = s.Fact(h.ID)
	return req
}

// operatorSends reports whether the operator sends the step's request, if what it needs has passed.
func (w *walker) operatorSends(h *hop.Hop, s hop.Step) bool {
	p := w.planned(h)
	return s.From == hop.Operator && !s.Pure() && s.Uses == "" && p.Skip == "" && p.Left[s.Name] == ""
}

// requestOf returns the request of a step that reads no facts; else the zero request.
func (w *walker) requestOf(h *hop.Hop, s hop.Step) diag.Request {
	if !w.operatorSends(h, s) || len(s.Needs.Facts) > 0 {
		return diag.Request{}
	}
	return s.Ask(w.env, w.lockedSnapshot())
}

// closeAhead closes what was opened ahead at an endpoint and is not used yet: its server refuses connections.
func (w *walker) closeAhead(at string) {
	for _, cancel := range w.ahead.cancel[at] {
		cancel()
	}
}

// endAhead closes what was not used.
func (w *walker) endAhead() {
	for at := range w.ahead.cancel {
		w.closeAhead(at)
	}
	w.ahead.wg.Wait()
}
