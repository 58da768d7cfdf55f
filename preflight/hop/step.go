package hop

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Step is one measurement of a hop.
type Step struct {
	Name    string
	From    string        // the vantage: Operator, Node or Platform
	Timeout time.Duration // of one request, see PatienceFor; must leave time in the hop's budget for counter-probes
	// Ask returns the request; the zero Request if the platform lacks what it needs: then nothing is sent.
	Ask  func(e *Env, c *Case) diag.Request
	Uses string // id of another hop's fact that this step judges in place of its own

	Needs Needs
	// When says, by the facts so far, whether the step is sent: Wait if it cannot, Skip if it does not apply to this
	// subject; then the hop is judged without it. nil: Go.
	When   func(c *Case) Gate
	Policy Policy
	// Excused reports whether a healthy platform gives this failing fact here, such as the 400 of a listener that
	// requires a certificate: then the step passes. A failure that is neither excused nor covered by a judge is not a
	// pass.
	Excused func(c *Case, f *diag.Fact) bool

	number int // index among all steps; Chain fills it in
}

// Needs is what a step cannot do without: of the walk, of the operator, and of the platform.
type Needs struct {
	Hops  []diag.HopID // that must pass first; a skipped hop has not passed
	Facts []string     // ids of facts that Ask reads: the plan must have them, and they are measured first
	// Overrules is for a step that uses the service whose health page a hop of Hops requests; nil: none.
	Overrules *Overrule

	Token   bool // the operator's token, which is sent
	Session bool // a terminal session, which the step is part of
	NoAPI   bool // not even a known API
	Agent   bool // the agent on the node, or what it keeps there

	Paths  []string // the platform's paths (profile.Path...) that are requested
	Fields []string // the fields of answers that it reads; for "a|b" one of the two is enough
	// Instead returns what the step needs in place of this, if the profile declares another kind of the thing; nil, or a
	// nil result: this. Only the plan uses it: what is absent on a platform is waited for by no walk.
	Instead func(p *profile.Profile) *Needs
	// Profile says what else the profile must have: Skip if it was not given, Never if the platform lacks it.
	Profile func(p *profile.Profile) Gate
}

// Policy is how a step's request is sent, and what becomes of its answer.
type Policy struct {
	Turn Turn
	// Changes: the request leaves something on the platform, such as a task or a terminal session's token. A watch does
	// not send it.
	Changes bool
	// Once reports whether a request has an effect, so that it must not be repeated. Requests other than GET, polls and
	// sessions are never repeated.
	Once func(req diag.Request) bool
	// BothFamilies: if the target's name has IPv4 and IPv6 addresses, the family that the step did not use is dialled
	// as well.
	BothFamilies bool
	// Optional: a healthy node may lack what the step measures. Without an answer the step is skipped, and the hop is
	// judged without it.
	Optional bool
	// OnlyWarns: whatever it finds is a warning, so no blame has to wait for it.
	OnlyWarns bool
}

// Turn is when in a walk a step runs.
type Turn int

// The turns. A report leaves out a step that had no turn, since nothing was wrong.
const (
	Always     Turn = iota
	AfterFault      // only after a fault, which When looks for
	AtEnd           // the same, when all hops are done: nothing waits for it
)

// Overrule lets a step run although a hop that it needs failed, if only the answer of a health page failed there:
// such a page never decides about a service that works. The step's fact is kept only if it shows that the service
// works. Otherwise the walk is the same as if the step had not run.
type Overrule struct {
	Page  string // fact id of the health page
	Works func(f *diag.Fact) bool
}

// Hop returns the hop that requests the health page.
func (o *Overrule) Hop() diag.HopID { return OfFact(o.Page) }

// SharedStep returns a step that judges a fact of another hop, unless why gives a reason to wait.
func SharedStep(name string, hop diag.HopID, step string, why func(*Case) string) Step {
	id := FactID(hop, step)
	return Step{Name: name, From: Operator, Needs: Needs{Token: true, Facts: []string{id}}, When: WaitIf(why), Uses: id}
}

// Pure reports whether the step measures nothing, and judges the facts of others.
func (s *Step) Pure() bool { return s.Ask == nil && s.Uses == "" }

// Fact returns the id of the fact that the step judges.
func (s *Step) Fact(hop diag.HopID) string {
	if s.Uses != "" {
		return s.Uses
	}
	return FactID(hop, s.Name)
}

// of returns the needs that count with a profile.
func (n *Needs) of(p *profile.Profile) *Needs {
	if n.Instead == nil {
		return n
	}
	if other := n.Instead(p); other != nil {
		return other
	}
	return n
}
