package diag

import (
	"slices"
	"strings"
)

// Step is one step of a recovery. A step without conditions always applies.
type Step struct {
	Text     string     // a template, see fillText; {1} is the place of the first command, which else follows the text
	Commands []string   // templates for FillCommand
	Needs    []Reliance // what must work for the step to be possible; needs of this tool's own commands are implied
	When     Reliance   // applies only if this does not work
	Tries    Reliance   // the step retries this, so it may be broken
	About    []Aspect   // what the step checks or repairs: omitted if the report rules all of these out
	On       Failure    // given only for this failure
	Side     Side       // applies only to a fault on this side; the operator's side also if the side is unknown
	Network  Network    // applies only if the deciding fact was measured in this network
	Guess    bool       // one possible cause: omitted if evidence of the walk names the cause
	Only     []string   // applies only if the blame has one of these: failure, reason, side, error code, Detail
	Except   []string   // omitted if the blame has one of these
}

// Reliance is something that a step relies on.
type Reliance string

// The closed list of needs.
const (
	RelyLogin Reliance = "login" // SSH to the node, as in the profile
	RelyAPI   Reliance = "api"   // an API that executes requests
	RelyTasks Reliance = "tasks" // an agent that accepts tasks and reports their results
)

// Aspect is a possible fault that facts can rule out.
type Aspect string

// The closed list of aspects. The first three are about the endpoint of the failing probe.
const (
	AboutName        Aspect = "name"         // the name look-up
	AboutPath        Aspect = "path"         // route, firewall, VPN, port
	AboutServerCert  Aspect = "server_cert"  // the server's certificate, and the bundle that verifies it
	AboutAPIWay      Aspect = "api_way"      // the network path from the node to its API
	AboutTerminalWay Aspect = "terminal_way" // the network path from the node to the terminal listener
	AboutListener    Aspect = "listener"     // whether a node's request arrives at the node ingress
	AboutIdentity    Aspect = "identity"     // the node's certificate
	AboutAgent       Aspect = "agent"        // whether the agent sends what it should
	AboutBuild       Aspect = "build"        // whether the agent's build reports false results
	AboutAllocation  Aspect = "allocation"   // the allocation's state and its node
	AboutUser        Aspect = "user"         // the allocation's user and shell on the node
	AboutXID         Aspect = "xid"          // an error code of NVIDIA's driver
	AboutBundle      Aspect = "bundle"       // the CA bundle with which the node verifies servers
	AboutClientCA    Aspect = "client_ca"    // the CA with which a listener verifies nodes
)

// Side is where a fault is, for a signal that can have it in several places. The zero value: unknown.
type Side string

// The closed list of sides.
const (
	SideOperator Side = "operator"      // the operator's own network, login or permissions
	SidePlatform Side = "control_plane" // the control plane, or the edge in front of it
	SideEdge     Side = "edge"          // in front of a listener of the platform that works itself
	SideNodeWay  Side = "node_way"      // between the platform (its terminal gateway, its app proxy) and the node
	SideAgent    Side = "agent"         // the node's agent
	SideNode     Side = "node"          // the node's machine, beside its agent: its resolver, another program
	SideWorkload Side = "workload"      // the workload's own settings
	SideNetwork  Side = "network"       // between the vantage and a server that answers it
)

// Network is the network namespace in which a fact was measured: packet filters, routes and sockets are per namespace.
type Network string

// The closed list of networks.
const (
	NetworkOperator Network = "operator"      // the namespace of the machine that runs this tool
	NetworkNode     Network = "node"          // the namespace of the node's machine
	NetworkAgent    Network = "agent_network" // the namespace of the node's agent, if it has its own
)

// Situation is what a report knows when it selects the steps for its blame.
type Situation struct {
	Side     Side
	Network  Network    // network namespace of the deciding fact
	Failure  Failure    // failure of the blame
	Code     string     // error code of the blame's answer; "" if it has none
	Details  []Detail   // what else the deciding fact shows
	Broken   []Reliance // what does not work according to the report
	RuledOut []Aspect   // possible causes that its facts rule out
	Cause    string     // the cause as evidence of this walk names it; "": none
	Reason   ReasonCode // the operator reason, which may forbid steps
}

// OwnersOn returns the owners for a fault on side.
func (r *SignalRow) OwnersOn(side Side) Owners {
	for _, o := range r.BySide {
		if o.Side == side {
			return o.Owners
		}
	}
	return r.Owners
}

// Steps returns the row's steps that apply in a situation, in order. It omits steps that need what is broken, that
// check what is ruled out, or that re-enroll a node whose reason forbids that. At least one has a command of this tool.
func (r *SignalRow) Steps(s Situation) []*Step {
	out := make([]*Step, 0, len(r.Recovery)+3) // room for a cause's step, the bundle, and the report
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
		case !step.fits(&s), reason.NeverReenroll && step.runs(reenrolls):
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

// toolWords are the prefixes of this tool's commands in a template.
var toolWords = [...]string{"gpuaasctl ", "{exec}", "{preflight}"}

// reenrolls begins the command that re-enrolls a node.
const reenrolls = "gpuaasctl node reenroll"

// runs reports whether one of the step's commands begins with one of the prefixes.
func (step *Step) runs(words ...string) bool {
	return slices.ContainsFunc(step.Commands, func(c string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(c, w) })
	})
}

// fits reports whether the step applies in the situation.
func (step *Step) fits(s *Situation) bool {
	ruledOut := len(step.About) > 0
	for _, a := range step.About {
		ruledOut = ruledOut && (slices.Contains(s.RuledOut, a) || slices.Contains(s.Failure.excludes(), a))
	}
	return !ruledOut && step.onSide(s.Side) && (step.On == "" || step.On == s.Failure) &&
		(step.Network == "" || step.Network == s.Network) &&
		(step.When == "" || slices.Contains(s.Broken, step.When)) &&
		(len(step.Only) == 0 || s.has(step.Only)) && !s.has(step.Except) &&
		!(step.Guess && s.Cause != "")
}

// has reports whether one of the words is the blame's failure, reason, side or code, or what its fact shows.
func (s *Situation) has(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return w == string(s.Failure) || w == string(s.Reason) || w == string(s.Side) || w == s.Code ||
			slices.Contains(s.Details, Detail(w))
	})
}

// onSide reports whether the step applies to a fault on side. If the side is unknown, steps for the operator's side
// apply: the operator checks those first.
func (step *Step) onSide(side Side) bool {
	return step.Side == "" || step.Side == side || (side == "" && step.Side == SideOperator)
}

// lacks returns the first of broken that the step needs, "" if the step is possible.
func (step *Step) lacks(broken []Reliance) Reliance {
	for _, n := range broken {
		if n != step.Tries && (slices.Contains(step.Needs, n) || step.runs(neededBy[n]...)) {
			return n
		}
	}
	return ""
}

// neededBy has the prefixes of commands that need something.
var neededBy = map[Reliance][]string{
	RelyLogin: {"{exec}", "{ssh}", "gpuaasctl diag show", "gpuaasctl diag trust", "gpuaasctl node endpoints",
		reenrolls},
	RelyAPI: {reenrolls, "gpuaasctl node status"},
}

// causeStep returns the step for a cause that evidence names; none if the row's own steps are specific enough.
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

// causeStep is a step for a cause, recognized by a text in the evidence.
type causeStep struct {
	says string
	step Step
}

// NextStep is a recovery step for programs: one sentence, and its commands as separate fields.
type NextStep struct {
	Text    string `json:"text"`              // what to do; a command within the sentence is between backticks
	Command string `json:"command,omitempty"` // to paste; absent if the step is manual, or a value of it is not known
	// FurtherCommands are the commands after the first, in order.
	FurtherCommands []string `json:"further_commands,omitempty"`
}

// Filled returns the step with the values of vars. A step has all its commands or, if one of them lacks a value, none.
// It returns false if even the text cannot be shown.
func (step *Step) Filled(vars Values) (NextStep, bool) {
	commands := make([]string, 0, len(step.Commands))
	for _, c := range step.Commands {
		filled, ok := FillCommand(c, vars)
		if !ok {
			commands = nil
			break
		}
		commands = append(commands, filled)
	}
	text, ok := fillText(step.Text, vars, commands)
	next := NextStep{Text: text}
	if len(commands) > 0 {
		next.Command = commands[0]
		if len(commands) > 1 {
			next.FurtherCommands = commands[1:]
		}
	}
	return next, ok
}

// Prose returns the step as one sentence, followed by the commands that are not part of it.
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

// Advise appends a step to v, as data and as prose. A step whose text lacks a value is left out.
func (v *Verdict) Advise(step *Step, vars Values) {
	if next, ok := step.Filled(vars); ok {
		v.Steps, v.Recovery = append(v.Steps, next), append(v.Recovery, next.Prose())
	}
}
