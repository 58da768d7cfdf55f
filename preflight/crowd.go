package preflight

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// aloneTries and alonePause bound how often, and after which pauses, a request is sent again that was refused beside
// others of the walk: together less than a second.
const (
	aloneTries = 3
	alonePause = 120 * time.Millisecond
)

// crowd counts the requests of a walk at one endpoint, from one vantage: those that are open, and those that were
// answered, whose connections may be kept.
type crowd struct{ open, served int }

// probeAlone is probe for a step's request. If the server refuses it and not others of this walk, it is sent again, up
// to aloneTries times: a limit on connections per client is no fault of the platform.
func (w *walker) probeAlone(walk, ctx context.Context, s Step, req diag.Request) diag.Fact {
	at := s.From + " " + endpointOf(req.Target)
	count := func(open, served int) crowd {
		w.mu.Lock()
		defer w.mu.Unlock()
		k := w.crowds[at]
		w.crowds[at] = crowd{k.open + open, k.served + served}
		return k
	}
	for refused := 0; ; refused++ {
		others := count(1, 0)
		f := w.probe(walk, ctx, s.From, []diag.Request{req})[0]
		f.Refused = refused
		if !refusedUnseen(s, req, &f) {
			if answeredRemotely(&f) {
				count(0, 1)
			}
			count(-1, 0)
			return f
		}
		now := count(-1, 0)
		beside := now.served > 0 || refused > 0 || (others.open+now.open > 1 && !inPhase(&f, "tcp"))
		if refused == aloneTries || !beside {
			return f
		}
		select {
		case <-time.After(alonePause << refused):
		case <-ctx.Done():
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
	if f == nil || !(hungUp(f) || noCode503(f)) || !hasEffect(&f.Request) {
		return false
	}
	for g := range c.all() {
		if g.Refused > 0 && g.Passed() && g.Vantage == f.Vantage && sameEndpoint(target(g), target(f)) {
			return true
		}
	}
	return false
}

// besideOthers returns the text for a request with an effect that a server refused while it answered others of this
// walk; "" for any other.
func besideOthers(c *Case, f *diag.Fact) string {
	if !(hungUp(f) || noCode503(f)) || !hasEffect(&f.Request) {
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

// refusedUnseen reports whether a server refused a request that may be sent again: one without an effect by a 503
// without a code or by hanging up, any before it was sent. A proxy's 503 does not show that: its upstream may have hung
// up on the request.
func refusedUnseen(s Step, req diag.Request, f *diag.Fact) bool {
	once := hasEffect(&req) || (s.Once != nil && s.Once(req)) || req.Op.Row().Once
	if noCode503(f) {
		return !once
	}
	unseen := hungUp(f) || f.Failure == diag.TCPReset || f.Failure == diag.TCPRefused
	return s.From == Operator && unseen && (!once || inPhase(f, "tcp", "tls"))
}

// noCode503 reports whether a 503 without an error code came: any server on the path may have refused the request.
func noCode503(f *diag.Fact) bool { return status(f) == 503 && code(f) == "" }

func hasEffect(req *diag.Request) bool { return req.Method != "" && req.Method != "GET" }
