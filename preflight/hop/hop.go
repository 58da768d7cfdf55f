// Package hop has the types of a chain: a hop with its steps, the plan of a walk, what a step may ask with, and a case:
// the facts of one walk, by step. It knows no hop of the built-in chain.
package hop

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Vantage is a place that probes run from. Probe runs all requests at once, returns a fact for each in the order of
// reqs, and never blocks past ctx; if the place is not available, the facts have the reason.
type Vantage interface {
	Name() string
	Probe(ctx context.Context, reqs []diag.Request) []diag.Fact
	Close() error
}

// The vantages. Platform is the platform's own host, if the profile has a login for it. Its measurements are optional:
// a walk does not fail without them.
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
	Allocation bool // about one allocation: skipped without one

	ExplainedBy []diag.HopID // hops whose failure makes a failure here a symptom; applied transitively
	// hops whose missing answer explains a failure here, unless it is the hop's own fault; see PlatformReads, OwnFault
	Behind []diag.HopID
	// hops whose failure may have the same cause, by which the judge tells causes apart: --only walks them as well
	Reads    []diag.HopID
	Fields   []string      // fields that the judge needs: without one, the hop runs and is not judged. See Step.Fields
	Budget   time.Duration // for the hop's steps and counter-probes together
	Patience string        // policy key of the seconds that are added to Budget; "": none
	Steps    []Step
	NotGiven func(p *profile.Profile) string // what the profile lacks for the whole hop; "": nothing

	Opens      string // the vantage that a pass opens: its requests are sent behind this hop's
	Unwatched  string // the part that a watch leaves out, if it runs the rest
	Writes     bool   // the platform's evidence is complete only when this hop is done
	OfWorkload bool   // its requests go to the workload or its route, and to nothing of the platform
	ReadModel  bool   // the classifier reads its answer directly: a reason that no hop found is reported at this hop

	Judge    func(c *Case) []diag.Finding // the most specific finding first; none: the steps' statuses decide
	Pass     func(c *Case) string         // the text of a pass: what was measured
	Counter  func(e *Env, c *Case, failing *diag.Fact) []Counter
	Recorded *RecordedErrors // errors recorded about the hop's own task; nil: none

	Silence   *Silence                    // the finding for a missing answer; nil: none
	Clears    diag.Aspect                 // what a pass rules out as the cause of another hop's failure
	NotAbout  func(c *Case) []diag.Aspect // what a fault here is unrelated to
	NotOfNode func(c *Case) bool          // reports whether a fault here is not evidence about the node
	OfNode    func(c *Case) bool          // reports whether a pass shows something of the node, without a step on it
	AgentCame func(c *Case) string        // evidence that the agent itself reached the target of the hop's probes

	Closure []diag.HopID // transitive closure of ExplainedBy; NewChain fills it in
}

// RecordedErrors selects the errors that node and platform recorded about the task of a hop's step.
type RecordedErrors struct {
	Signals []diag.Signal // of the findings that they explain
	Task    func(c *Case) string
	Reasons []diag.RecordReason // of the agent's record
	// prefixes of error codes in the platform's evidence; the gateway's own time-out does not count as a cause
	Codes []string
}

// Silence is the finding of a hop that got no answer, or only a server's error.
type Silence struct {
	Signal  diag.Signal
	Side    diag.Side
	Request string // what was sent: the subject of the text
}

// PatienceFor returns how long one request of the step may take, within a hop's budget: its timeout, stretched by the
// factor by which the profile enlarges the budget, since a slow network is slow in every step. Part of the budget is
// left over: the far side must have time to report how far it came, and the answer must travel.
func (h *Hop) PatienceFor(s Step, budget time.Duration) time.Duration {
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
	Timeout time.Duration // of one request, see patience; must leave time in the hop's budget for counter-probes
	Needs   []diag.HopID  // hops that must pass before this step runs; a skipped hop has not passed
	// Overrules is for a step that uses the service whose health page a hop of Needs requests; nil: none.
	Overrules *Overrule
	After     []string             // ids of facts that Ask reads: the plan must have them, and they are measured first
	When      func(c *Case) string // why the step cannot run, by the facts; "": it can
	Ask       func(e *Env, c *Case) diag.Request
	Uses      string // id of another hop's fact that this step judges; it then measures nothing

	// Paths are the platform's paths (profile.Path...) that the step requests. Fields are the fields of answers that it
	// needs; for "a|b" one of the two is enough. A step whose platform lacks one is left out of the plan.
	Paths, Fields []string

	// Token: the step sends the operator's token. Session: it is part of a terminal session, and skipped if none is
	// opened. NoAPI: it runs even if no API is known.
	Token, Session, NoAPI bool
	// Changes: the request leaves something on the platform, such as a task or a terminal session's token. A watch does
	// not send it.
	Changes bool
	// NotGiven returns what the profile lacks for the step, NotThere what the platform lacks; "" if nothing.
	NotGiven func(p *profile.Profile) string
	NotThere func(m profile.Mapping) string

	// Unless returns why the step does not apply to this subject, by facts alone: it is then skipped, and the hop is
	// judged without it.
	Unless func(c *Case) string
	// Second: the step runs only after a fault. If Unless skips it, the report leaves it out.
	Second bool
	// Excused reports whether a healthy platform gives this failing fact here, such as the 400 of a listener that
	// requires a certificate: then the step passes. A failure that is neither excused nor covered by a judge is not a
	// pass.
	Excused func(c *Case, f *diag.Fact) bool
	// Last: the step runs when all hops are done, and nothing waits for it.
	Last bool
	// Optional: a healthy node may lack what the step measures. Without an answer the step is skipped, and the hop is
	// judged without it.
	Optional bool
	// Once reports whether a request has an effect, so that it must not be repeated. Requests other than GET, polls and
	// sessions are never repeated.
	Once func(req diag.Request) bool
	// BothFamilies: if the target's name has IPv4 and IPv6 addresses, the family that the step did not use is dialled
	// as well.
	BothFamilies bool
	// Pure: the step measures nothing, and judges existing facts.
	Pure bool

	number int // index among all steps; Chain fills it in
}

// Overrule lets a step run although a hop that it needs failed, if only the answer of a health page failed there:
// such a page never decides about a service that works. The step's fact is kept only if it shows that the service
// works. Otherwise the walk is the same as if the step had not run.
type Overrule struct {
	Page  string // fact id of the health page
	Works func(f *diag.Fact) bool
}

// Hop returns the hop that requests the health page.
func (o *Overrule) Hop() diag.HopID { return OfFact(o.Page) }

// SharedStep returns a step that judges a fact of another hop.
func SharedStep(name string, hop diag.HopID, step string, when func(*Case) string) Step {
	id := FactID(hop, step)
	return Step{Name: name, From: Operator, Token: true, After: []string{id}, When: when, Uses: id}
}

// Built reports whether the hop has any step.
func (h *Hop) Built() bool { return len(h.Steps) > 0 }

// session reports whether every measuring step of the hop is part of a terminal session.
func (h *Hop) session() bool {
	return h.Built() && !slices.ContainsFunc(h.Steps, func(s Step) bool { return !s.Session && !s.Pure })
}

// In returns the hop of a chain with this id, or an empty hop if the chain has none.
func In(chain []Hop, id diag.HopID) *Hop {
	if i := Position(chain, id); i < len(chain) {
		return &chain[i]
	}
	return &Hop{ID: id}
}

// Position returns the index of a hop in the chain; len(chain) if the chain does not have it.
func Position(chain []Hop, id diag.HopID) int {
	for i := range chain {
		if chain[i].ID == id {
			return i
		}
	}
	return len(chain)
}

// Fact returns the id of the fact that the step judges.
func (s Step) Fact(hop diag.HopID) string {
	if s.Uses != "" {
		return s.Uses
	}
	return FactID(hop, s.Name)
}

// Counter is a counter-probe: it differs from a failing probe in one input, or is the baseline for one that does.
type Counter struct {
	Name    string
	From    string
	Request diag.Request
}

// FactID names the fact of a step.
func FactID(hop diag.HopID, step string) string { return string(hop) + "/" + step }

// places returns the vantages of a planned hop: the platform's host only if a step runs there unconditionally.
func (h *Hop) places(p diag.PlannedHop) []string {
	there := func(s Step) bool {
		return s.From == Platform && !s.Second && p.Left[s.Name] == "" && slices.Contains(p.Steps, s.Name)
	}
	if slices.ContainsFunc(h.Steps, there) {
		return h.From()
	}
	return slices.DeleteFunc(h.From(), func(v string) bool { return v == Platform })
}

// From returns the vantages of the hop's steps, operator first.
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
