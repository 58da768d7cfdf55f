package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// SilentRepeats is the least number of runs on each side of a proof if the failing side gets no answer, see
// reading.Repeats: on a network that loses half of its packets, three runs that fail and three that pass happen by
// chance about once in a hundred tries.
const SilentRepeats = 9

// pair is a failing and a passing request of one step, from one vantage, that differ in exactly one input.
type pair struct {
	failing, passing hop.RequestRuns
	changed          string
}

// pairsOf returns the pairs of a step's family: one request fails as the step's probe did, the other one passes. A
// request from another vantage shows where a fault is, never why, and makes no pair; nor does a probe of another step,
// which measures something else.
func pairsOf(c *hop.Case, step string) []pair {
	main := c.FactByID(step)
	if main == nil || !reading.FailsAlike(main, main) {
		return nil
	}
	var pairs []pair
	family := hop.FamilyOf(c, step)
	for _, a := range family {
		if !reading.FailsLike(a.First(), main) || a.First().Vantage != main.Vantage {
			continue
		}
		for _, b := range family {
			if b.First().Vantage != main.Vantage || !world.Passes(c, step, b.First()) {
				continue
			}
			if changed := diag.Changed(&a.First().Request, &b.First().Request); len(changed) == 1 {
				pairs = append(pairs, pair{*a, *b, changed[0]})
			}
		}
	}
	return pairs
}

// Prove looks for a stable pair: both requests were repeated in turn, with the same result each time, over connections
// that lost nothing. Without one, why is what the first pair lacks for a proof; "" if there is no pair. A request that
// was answered only sometimes proves only that. few: the only obstacle is too few repeats.
func Prove(c *hop.Case, signal diag.Signal, failing string) (proof *diag.Proof, why string, few bool) {
	main := c.FactByID(failing)
	if main == nil {
		return nil, "", false
	}
	if signal == diag.SigNetworkUnstable {
		if u := world.OwnRuns(c, failing); u.Unstable() {
			return u.Proof(), "", false
		}
		return nil, "", false
	}
	if world.InDoubt(c, world.ForProof, main) != "" {
		return nil, "", false
	}
	for _, p := range pairsOf(c, failing) {
		doubt := p.doubt(c, failing, main)
		if doubt == "" {
			a, b := p.failing.First(), p.passing.First()
			return &diag.Proof{
				Failing: a.ID, Passing: b.ID, Changed: p.changed, Text: p.text(),
				Failed: len(p.failing.Runs), Passed: len(p.passing.Runs),
			}, "", false
		}
		if why == "" {
			why, few = p.text()+": no proof, since "+doubt, doubt == p.few()
		}
	}
	return nil, why, few
}

// doubt returns why a pair is not a proof, "" if it is one.
func (p *pair) doubt(c *hop.Case, step string, main *diag.Fact) string {
	switch {
	case !p.failing.All(func(f *diag.Fact) bool { return reading.FailsLike(f, main) }):
		return "repeats of the failing request gave another result"
	case !p.passing.All(func(f *diag.Fact) bool {
		return world.Passes(c, step, f) && outcome(f, p.failing.First()) == outcome(p.passing.First(), p.failing.First())
	}):
		return "repeats of the passing request gave another result"
	case !p.passing.All(Clean):
		return "the passing request ran over a reused connection, or one that lost packets"
	case p.hasty():
		return "the failing request waited less time than the passing one took"
	}
	if why := world.InDoubt(c, world.ForPair, p.failing.Runs...); why != "" {
		return why
	}
	if min(len(p.failing.Runs), len(p.passing.Runs)) < p.enough() {
		return p.few()
	}
	return ""
}

// hasty reports whether a silent run of the failing request waited less than a run of the passing request took to get
// through the same phase: a slow server makes that difference as well.
func (p *pair) hasty() bool {
	return slices.ContainsFunc(p.failing.Runs, func(a *diag.Fact) bool {
		return reading.GotNoAnswer(a) && !p.passing.All(func(b *diag.Fact) bool {
			return through(b, a.Phase) <= a.DurationMS
		})
	})
}

// through returns how long after its start a probe had passed a phase.
func through(f *diag.Fact, phase string) (at diag.Millis) {
	if reading.Rung(phase) > reading.Rung("tls") {
		return f.DurationMS
	}
	if f.DNS != nil {
		at += f.DNS.DurationMS
	}
	if f.TCP != nil && reading.Rung(phase) >= reading.Rung("tcp") {
		at += f.TCP.DurationMS
	}
	if f.TLS != nil && reading.Rung(phase) >= reading.Rung("tls") {
		at += f.TLS.DurationMS
	}
	return at
}

// enough returns how often each side must have run.
func (p *pair) enough() int {
	if p.silent() {
		return SilentRepeats
	}
	return reading.Repeats
}

// silent reports whether a run of the failing request got no answer.
func (p *pair) silent() bool { return slices.ContainsFunc(p.failing.Runs, reading.GotNoAnswer) }

// few describes a pair with too few runs, as in reports from before requests were repeated.
func (p *pair) few() string {
	a, b := len(p.failing.Runs), len(p.passing.Runs)
	if a == 1 && b == 1 {
		return fmt.Sprintf("each ran once; a proof needs %d runs of each", p.enough())
	}
	return fmt.Sprintf("they ran %s and %s; a proof needs %d runs of each", reading.Times(a), reading.Times(b), p.enough())
}

// Clean reports whether a probe used its own connection, and no segment was sent again, as far as the kernel reports
// it.
func Clean(f *diag.Fact) bool { return !hop.Reused(f) && !reading.Resent(f) }

// text describes the pair in one sentence.
func (p *pair) text() string {
	a, b := p.failing.First(), p.passing.First()
	failed := string(a.Failure)
	if !p.failing.All(func(f *diag.Fact) bool { return f.Failure == a.Failure }) {
		failed = world.Tally(p.failing.Runs)
	}
	first, second := "with "+inWords(&a.Request, p.changed), "with "+inWords(&b.Request, p.changed)
	if p.changed == "target" {
		first, second = askedAt(a, b)
	}
	return fmt.Sprintf("%s %s%s; %s %s%s", failed, first,
		often(&p.failing, func(f *diag.Fact) bool { return reading.FailsLike(f, a) }), outcome(b, a), second,
		often(&p.passing, func(f *diag.Fact) bool { return f.Failure == b.Failure && outcome(f, a) == outcome(b, a) }))
}

// readableURL is the longest URL, in bytes, that a proof names with its path.
const readableURL = 48

// askedAt returns the targets of two probes, for a proof; long URLs are cut to their endpoints if these differ.
func askedAt(a, b *diag.Fact) (first, second string) {
	first, second = reading.Target(a), reading.Target(b)
	if x, y := hop.EndpointOf(first), hop.EndpointOf(second); x != y && max(len(first), len(second)) > readableURL {
		first, second = x, y
	}
	if strings.ContainsAny(first, "/:") {
		return "at " + first, "at " + second
	}
	return "with " + first, "with " + second
}

// often returns how often a request had this result, if it ran more than once.
func often(a *hop.RequestRuns, same func(*diag.Fact) bool) string {
	if len(a.Runs) < 2 {
		return ""
	}
	alike := slices.DeleteFunc(slices.Clone(a.Runs), func(f *diag.Fact) bool { return !same(f) })
	return fmt.Sprintf(" (%d of %d)", len(alike), len(a.Runs))
}

func outcome(f, a *diag.Fact) string {
	switch {
	case reading.RefusesCert(a):
		return "the certificate is accepted"
	case f.Failure == diag.OK:
		return "passes"
	}
	return "is answered (" + answerWords(f) + ")"
}

// answerWords describes the answer that a hop accepts as a pass although the probe reports a failure.
func answerWords(f *diag.Fact) string {
	switch {
	case reading.Code(f) != "":
		return reading.Code(f)
	case reading.Status(f) != 0:
		return fmt.Sprintf("HTTP %d", reading.Status(f))
	}
	return string(f.Failure)
}

// inWords is one input of a request as text.
func inWords(r *diag.Request, name string) string {
	if words := inputWords[name]; words != nil {
		return words(r)
	}
	if v, set := r.Inputs()[name]; set {
		return fmt.Sprintf("%s %v", name, v)
	}
	return "no " + name
}

// inputWords are the inputs that have words of their own; any other is named with its value.
var inputWords = map[string]func(r *diag.Request) string{
	"ca_inline": trustWords,
	"resolve": func(r *diag.Request) string {
		return with("the address "+r.Resolve+" pinned", r.Resolve, "the name looked up")
	},
	"view": func(r *diag.Request) string { return "the " + cmp.Or(string(r.View), "agent") + "'s view" },
	"op":   func(r *diag.Request) string { return reading.OpWords(r.Op) },
	"resolver": func(r *diag.Request) string {
		return with("the name server "+r.Resolver, r.Resolver, "the host's own name servers")
	},
	"network": func(r *diag.Request) string {
		return with("the machine's network", string(r.Network), "the agent's own network")
	},
	"target": func(r *diag.Request) string { return r.Target },
}

// with returns words if the value is set, else what holds without it.
func with(words, value, without string) string {
	if value == "" {
		return without
	}
	return words
}

func trustWords(r *diag.Request) string {
	switch {
	case r.CAInline != "":
		return "the active bundle"
	case r.CABundle != "":
		return "the bundle " + r.CABundle
	}
	return "the host's own roots"
}
