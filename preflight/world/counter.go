package world

import (
	"cmp"
	"net"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// OnlyAgentSees reports whether the fault of f exists only in the agent's view: a login, which sees the machine's own
// files, does not have it.
func OnlyAgentSees(c *hop.Case, f *diag.Fact) bool {
	plain := hop.RequestOf(c, f.ID, reading.CounterHostView)
	return plain != nil && plain.All(passing(c, f.ID))
}

// OtherListener presents the node's certificate, which f's listener refuses, to the other listener.
func OtherListener(e *hop.Env, f *diag.Fact, base, path string, vars map[string]string) []hop.Counter {
	asked := f.Failure != diag.MTLSNotRequested // otherwise f's listener is at fault, whatever the other one does
	if !asked || !reading.RefusesCert(f) || base == "" || hop.SameEndpoint(reading.Target(f), base) {
		return nil
	}
	req := e.Addressed(f.Request, base, path, vars)
	req.TimeoutMS = hop.CounterTimeoutMS
	return []hop.Counter{{Name: reading.CounterOtherListener, From: f.Vantage, Request: req}}
}

// OtherRoute requests another name of the profile from the edge that answered f: if that is answered, the route is at
// fault, and not the edge. It returns none if the names may be at two edges, or if the request has a query, which
// another name must not see.
func OtherRoute(e *hop.Env, f *diag.Fact, pin, base, basePin, path string) []hop.Counter {
	if f.HTTP == nil || base == "" || edgeOf(reading.Target(f), pin) != edgeOf(base, basePin) ||
		hop.HostPortOf(reading.Target(f)) == hop.HostPortOf(base) ||
		!f.Request.Query.IsZero() {
		return nil
	}
	req := e.Addressed(f.Request, base, path, nil)
	req.TimeoutMS = hop.CounterTimeoutMS
	return []hop.Counter{{Name: reading.CounterOtherRoute, From: f.Vantage, Request: req}}
}

// ProfileURL repeats a failing probe with the profile's URL in place of the running agent's, if they differ.
func ProfileURL(e *hop.Env, f *diag.Fact, expected, path string, vars map[string]string) []hop.Counter {
	if expected == "" || hop.SameEndpoint(reading.Target(f), expected) {
		return nil
	}
	req := f.Request
	req.TimeoutMS = hop.CounterTimeoutMS
	if req.Op == diag.OpTLS {
		req.Target = expected
	} else {
		req = e.Addressed(req, expected, path, vars)
	}
	return []hop.Counter{{Name: reading.CounterProfileURL, From: f.Vantage, Request: req}}
}

// Misdirected reports whether f passes at the address that the profile has for its name.
func Misdirected(c *hop.Case, f *diag.Fact) bool {
	pinned := hop.RequestOf(c, f.ID, reading.CounterPinned)
	return pinned != nil && f.DNS != nil && pinned.All(passing(c, f.ID))
}

// Passes reports whether b would pass as the step's fact: with b in place of the step's own fact, the step passes and
// its hop finds no fault. Getting further than another probe is not a pass. A probe with another operation cannot
// replace the step's own, so only its own result counts.
func Passes(c *hop.Case, step string, b *diag.Fact) bool {
	known := substitutes.Of(c)
	for _, s := range *known {
		if s.fact == b && s.step == step {
			return s.passed
		}
	}
	s := substitute{step, b, passesInPlace(c, step, b)}
	*known = append(*known, s)
	return s.passed
}

var substitutes = hop.NewMemo(func(*hop.Case) []substitute { return nil }) // filled in by passes

// substitute is a cached result of passes: whether fact passes in place of the step's own.
type substitute struct {
	step   string
	fact   *diag.Fact
	passed bool
}

func passesInPlace(c *hop.Case, step string, b *diag.Fact) bool {
	if slices.Contains(c.InPlace, b) { // this is asked by a judge who is asked whether b passes
		return b.Passed()
	}
	main := c.FactByID(step)
	if main == nil || !hop.Conclusive(b) || b.Throttled() || b.Failure.Local() {
		return false
	}
	if reading.RefusesCert(main) { // a listener that does not ask for a certificate has not accepted one
		return reading.TookCertificate(b)
	}
	h, s := c.Declared(step)
	if h == nil || b.Request.Op != main.Request.Op {
		return b.Passed()
	}
	if !b.Passed() && (s.Excused == nil || !s.Excused(c, b)) {
		return false
	}
	return !slices.ContainsFunc(h.Judge(c.With(step, b)), func(f diag.Finding) bool {
		return f.Status != diag.StatusWarn && len(f.Evidence) > 0 && f.Evidence[0] == step
	})
}

// passing returns passes for one step, as a predicate on runs.
func passing(c *hop.Case, step string) func(*diag.Fact) bool {
	return func(b *diag.Fact) bool { return Passes(c, step, b) }
}

// edgeOf returns the address and port of a base URL, by the profile's pinned address if there is one: only the profile
// can show that two names are one edge.
func edgeOf(base, pin string) string {
	host, port, err := net.SplitHostPort(hop.HostPortOf(base))
	if err != nil {
		return base
	}
	return net.JoinHostPort(cmp.Or(pin, host), port)
}
