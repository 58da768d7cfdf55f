package diag

import (
	"slices"
	"strings"
)

// Step is one step of a recovery. A step without any condition is always given.
type Step struct {
	Text  string     // a template for Fill; commands stand in backticks
	Needs []Reliance // what must work for it to be done; a command behind {ssh} needs a login without saying so
	When  Reliance   // given only where this does not work
	Tries Reliance   // it tries this again, so it may be broken
	About []Aspect   // what it looks at or repairs: left out where the report rules all of these out
	On    Failure    // given only for this failure
	Side  Side       // given only where the fault is on this side; the operator's also where nobody knows
	Guess bool       // one possible cause: left out where evidence of the walk itself names the cause
}

// Reliance is something that a step relies on.
type Reliance string

// The closed list of needs.
const (
	RelyLogin Reliance = "login" // SSH to the node, as the profile says
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
)

// Side says where a fault is, where one signal can have it in several places. The zero value: not known.
type Side string

// The closed list of sides.
const (
	SideOperator Side = "operator"      // the operator's own way, login or rights
	SidePlatform Side = "control_plane" // the control plane, or the edge in front of it
)

// Situation is what a report knows when the steps for its blame are chosen.
type Situation struct {
	Side     Side
	Failure  Failure    // of the blame
	Broken   []Reliance // what the report says does not work
	RuledOut []Aspect   // what its facts exclude as the cause
	Cause    string     // the cause, as evidence of this very walk names it; "": none does
}

// OwnerOn is who is called for a fault on side.
func (r *SignalRow) OwnerOn(side Side) string {
	if owner := r.Owners[side]; owner != "" {
		return owner
	}
	return r.Owner
}

// Steps are the templates of the row's steps that make sense in a situation, in order. None of them needs what is
// broken, and none looks for what is ruled out. There is always one.
func (r *SignalRow) Steps(s Situation) []string {
	var out []string
	if step := r.causeStep(s.Cause); step != "" {
		out = append(out, step)
	}
	for i := range r.Recovery {
		step := &r.Recovery[i]
		if !step.fits(&s) {
			continue
		}
		text := step.Text
		if n := step.lacks(s.Broken); n != "" {
			text = withoutNeed[n]
		}
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		out = append(out, stepReadReport)
	}
	return out
}

// fits reports whether the step is about something that the situation leaves open.
func (step *Step) fits(s *Situation) bool {
	ruledOut := len(step.About) > 0
	for _, a := range step.About {
		ruledOut = ruledOut && slices.Contains(s.RuledOut, a)
	}
	return !ruledOut && step.onSide(s.Side) && (step.On == "" || step.On == s.Failure) &&
		(step.When == "" || slices.Contains(s.Broken, step.When)) &&
		!(step.Guess && s.Cause != "")
}

// onSide: where the side is not known, the operator looks at what is the operator's first.
func (step *Step) onSide(side Side) bool {
	return step.Side == "" || step.Side == side || side == "" && step.Side == SideOperator
}

// lacks is the first of broken that the step needs, "" where it can be done.
func (step *Step) lacks(broken []Reliance) Reliance {
	for _, n := range broken {
		if n == step.Tries {
			continue
		}
		if slices.Contains(step.Needs, n) || n == RelyLogin && strings.Contains(step.Text, "{ssh}") {
			return n
		}
	}
	return ""
}

// withoutNeed is what to do in place of a step whose need is broken; "": nothing.
var withoutNeed = map[Reliance]string{
	RelyLogin: stepConsole,
	RelyAPI:   "restore the control plane's API first: the repair is ordered through it",
}

// causeSteps maps what programs say of a cause to the step that cures it.
var causeSteps = [...]struct{ says, step string }{
	{"too many open files", "raise the agent's limit of open files (LimitNOFILE of {unit}), or find what leaks them, then restart the agent"},
	{"no space left", "make room on the node's disk, then try again"},
	{"read-only file system", "make the node's file system writable again; look for the disk error that made it read-only"},
	{"cannot allocate memory", "free memory on the node, or raise the agent's limit (MemoryMax of {unit})"},
	{"resource temporarily unavailable", "raise the agent's limit of processes (TasksMax of {unit}, nproc of the user)"},
	{"permission denied", "repair the permission that the message names"},
	{"no such host", "repair the name look-up on the node for the name in the message"},
	{"connection refused", "find out why nothing listens at the address in the message"},
	{"i/o timeout", "repair the node's way to the address in the message"},
	{"certificate", "repair the certificate, or the trust in it, that the message names"},
}

// causeStep is the step for a cause that evidence names, "" where the row's own steps are as good.
func (r *SignalRow) causeStep(cause string) string {
	if cause == "" {
		return ""
	}
	for _, c := range causeSteps {
		if strings.Contains(strings.ToLower(cause), c.says) {
			return c.step
		}
	}
	if slices.ContainsFunc(r.Recovery, func(step Step) bool { return step.Guess }) {
		return "fix the cause that the blame above names"
	}
	return ""
}

// Steps that more than one row or table gives.
const (
	stepConsole    = "open the provider's console for {node_host}: is the machine up, does its network work, does its SSH server answer?"
	stepReadReport = "read the failing fact in the full report (-o wide) and follow the correlation id {correlation_id} through the platform's log"
)
