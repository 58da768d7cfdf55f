package walk

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// burst returns copies of each request to send at once: on a lossy network, one alone may come out either way.
func (r *repeater) burst(questions []hop.Counter) []hop.Counter {
	if r.failing != nil && !reading.GotNoAnswer(r.failing) && !reading.Unreached(r.failing) {
		return slices.Repeat(questions, burst)
	}
	return slices.Repeat(questions, silentBurst)
}

// worthwhile reports whether a failing request is repeated: not if it has an effect, nor if a limiter refused it, nor
// for an operation on a host that has no counter-probe.
func (r *repeater) worthwhile(compare []hop.Counter) bool {
	s := reading.Status(r.failing)
	switch {
	case !repeatable(r.step, r.req), r.failing.Throttled(), r.failing.Failure == diag.HostExhausted:
		return false
	case len(compare) == 0:
		return r.req.Op.Row().Ladder && (s == 0 || s >= 500 || reading.RefusesCredential(r.failing))
	}
	return true
}

// sort selects the counter-probes that are worth repeating by their first answers: those that passed, and failed ones
// that are compared with one that passed. The operator's are always repeated.
func (r *repeater) sort(found []diag.Fact) (passed, compared []hop.Counter) {
	c := r.caseWith(r.failing)
	var pass, fail []diag.Fact
	for i := range found {
		if world.Passes(c, r.req.ID, &found[i]) {
			pass = append(pass, found[i])
		} else {
			fail = append(fail, found[i])
		}
	}
	of := func(facts []diag.Fact, k hop.Counter) bool {
		return slices.ContainsFunc(facts, func(f diag.Fact) bool { return f.ID == r.req.ID+"~"+k.Name })
	}
	for _, k := range r.counters {
		differs := func(f diag.Fact) bool { return len(diag.Changed(&f.Request, &k.Request)) == 1 }
		switch {
		case of(pass, k):
			passed = append(passed, k)
		case of(fail, k) && (k.From != r.step.From || slices.ContainsFunc(pass, differs)):
			compared = append(compared, k)
		}
	}
	return passed, compared
}

// rounds returns how often requests are repeated in turn; a lone refusal only once, since a limiter may count refusals.
func (r *repeater) rounds(compare []hop.Counter) int {
	if r.failing != nil && len(compare) == 0 && reading.RefusesCredential(r.failing) {
		return 1
	}
	return reading.Repeats
}
