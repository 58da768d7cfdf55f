// Package preflight walks the hop chain from the control plane to a tenant's shell, and says which hop failed first,
// which one is to blame, and why.
//
// A hop is made of pure functions: each step asks (requests out) and the hop judges (facts in, findings out). The
// only code that touches a network or a host is a Vantage. So a walk is "send, collect, judge", a replay is "judge
// again", and no test of a judgement needs a network. Callers are cmd/gpuaasctl and the drill runner.
package preflight

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Vantage is a place from which is measured. Probe answers every request, in order, run at once, and never blocks
// past ctx; a place that cannot be had answers with facts that say why.
type Vantage interface {
	Name() string
	Probe(ctx context.Context, reqs []diag.Request) []diag.Fact
	Close() error
}

// The vantages. Platform is the platform's own host, where the profile says how to log in there: it is asked for what a
// walk can do without, and a walk that does not get there is none the worse.
const (
	Operator = "operator"
	Node     = "node"
	Platform = "platform"
)

// Hop is one link of the chain. Its judge sees facts only: no clock, no network, no environment.
type Hop struct {
	ID          diag.HopID
	Title       string
	Layer       diag.Layer
	ExplainedBy []diag.HopID  // hops whose failure makes a failure here a symptom; applied transitively
	Behind      []diag.HopID  // hops whose silence explains a failure here that shows no fault of its own; see platformReads
	Fields      []string      // fields of an answer without which the hop is asked and not judged, see Step.Fields
	Budget      time.Duration // for the hop's steps and counter-probes together
	Steps       []Step
	Judge       func(c *Case) []diag.Finding // the most telling finding first; none: as far as the steps came
	Pass        func(c *Case) string         // the text of a pass: what was really measured
	Counter     func(e *Env, c *Case, failing *diag.Fact) []Counter
}

// patience is how long one of the hop's steps may take, of a budget: its own time, and as many times more as a profile
// gives the hop more than its own. A network that needs more time needs it in every step. It never takes all of a budget:
// whoever is asked must be able to say itself how far it came, and the answer must travel.
func (h *Hop) patience(s Step, budget time.Duration) time.Duration {
	within := max(budget-counterReserve, budget/2)
	switch {
	case s.Timeout == 0:
		return within
	case budget > h.Budget:
		return time.Duration(float64(s.Timeout) * float64(budget) / float64(h.Budget))
	}
	return min(s.Timeout, within)
}

// Step is one measurement of a hop.
type Step struct {
	Name    string
	From    string
	Timeout time.Duration // of one request, see patience; leaves the hop's budget room for counter-probes
	Needs   []diag.HopID  // hops without whose pass this step does not run; a hop that is skipped has not passed
	After   []string      // ids of facts that this step asks with: the plan must have them, and they come first
	When    func(c *Case) string
	Ask     func(e *Env, c *Case) diag.Request
	Uses    string // id of another hop's fact, looked at here in place of a measurement of its own

	// Paths are the platform's paths (profile.Path...) that the step asks. Fields are the fields of answers without
	// which there is nothing to ask for; "a|b" wants one of the two. A step whose platform lacks one is left out of the
	// plan.
	Paths, Fields []string

	// Unless says why the step is not this subject's affair, known from facts alone: it is skipped then, and the hop
	// stands.
	Unless func(c *Case) string
	// Excused reports whether a failing fact is what a sound platform gives here, such as the 400 of a listener that wants
	// a certificate: then the step passes. A failure that is not excused, and that no judge speaks of, is no pass.
	Excused func(c *Case, f *diag.Fact) bool
	// Optional steps measure what a sound node may lack: without an answer they are skipped, and the hop stands.
	Optional bool
	// BothFamilies: where the target's name has IPv4 and IPv6 addresses, the family that the step did not use is
	// dialled, too.
	BothFamilies bool
	// Pure steps measure nothing: they judge what there is.
	Pure bool
}

// sharedStep looks at what another hop measured.
func sharedStep(name string, hop diag.HopID, step string, when func(*Case) string) Step {
	id := factID(hop, step)
	return Step{Name: name, From: Operator, After: []string{id}, When: when, Uses: id}
}

// fact is the id of the fact that the step is about.
func (s Step) fact(hop diag.HopID) string {
	if s.Uses != "" {
		return s.Uses
	}
	return factID(hop, s.Name)
}

// Counter is a probe that differs in one input from a failing one, or is a baseline to compare such a probe with.
type Counter struct {
	Name    string
	From    string
	Request diag.Request
}

// factID names the fact of a step.
func factID(hop diag.HopID, step string) string { return string(hop) + "/" + step }

// places are the vantages of a hop by its plan: the platform's host only where a step is asked from there.
func (h *Hop) places(p diag.PlannedHop) []string {
	there := func(s Step) bool {
		return s.From == Platform && p.Left[s.Name] == "" && slices.Contains(p.Steps, s.Name)
	}
	if slices.ContainsFunc(h.Steps, there) {
		return h.From()
	}
	return slices.DeleteFunc(h.From(), func(v string) bool { return v == Platform })
}

// From lists the vantages of the hop's steps, operator first.
func (h *Hop) From() []string {
	from := []string{} // a report has no null list
	for _, v := range []string{Operator, Node, Platform} {
		for _, s := range h.Steps {
			if s.From == v {
				from = append(from, v)
				break
			}
		}
	}
	return from
}
