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

// Hop is one link of the chain, with everything that it does: no code outside the hop's own file and preflight/world
// depends on its id. Its judge sees facts only: no clock, no network, no environment.
type Hop struct {
	ID diag.HopID
	Meaning
	Causes
	About
	Role

	Budget   time.Duration // for the hop's steps and counter-probes together
	Patience string        // policy key of the seconds that are added to Budget; "": none
	Agent    bool          // about the agent: left out where the profile declares none
	// Absent says why a platform as the profile declares it has no such hop, whatever else was given; nil or "": it has
	Absent func(p *profile.Profile) string
	// FreeOf reports whether the hop needs no allocation, although others of its kind do; nil: it needs one
	FreeOf  func(p *profile.Profile) bool
	Profile func(p *profile.Profile) Gate // what the profile must have for the whole hop; nil: nothing
	Steps   []Step

	Fields   []string                     // that the judge needs: without one, the hop runs and is not judged
	Judge    func(c *Case) []diag.Finding // the most specific finding first; none: the steps' statuses decide
	Pass     func(c *Case) string         // the text of a pass: what was measured
	Counter  func(e *Env, c *Case, failing *diag.Fact) []Counter
	Silence  *Silence        // the finding for a missing answer; nil: none
	Recorded *RecordedErrors // errors recorded about the hop's own task; nil: none

	Check *diag.Check // the check that a profile declares, of which this is the hop; nil: none
}

// Meaning is from the catalogue; a hop without a catalogue row sets it itself.
type Meaning struct {
	Title      string
	Layer      diag.Layer
	Allocation bool // about one allocation: skipped without one
	Optional   bool // not in a walk whose profile leaves it out: no row of the plan, and none of the report
}

// Causes are the hops that may explain a failure of this one.
type Causes struct {
	ExplainedBy []diag.HopID // hops whose failure makes a failure here a symptom; applied transitively
	// hops whose missing answer explains a failure here, unless it is the hop's own fault; see PlatformReads, OwnFault
	Behind []diag.HopID
	// hops whose failure may have the same cause, by which the judge tells causes apart: --only walks them as well
	Reads   []diag.HopID
	Closure []diag.HopID // transitive closure of ExplainedBy; NewChain fills it in
}

// About is what a result of the hop shows of others.
type About struct {
	Clears    diag.Aspect                 // what a pass rules out as the cause of another hop's failure
	NotAbout  func(c *Case) []diag.Aspect // what a fault here is unrelated to
	NotOfNode func(c *Case) bool          // reports whether a fault here is not evidence about the node
	OfNode    func(c *Case) bool          // reports whether a pass shows something of the node, without a step on it
	AgentCame func(c *Case) string        // evidence that the agent itself reached the target of the hop's probes
}

// Role is what the hop is to the walk.
type Role struct {
	Opens      string // the vantage that a pass opens: its requests are sent behind this hop's
	Unwatched  string // the part that a watch leaves out, if it runs the rest
	Writes     bool   // the platform's evidence is complete only when this hop is done
	OfWorkload bool   // its requests go to the workload or its route, and to nothing of the platform
	ReadModel  bool   // the classifier reads its answer directly: a reason that no hop found is reported at this hop
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

// Built reports whether the hop has any step.
func (h *Hop) Built() bool { return len(h.Steps) > 0 }

// session reports whether every measuring step of the hop is part of a terminal session.
func (h *Hop) session() bool {
	return h.Built() && !slices.ContainsFunc(h.Steps, func(s Step) bool { return !s.Needs.Session && !s.Pure() })
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
		return s.From == Platform && s.Policy.Turn == Always && p.Left[s.Name] == "" && slices.Contains(p.Steps, s.Name)
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
