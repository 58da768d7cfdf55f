package preflight

import (
	"context"
	"strings"
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

// refusedBeside reports whether a server refused a request that is sent once, and refused another one of this walk
// there only as long as others were open.
func refusedBeside(c *Case, f *diag.Fact) bool {
	if f == nil || !(hungUp(f) || ownPage503(f)) || !hasEffect(&f.Request) {
		return false
	}
	for g := range c.all() {
		if g.Refused > 0 && g.Passed() && g.Vantage == f.Vantage && sameEndpoint(target(g), target(f)) {
			return true
		}
	}
	return false
}

// besideOthers returns the text for a request with an effect on which a server hung up while it answered others of this
// walk; "" for any other.
func besideOthers(c *Case, f *diag.Fact) string {
	if !hungUp(f) || !hasEffect(&f.Request) {
		return ""
	}
	for g := range c.all() {
		if g.Vantage == f.Vantage && platformAnswered(g) && sameEndpoint(target(g), target(f)) &&
			g.OffsetMS < endedAt(f) && f.OffsetMS < endedAt(g) {
			return "; it is sent once, and others of this walk were answered there at that time: a limit on connections " +
				"refuses so, too"
		}
	}
	return ""
}

// refusedUnseen reports whether a server refused a request that may be sent again. One with an effect may only if
// nothing behind that server can have seen it: it was refused within the handshake, or by nginx, whose own 503 is a
// limit's. Other proxies also answer 503 for an upstream that hung up on the request.
func refusedUnseen(s Step, req diag.Request, f *diag.Fact) bool {
	once := hasEffect(&req) || (s.Once != nil && s.Once(req)) || req.Op.Row().Once
	if ownPage503(f) {
		return !once || strings.HasPrefix(f.HTTP.Server, "nginx") || strings.HasPrefix(f.HTTP.Server, "openresty")
	}
	return s.From == Operator && hungUp(f) && (!once || inPhase(f, "tls"))
}

// ownPage503 reports whether a proxy answered f with a 503 page of its own.
func ownPage503(f *diag.Fact) bool {
	return status(f) == 503 && f.HTTP.Page == "edge_error" && !platformSpeaks(f)
}

func hasEffect(req *diag.Request) bool { return req.Method != "" && req.Method != "GET" }
