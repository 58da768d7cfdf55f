package preflight

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// aloneTries and alonePause bound how often, and after which pauses, a request is sent again that was refused beside
// others of the walk: together less than a second.
const (
	aloneTries = 3
	alonePause = 120 * time.Millisecond
)

// crowd counts the requests of a walk at one endpoint, from one vantage.
type crowd struct{ open, begun int }

// probeAlone is probe for a step's request. If the server refuses it while others of this walk are open there, it is
// sent again, up to aloneTries times: a limit on connections per client is no fault of the platform.
func (w *walker) probeAlone(walk, ctx context.Context, s Step, req diag.Request) diag.Fact {
	at := s.From + " " + endpointOf(req.Target)
	enter := func() (others bool, begun int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		k := w.crowds[at]
		w.crowds[at] = crowd{k.open + 1, k.begun + 1}
		return k.open > 0, k.begun + 1
	}
	leave := func() (begun int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		k := w.crowds[at]
		w.crowds[at] = crowd{k.open - 1, k.begun}
		return k.begun
	}
	for refused := 0; ; refused++ {
		others, first := enter()
		f := w.probe(walk, ctx, s.From, []diag.Request{req})[0]
		beside := leave() > first || others
		f.Refused = refused
		if refused == aloneTries || !(beside || refused > 0) || !refusedUnseen(s, req, &f) ||
			!sleep.For(ctx, alonePause<<refused) {
			return f
		}
	}
}

// crowdWarnings warns of requests of a hop that a server refused first: it limits connections, or is not steady.
func crowdWarnings(h *Hop, c *Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		if f := c.judgedFact(&h.Steps[i]); f != nil && h.Steps[i].Uses == "" && f.Refused > 0 && f.Passed() {
			out = append(out, warn("", f, "%s refused this request %s beside others of this walk, and then answered it: "+
				"a limit on connections per client, or a server that refuses some requests", where(f), times(f.Refused)))
		}
	}
	return out
}

// refusedBeside reports whether a server hung up on a request that is sent once, and refused another one of this walk
// there only as long as others were open.
func refusedBeside(c *Case, f *diag.Fact) bool {
	if f == nil || !hungUp(f) || f.Request.Method == "" || f.Request.Method == "GET" {
		return false
	}
	for g := range c.all() {
		if g.Refused > 0 && g.Passed() && g.Vantage == f.Vantage && sameEndpoint(target(g), target(f)) {
			return true
		}
	}
	return false
}

// refusedUnseen reports whether a server refused a request that may be sent again: by a 503 page of its own, or within
// the handshake, before anything behind it saw the request; or by hanging up on one without an effect.
func refusedUnseen(s Step, req diag.Request, f *diag.Fact) bool {
	if status(f) == 503 && f.HTTP.Page == "edge_error" && !platformSpeaks(f) {
		return true
	}
	once := (req.Method != "" && req.Method != "GET") || (s.Once != nil && s.Once(req)) || req.Op.Row().Once
	return s.From == Operator && hungUp(f) && (!once || inPhase(f, "tls"))
}
