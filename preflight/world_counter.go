package preflight

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// onlyAgentSees reports whether the fault of f exists only in the agent's view: a login, which sees the machine's own
// files, does not have it.
func onlyAgentSees(c *Case, f *diag.Fact) bool {
	plain := question(c, f.ID, counterHostView)
	return plain != nil && plain.all(passing(c, f.ID))
}

// otherListener presents the node's certificate, which f's listener refuses, to the other listener.
func otherListener(e *Env, f *diag.Fact, base, path string, vars map[string]string) []Counter {
	asked := f.Failure != diag.MTLSNotRequested // otherwise f's listener is at fault, whatever the other one does
	if !asked || !refusesCert(f) || base == "" || sameEndpoint(target(f), base) {
		return nil
	}
	req := e.to(f.Request, base, path, vars)
	req.TimeoutMS = counterTimeoutMS
	return []Counter{{Name: counterOtherListener, From: f.Vantage, Request: req}}
}

// otherRoute requests another name of the profile from the edge that answered f: if that is answered, the route is at
// fault, and not the edge. It returns none if the names may be at two edges, or if the request has a query, which
// another name must not see.
func otherRoute(e *Env, f *diag.Fact, pin, base, basePin, path string) []Counter {
	if f.HTTP == nil || base == "" || edgeOf(target(f), pin) != edgeOf(base, basePin) ||
		hostPortOf(target(f)) == hostPortOf(base) ||
		!f.Request.Query.IsZero() {
		return nil
	}
	req := e.to(f.Request, base, path, nil)
	req.TimeoutMS = counterTimeoutMS
	return []Counter{{Name: counterOtherRoute, From: f.Vantage, Request: req}}
}

// familyWarnings warns of an address family of a name that does not answer, at the first hop of the chain that measured
// it from that vantage. A host without a route for a family does not use it, which is not a fault.
func familyWarnings(h *Hop, c *Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		s := &h.Steps[i]
		if !s.BothFamilies {
			continue
		}
		f, k := c.Fact(h.ID, s.Name), c.counter(h.ID, s.Name, counterOtherFamily)
		if f == nil || k == nil || k.Request.Op != diag.OpTCP || !refusesFamily(k) || warnedBefore(h.ID, c, f) ||
			(gotNoAnswer(k) && lossSeen(c, k.Vantage) != "") { // a single silence on a lossy path does not count
			continue
		}
		dead, alive := k.Request.Resolve, remoteIP(f)
		w := warn("", k, "the %s address %s of %s does not answer (%s), its %s address %s does%s", family(dead), dead,
			f.DNS.Name,
			saw(k), family(alive), alive, familyCost(f, dead))
		w.Evidence, w.Culprit = append(w.Evidence, f.ID), ""
		out = append(out, w)
	}
	return out
}

// strayFamily returns the text that f fails at one address family only, while the name's other one passes; ""
// otherwise.
func strayFamily(c *Case, f *diag.Fact, out *diag.Finding) string {
	q := question(c, f.ID, counterOtherFamily)
	if out.Status != diag.StatusFail || q == nil || q.first().Request.Op != f.Request.Op || !q.all(passing(c, f.ID)) {
		return ""
	}
	k := q.first()
	used := remoteIP(f)
	return fmt.Sprintf("; this is at its %s address %s; at its %s address %s the request passes", family(used), used,
		family(k.Request.Resolve), k.Request.Resolve)
}

// profileURL repeats a failing probe with the profile's URL in place of the running agent's, if they differ.
func profileURL(e *Env, f *diag.Fact, expected, path string, vars map[string]string) []Counter {
	if expected == "" || sameEndpoint(target(f), expected) {
		return nil
	}
	req := f.Request
	req.TimeoutMS = counterTimeoutMS
	if req.Op == diag.OpTLS {
		req.Target = expected
	} else {
		req = e.to(req, expected, path, vars)
	}
	return []Counter{{Name: counterProfileURL, From: f.Vantage, Request: req}}
}

// resolverAtFault reports whether a failed look-up is the fault of a resolver on the asking machine itself: nothing
// listens there, or all servers that it asks, or another one that this machine may ask, have an address.
func resolverAtFault(c *Case, f *diag.Fact) bool {
	if noResolver(f) {
		return true
	}
	if !ownResolver(f) {
		return false
	}
	for i := range maxServers {
		if other := question(c, f.ID, nameServerCounter(i)); other != nil && other.all(passing(c, f.ID)) {
			return true
		}
	}
	return len(f.DNS.Behind) > 0 && !slices.ContainsFunc(f.DNS.Behind, func(a diag.DNSAnswer) bool { return !knows(a) })
}

// passedOnce reports whether the request of f passed another time: its answer is then that of one of several servers,
// or of one moment, and not the cause.
func passedOnce(c *Case, f *diag.Fact) bool {
	if !f.Request.Op.Row().Ladder {
		return false
	}
	step, _, _ := splitID(f.ID)
	u := ownRuns(c, step)
	return u.mixed()
}

// locateFault adds the location of the fault, by the counter-probes of f, to its finding. It returns false if the
// operator, like the node, gets no answer.
func locateFault(c *Case, f *diag.Fact, out *diag.Finding) bool {
	if misdirected(c, f) {
		pinned, loginPasses := question(c, f.ID, counterPinned).first(), onlyAgentSees(c, f)
		if inPhase(f, "dns") {
			claim(c, out, claimOnlyLookup, pinned.Request.Resolve)
			if loginPasses {
				claim(c, out, claimOnlyAgentSees)
			}
			return true
		}
		out.Failure, out.Culprit = diag.DNSMismatch, f.Vantage+" name "+f.DNS.Name
		out.Text += fmt.Sprintf("; the name resolves to %s here (%s); at the profile's address %s the request passes",
			clip(f.DNS.Addresses), source(f.DNS), pinned.Request.Resolve)
		if loginPasses {
			claim(c, out, claimAgentView)
		}
		return true
	}
	control := question(c, f.ID, counterFromOperator)
	switch {
	case control == nil || !controls(f, control.first()):
	case control.all(func(k *diag.Fact) bool { return further(k, f) && replied(k) }):
		claim(c, out, claimNodeWay)
	case control.all(func(k *diag.Fact) bool { return failsLike(k, f) }):
		return !claim(c, out, claimNotThisNode)
	}
	return true
}

// misdirected reports whether f passes at the address that the profile has for its name.
func misdirected(c *Case, f *diag.Fact) bool {
	pinned := question(c, f.ID, counterPinned)
	return pinned != nil && f.DNS != nil && pinned.all(passing(c, f.ID))
}

// passes reports whether b would pass as the step's fact: with b in place of the step's own fact, the step passes and
// its hop finds no fault. Getting further than another probe is not a pass. A probe with another operation cannot
// replace the step's own, so only its own result counts.
func passes(c *Case, step string, b *diag.Fact) bool {
	known := substitutes.of(c)
	for _, s := range *known {
		if s.fact == b && s.step == step {
			return s.passed
		}
	}
	s := substitute{step, b, passesInPlace(c, step, b)}
	*known = append(*known, s)
	return s.passed
}

var substitutes = newMemo(func(*Case) []substitute { return nil }) // filled in by passes

// substitute is a cached result of passes: whether fact passes in place of the step's own.
type substitute struct {
	step   string
	fact   *diag.Fact
	passed bool
}

func passesInPlace(c *Case, step string, b *diag.Fact) bool {
	if slices.Contains(c.inPlace, b) { // this is asked by a judge who is asked whether b passes
		return b.Passed()
	}
	main := c.fact(step)
	if main == nil || !conclusive(b) || b.Throttled() || b.Failure.Local() {
		return false
	}
	if refusesCert(main) { // a listener that does not ask for a certificate has not accepted one
		return tookCertificate(b)
	}
	h, s := c.declared(step)
	if h == nil || b.Request.Op != main.Request.Op {
		return b.Passed()
	}
	if !b.Passed() && (s.Excused == nil || !s.Excused(c, b)) {
		return false
	}
	return !slices.ContainsFunc(h.Judge(c.with(step, b)), func(f diag.Finding) bool {
		return f.Status != diag.StatusWarn && len(f.Evidence) > 0 && f.Evidence[0] == step
	})
}

// passing returns passes for one step, as a predicate on runs.
func passing(c *Case, step string) func(*diag.Fact) bool {
	return func(b *diag.Fact) bool { return passes(c, step, b) }
}
