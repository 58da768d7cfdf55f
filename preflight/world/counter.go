package world

import (
	"fmt"
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

// AddressWarnings warns of an address of a name that does not answer beside one that does, at the first hop of the chain
// that measured it from that vantage. A host without a route for a family does not use it, which is not a fault.
func AddressWarnings(h *hop.Hop, c *hop.Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		f := c.Fact(h.ID, h.Steps[i].Name)
		if !h.Steps[i].BothFamilies || f == nil {
			continue
		}
		for _, k := range reading.OtherAddresses(c, h.ID, h.Steps[i].Name) {
			lossy := reading.GotNoAnswer(k) && LossSeen(c, k.Vantage) != "" // a single silence there does not count
			if !reading.RefusesFamily(k) || lossy || reading.WarnedBefore(h.ID, c, f, k) {
				continue
			}
			dead, alive := k.Request.Resolve, reading.RemoteIP(f)
			w := reading.Warn("", k, "the %s address %s of %s does not answer (%s), its %s address %s does%s",
				reading.Family(dead), dead, f.DNS.Name, reading.Saw(k), reading.Family(alive), alive, reading.FamilyCost(f, dead))
			w.Evidence, w.Culprit = append(w.Evidence, f.ID), ""
			out = append(out, w)
		}
	}
	return out
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

// ResolverAtFault reports whether a failed look-up is the fault of a resolver on the asking machine itself: nothing
// listens there, or all servers that it asks, or another one that this machine may ask, have an address.
func ResolverAtFault(c *hop.Case, f *diag.Fact) bool {
	if reading.NoResolver(f) {
		return true
	}
	if !reading.OwnResolver(f) {
		return false
	}
	for i := range reading.MaxServers {
		if other := hop.RequestOf(c, f.ID, reading.NameServerCounter(i)); other != nil && other.All(passing(c, f.ID)) {
			return true
		}
	}
	return len(f.DNS.Behind) > 0 && !slices.ContainsFunc(f.DNS.Behind,
		func(a diag.DNSAnswer) bool { return !reading.Knows(a) })
}

// LocateFault adds the location of the fault, by the counter-probes of f, to its finding. It returns false if the
// operator, like the node, gets no answer.
func LocateFault(c *hop.Case, f *diag.Fact, out *diag.Finding) bool {
	if Misdirected(c, f) {
		pinned, loginPasses := hop.RequestOf(c, f.ID, reading.CounterPinned).First(), OnlyAgentSees(c, f)
		if reading.InPhase(f, "dns") {
			Claim(c, out, claimOnlyLookup, pinned.Request.Resolve)
			if loginPasses {
				Claim(c, out, claimOnlyAgentSees)
			}
			return true
		}
		out.Failure, out.Culprit = diag.DNSMismatch, f.Vantage+" name "+f.DNS.Name
		out.Text += fmt.Sprintf("; the name resolves to %s here (%s); at the profile's address %s the request passes",
			hop.Clip(f.DNS.Addresses), reading.Source(f.DNS), pinned.Request.Resolve)
		if loginPasses {
			Claim(c, out, claimAgentView)
		}
		return true
	}
	control := hop.RequestOf(c, f.ID, reading.CounterFromOperator)
	switch {
	case Claim(c, out, claimEndedForNode):
		out.Side = ""
		out.Evidence = append(out.Evidence, hop.FactID(diag.HopNodeRecoveryStatus, hop.StepTaskWait), ofOperator(c).First().ID)
	case control == nil || !reading.Controls(f, control.First()):
	case control.All(func(k *diag.Fact) bool { return reading.Further(k, f) && reading.Replied(k) }):
		Claim(c, out, claimNodeWay)
	case control.All(func(k *diag.Fact) bool { return reading.FailsLike(k, f) }):
		return !Claim(c, out, claimNotThisNode)
	}
	return true
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

// strayFamily: f fails at one address family only, while the name's other one passes.
func strayFamily(d *doubted) string {
	q := hop.RequestOf(d.c, d.fact.ID, reading.CounterOtherFamily)
	if !d.fails() || q == nil || q.First().Request.Op != d.fact.Request.Op || !q.All(passing(d.c, d.fact.ID)) {
		return ""
	}
	used, other := reading.RemoteIP(d.fact), q.First().Request.Resolve
	return fmt.Sprintf("; this is at its %s address %s; at its %s address %s the request passes", reading.Family(used),
		used, reading.Family(other), other)
}
