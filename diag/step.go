package diag

import (
	"slices"
	"strconv"
	"strings"
)

// Step is one step of a recovery. A step without any condition is always given.
type Step struct {
	Text     string     // a template for Fill
	Commands []string   // templates for Fill; where they are printed see Template
	Needs    []Reliance // what must work before it can be done; those of this tool's own commands are implied
	When     Reliance   // given only where this does not work
	Tries    Reliance   // it tries this again, so it may be broken
	About    []Aspect   // what it looks at or repairs: left out where the report rules all of these out
	On       Failure    // given only for this failure
	Side     Side       // given only where the fault is on this side; the operator's also where the side is not known
	Network  Network    // given only where the deciding fact is of this network
	Guess    bool       // one possible cause: left out where evidence of the walk itself names the cause
	Only     []string   // given only where the blame has one of these words: failure, reason, side, error code
	Except   []string   // left out where it has one of these
}

// Template is the step as one text for Fill, its commands between backticks: at {1}, {2} where the text has them, else
// behind it.
func (step *Step) Template() string {
	text := step.Text
	for i, c := range step.Commands {
		at, c := "{"+strconv.Itoa(i+1)+"}", "`"+c+"`"
		switch {
		case strings.Contains(text, at):
			text = strings.ReplaceAll(text, at, c)
		case i == 0:
			text += ": " + c
		default:
			text += ", " + c
		}
	}
	return text
}

// Reliance is something that a step relies on.
type Reliance string

// The closed list of needs.
const (
	RelyLogin Reliance = "login" // SSH to the node, as the profile states
	RelyAPI   Reliance = "api"   // an API that does what it is asked
	RelyTasks Reliance = "tasks" // an agent that takes tasks and answers them
)

// Aspect is something that may be at fault, and that facts can rule out.
type Aspect string

// The closed list of aspects. The first three are of the endpoint that the failing probe asked.
const (
	AboutName        Aspect = "name"         // the name look-up
	AboutPath        Aspect = "path"         // route, firewall, VPN, port
	AboutServerCert  Aspect = "server_cert"  // the server's certificate, and the bundle that it is judged by
	AboutAPIWay      Aspect = "api_way"      // the node's way to its API
	AboutTerminalWay Aspect = "terminal_way" // the node's way to the terminal listener
	AboutListener    Aspect = "listener"     // whether a request of the node arrives at the node ingress
	AboutIdentity    Aspect = "identity"     // the node's certificate
	AboutAgent       Aspect = "agent"        // whether the agent sends what it should
	AboutBuild       Aspect = "build"        // whether the agent's build reports what is not so
	AboutAllocation  Aspect = "allocation"   // the allocation's state and its node
	AboutUser        Aspect = "user"         // the allocation's user and shell on the node
	AboutXID         Aspect = "xid"          // an error code of NVIDIA's driver
)

// Side reports where a fault is, where one signal can have it in several places. The zero value: not known.
type Side string

// The closed list of sides.
const (
	SideOperator Side = "operator"      // the operator's own way, login or rights
	SidePlatform Side = "control_plane" // the control plane, or the edge in front of it
	SideEdge     Side = "edge"          // in front of a listener of the platform, which itself works
	SideNodeWay  Side = "node_way"      // between the terminal gateway and the node
	SideAgent    Side = "agent"         // the node's agent
)

// Network is whose network namespace a fact is of: packet filter, routes and sockets are a namespace's own.
type Network string

// The closed list of networks.
const (
	NetworkOperator Network = "operator"      // of the machine that this tool runs on
	NetworkNode     Network = "node"          // of the node's machine
	NetworkAgent    Network = "agent_network" // of the node's agent, where it has one of its own
)

// Situation is what a report knows when the steps for its blame are chosen.
type Situation struct {
	Side     Side
	Network  Network    // of the fact that decided
	Failure  Failure    // of the blame
	Code     string     // of the blame: the error code of the answer; "" where there is none
	Broken   []Reliance // does not work according to the report
	RuledOut []Aspect   // what its facts exclude as the cause
	Cause    string     // the cause, as evidence of this very walk names it; "": none does
	Reason   ReasonCode // the operator reason: it may forbid steps
}

// OwnersOn are who is called for a fault on side.
func (r *SignalRow) OwnersOn(side Side) Owners {
	for _, o := range r.BySide {
		if o.Side == side {
			return o.Owners
		}
	}
	return r.Owners
}

// Steps are the row's steps that make sense in a situation, in order. None of them needs what is broken, looks for what
// is ruled out, or re-enrolls a node whose reason forbids it. At least one has a command of this tool.
func (r *SignalRow) Steps(s Situation) []*Step {
	out := make([]*Step, 0, len(r.Recovery)+3) // a cause's step, the bundle, the report
	add := func(step *Step) {
		if !slices.ContainsFunc(out, step.same) {
			out = append(out, step)
		}
	}
	reason, _ := LookupReason(s.Reason)
	if step, ok := r.causeStep(s.Cause); ok {
		if step.lacks(s.Broken) != "" {
			step.Commands = nil
		}
		add(&step)
	}
	for i := range r.Recovery {
		step := &r.Recovery[i]
		n := step.lacks(s.Broken)
		switch {
		case !step.fits(&s), reason.NeverReenroll && step.runs("gpuaasctl node reenroll"):
		case n == RelyLogin:
			add(&stepConsole)
		case n == RelyAPI:
			add(&stepAPIFirst)
		case n == "":
			add(step)
		}
	}
	if reason.Severity == P0 || reason.Severity == P1 {
		add(&stepBundle)
	}
	if !slices.ContainsFunc(out, func(step *Step) bool { return step.runs(toolWords[:]...) }) {
		add(&stepReadReport)
	}
	return out
}

// same reports whether two steps have the same text and commands.
func (step *Step) same(as *Step) bool {
	return step.Text == as.Text && slices.Equal(step.Commands, as.Commands)
}

// toolWords are what commands of this tool begin with in a template.
var toolWords = [...]string{"gpuaasctl ", "{exec}", "{preflight}"}

// runs reports whether one of the step's commands begins with one of the words.
func (step *Step) runs(words ...string) bool {
	return slices.ContainsFunc(step.Commands, func(c string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(c, w) })
	})
}

// fits reports whether the step is about something that the situation leaves open.
func (step *Step) fits(s *Situation) bool {
	ruledOut := len(step.About) > 0
	for _, a := range step.About {
		ruledOut = ruledOut && slices.Contains(s.RuledOut, a)
	}
	return !ruledOut && step.onSide(s.Side) && (step.On == "" || step.On == s.Failure) &&
		(step.Network == "" || step.Network == s.Network) &&
		(step.When == "" || slices.Contains(s.Broken, step.When)) &&
		(len(step.Only) == 0 || s.has(step.Only)) && !s.has(step.Except) &&
		!(step.Guess && s.Cause != "")
}

// has reports whether one of the words is the blame's.
func (s *Situation) has(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return w == string(s.Failure) || w == string(s.Reason) || w == string(s.Side) || w == s.Code
	})
}

// onSide: where the side is not known, the operator looks at what is the operator's first.
func (step *Step) onSide(side Side) bool {
	return step.Side == "" || step.Side == side || (side == "" && step.Side == SideOperator)
}

// lacks is the first of broken that the step needs, "" where it can be done.
func (step *Step) lacks(broken []Reliance) Reliance {
	for _, n := range broken {
		if n != step.Tries && (slices.Contains(step.Needs, n) || step.runs(neededBy(n)...)) {
			return n
		}
	}
	return ""
}

// neededBy lists how commands begin that cannot do without n.
func neededBy(n Reliance) []string {
	switch n {
	case RelyLogin:
		return []string{"{exec}", "{ssh}", "gpuaasctl diag show", "gpuaasctl diag trust", "gpuaasctl node endpoints",
			"gpuaasctl node reenroll"}
	case RelyAPI:
		return []string{"gpuaasctl node reenroll", "gpuaasctl node status"}
	}
	return nil
}

// causeStep is the step for a cause that evidence names; none where the row's own steps are as good.
func (r *SignalRow) causeStep(cause string) (Step, bool) {
	if cause == "" {
		return Step{}, false
	}
	cause = strings.ToLower(cause)
	for _, c := range causeSteps {
		if strings.Contains(cause, c.says) {
			return c.step, true
		}
	}
	return stepCause, slices.ContainsFunc(r.Recovery, func(step Step) bool { return step.Guess })
}

// causeStep is the step that cures a cause, which evidence names in these words.
type causeStep struct {
	says string
	step Step
}

// NextStep is a step of a recovery for programs: what a document's prose has as one sentence, with its commands apart.
type NextStep struct {
	Text    string `json:"text"`              // what to do; a command that is part of the sentence is between backticks
	Command string `json:"command,omitempty"` // to paste, absent where the step is done by hand
	// FurtherCommands are those after the first, in order.
	FurtherCommands []string `json:"further_commands,omitempty"`
}

// Filled is the step with the values of vars.
func (step *Step) Filled(vars Values) NextStep {
	var next NextStep
	text := step.Text
	for i, c := range step.Commands {
		if at := "{" + strconv.Itoa(i+1) + "}"; strings.Contains(text, at) {
			text = strings.ReplaceAll(text, at, "`"+c+"`")
		}
		c = fillCommand(c, vars)
		if i == 0 {
			next.Command = c
		} else {
			next.FurtherCommands = append(next.FurtherCommands, c)
		}
	}
	next.Text = Fill(text, vars)
	return next
}

// Prose is the step as one sentence, followed by the commands that are not in it.
func (n *NextStep) Prose() string {
	text := n.Text
	for i, c := range n.Commands() {
		switch c = "`" + c + "`"; {
		case strings.Contains(n.Text, c):
		case i == 0:
			text += ": " + c
		default:
			text += ", " + c
		}
	}
	return text
}

// Commands are all commands of the step, in order.
func (n *NextStep) Commands() []string {
	if n.Command == "" {
		return nil
	}
	return append([]string{n.Command}, n.FurtherCommands...)
}

// Advise gives v one more step, as data and as prose.
func (v *Verdict) Advise(step *Step, vars Values) {
	next := step.Filled(vars)
	v.Steps, v.Recovery = append(v.Steps, next), append(v.Recovery, next.Prose())
}
