// Package preflight walks the hop chain from the control plane to a tenant's shell, and decides which hop failed
// first, which one is to blame, and why.
//
// A hop is made of pure functions: each step asks (requests out) and the hop judges (facts in, findings out). The
// only code that touches a network or a host is a Vantage. So a walk is "send, collect, judge", a replay is "judge
// again", and no test of a judgement needs a network. Callers are ops and its callers.
//
// More than 25 files: each hop has its own.
package preflight

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Vantage is a place from which is measured. Probe answers every request, in order, run at once, and never blocks
// past ctx; an unavailable place answers with facts that have the reason.
type Vantage interface {
	Name() string
	Probe(ctx context.Context, reqs []diag.Request) []diag.Fact
	Close() error
}

// The vantages. Platform is the platform's own host, where the profile has a login for it. Its measurements are
// optional: a walk does not fail without them.
const (
	Operator = "operator"
	Node     = "node"
	Platform = "platform"
)

// Hop is one link of the chain, with everything that it does: no other code depends on a hop's id. Its judge sees
// facts only: no clock, no network, no environment.
type Hop struct {
	ID diag.HopID

	// From the catalogue; a hop without a catalogue row sets them itself.
	Title      string
	Layer      diag.Layer
	Allocation bool // it is about one allocation: without one it is skipped

	ExplainedBy []diag.HopID // hops whose failure makes a failure here a symptom; applied transitively
	// hops whose silence explains a failure here that shows no fault of its own; see platformReads
	Behind   []diag.HopID
	Fields   []string      // fields of an answer without which the hop is asked and not judged, see Step.Fields
	Budget   time.Duration // for the hop's steps and counter-probes together
	Patience string        // the policy whose seconds are added to Budget, where one is
	Steps    []Step
	NotGiven func(p *profile.Profile) string // what the profile lacks for the whole hop; "": nothing

	Opens     string // the vantage that a pass opens: questions to it travel behind this hop's
	Unwatched string // what of it a watch leaves out, where it asks the rest
	Writes    bool   // the platform's evidence is complete only when this hop is done
	ReadModel bool   // the classifier reads its answer directly: a reason that no hop found is reported at this hop

	Judge   func(c *Case) []diag.Finding // the most specific finding first; none: the steps' statuses decide
	Pass    func(c *Case) string         // the text of a pass: what was measured
	Counter func(e *Env, c *Case, failing *diag.Fact) []Counter
	Words   *ownWords // errors recorded about the hop's own task; nil: none

	Silence   *Silence                    // the signal for a missing answer; nil: none
	Clears    diag.Aspect                 // what a pass rules out as the cause of another hop's failure
	NotAbout  func(c *Case) []diag.Aspect // what a fault here is unrelated to
	NotOfNode func(c *Case) bool          // reports whether a fault here is not evidence about the node
	AgentCame func(c *Case) string        // evidence that the agent itself reached the target of the hop's probes

	closure []diag.HopID // of ExplainedBy, with what explains those; the chain fills it in
}

// Silence is the finding of a hop that got no answer.
type Silence struct {
	Signal diag.Signal
	Side   diag.Side
	Text   string
}

// patience is how long one of the hop's steps may take, of a budget: its own time, and as many times more as a profile
// gives the hop more than its own. A network that needs more time needs it in every step. It never takes all of a
// budget: the far side must have time to report how far it came, and the answer must travel.
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

	// Token: it asks in the operator's name. Session: it is a part of a terminal session, and is skipped where none is
	// opened. NoAPI: it is asked where no API is known, too.
	Token, Session, NoAPI bool
	// Changes: asking it leaves something there, such as a task or a terminal session's token. A watch does not ask it.
	Changes bool
	// NotGiven is what the step would need of the profile, NotThere what of the platform; "" where it is there.
	NotGiven func(p *profile.Profile) string
	NotThere func(m profile.Mapping) string

	// Unless is why the step does not apply to this subject, decided by facts alone: it is skipped then, and the hop
	// is judged without it.
	Unless func(c *Case) string
	// Second: the step runs only after a fault. Where Unless skips it, the report leaves it out.
	Second bool
	// Excused reports whether a healthy platform gives this failing fact here, such as the 400 of a listener that
	// requires a certificate: then the step passes. A failure that is not excused, and that no judge covers, is not a
	// pass.
	Excused func(c *Case, f *diag.Fact) bool
	// Last: it runs when all hops are done, and nothing waits for it.
	Last bool
	// Optional steps measure what a healthy node may lack: without an answer they are skipped, and the hop is judged
	// without them.
	Optional bool
	// Once reports whether a request has an effect, so that it is never repeated. Requests other than GET, polls and
	// sessions are never repeated.
	Once func(req diag.Request) bool
	// BothFamilies: where the target's name has IPv4 and IPv6 addresses, the family that the step did not use is
	// dialled, too.
	BothFamilies bool
	// Pure steps measure nothing: they judge existing facts.
	Pure bool

	number int // among all steps; the chain fills it in
}

// sharedStep reads what another hop measured.
func sharedStep(name string, hop diag.HopID, step string, when func(*Case) string) Step {
	id := factID(hop, step)
	return Step{Name: name, From: Operator, Token: true, After: []string{id}, When: when, Uses: id}
}

// Built reports whether the hop has anything to ask.
func (h *Hop) Built() bool { return len(h.Steps) > 0 }

// session reports whether the hop is a part of a terminal session with all that it measures.
func (h *Hop) session() bool {
	return h.Built() && !slices.ContainsFunc(h.Steps, func(s Step) bool { return !s.Session && !s.Pure })
}

// hopIn is the hop of a chain by its id, a hop without anything where the chain has none.
func hopIn(chain []Hop, id diag.HopID) *Hop {
	if i := position(chain, id); i < len(chain) {
		return &chain[i]
	}
	return &Hop{ID: id}
}

// position is where a hop is in the chain; what the chain does not have comes last.
func position(chain []Hop, id diag.HopID) int {
	for i := range chain {
		if chain[i].ID == id {
			return i
		}
	}
	return len(chain)
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

// places are the vantages of a hop by its plan: the platform's host only where a step is asked from there in any case.
func (h *Hop) places(p diag.PlannedHop) []string {
	there := func(s Step) bool {
		return s.From == Platform && !s.Second && p.Left[s.Name] == "" && slices.Contains(p.Steps, s.Name)
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
