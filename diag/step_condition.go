package diag

import (
	"slices"
	"strings"
)

// Condition is the part of a step's line, on a page without a report, that names the blames to which the step applies:
// "for disk_inodes: ". It is "" if the step always applies.
func (step *Step) Condition() string {
	only, except := slices.Clone(step.Only), step.Except
	for _, w := range [...]string{string(step.On), string(step.Side)} {
		if w != "" {
			only = append(only, w)
		}
	}
	var all []string
	add := func(lead, and string, words ...string) {
		if words = slices.DeleteFunc(words, func(w string) bool { return w == "" }); len(words) > 0 {
			all = append(all, lead+strings.Join(words, and))
		}
	}
	add("for ", " or ", codesOf(only)...)
	add("except for ", " and ", codesOf(except)...)
	add("if ", " or ", sidesOf(only)...)
	add("unless ", " or ", sidesOf(except)...)
	add("if it was measured ", "", networkWords[step.Network])
	for _, n := range step.Needs {
		add("if ", "", relianceWords[n].works)
	}
	add("if ", "", relianceWords[step.When].broken)
	if step.Guess {
		add("if ", "", "no error was recorded")
	}
	if step.runs(reenrolls) {
		add("unless ", "", "the reason forbids a re-enrollment")
	}
	if len(step.About) > 0 {
		aspects := make([]string, len(step.About))
		for i, a := range step.About {
			aspects[i] = aspectWords[a]
		}
		add("unless the facts rule out ", " and ", aspects...)
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ", ") + ": "
}

// codesOf returns the words that are no side of a fault.
func codesOf(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return sideWords[Side(w)] != "" })
}

// sidesOf returns the sides of a fault among words, as texts.
func sidesOf(words []string) (texts []string) {
	for _, w := range words {
		if text := sideWords[Side(w)]; text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

var sideWords = map[Side]string{
	SidePlatform: "the control plane answers with errors or not at all",
	SideOperator: "there is no sign of a control plane fault",
	SideEdge:     "an edge in front of the listener is at fault",
	SideNodeWay:  "the path between platform and node is at fault",
	SideAgent:    "the fault is the agent's own",
	SideNode:     "the node's machine is at fault",
	SideWorkload: "the workload's own settings are at fault",
	SideNetwork:  "an answer is lost on the way back",
}

// Words is the side as a clause: "the fault is the agent's own"; "" for an unknown side.
func (s Side) Words() string { return sideWords[s] }

var networkWords = map[Network]string{
	NetworkOperator: "on the operator's machine",
	NetworkNode:     "in the node's own network",
	NetworkAgent:    "in a network namespace of the agent",
}

var relianceWords = map[Reliance]struct{ works, broken string }{
	RelyLogin: {"SSH to the node works", "SSH to the node does not work"},
	RelyAPI:   {"the API works", "the API does not work"},
	RelyTasks: {"the agent takes tasks", "the agent takes no tasks"},
}

var aspectWords = map[Aspect]string{
	AboutName:        "the name look-up",
	AboutPath:        "the network path",
	AboutServerCert:  "the server's certificate",
	AboutAPIWay:      "the node's path to its API",
	AboutTerminalWay: "the node's path to the terminal listener",
	AboutListener:    "a wrong listener",
	AboutIdentity:    "the node's certificate",
	AboutAgent:       "the agent",
	AboutBuild:       "the agent's build",
	AboutAllocation:  "the allocation",
	AboutUser:        "the allocation's user",
	AboutXID:         "an XID",
	AboutBundle:      "the node's CA bundle",
	AboutClientCA:    "the listener's client CA",
}

// ForFailure returns the step as it applies to a blame with failure f, without the conditions that f decides. It
// returns false if the step is not for f, or is about what a probe that failed so has excluded.
func (step Step) ForFailure(f Failure) (Step, bool) {
	is := func(w string) bool { return slices.Contains(Failures[:], Failure(w)) }
	open := slices.DeleteFunc(slices.Clone(step.Only), is)
	excluded := func(a Aspect) bool { return slices.Contains(f.excludes(), a) }
	about := slices.DeleteFunc(slices.Clone(step.About), excluded)
	switch {
	case step.On != "" && step.On != f, slices.Contains(step.Except, string(f)):
		return step, false
	case slices.Contains(step.Only, string(f)):
		open = nil
	case len(step.Only) > 0 && len(open) == 0:
		return step, false
	}
	if len(step.About) > 0 && len(about) == 0 {
		return step, false
	}
	step.On, step.Only, step.About = "", open, about
	step.Except = slices.DeleteFunc(slices.Clone(step.Except), is)
	return step, true
}

// excludes lists what is not at fault if a probe fails with f: the phases before the one in which it failed and, for a
// certificate, the side that has shown none or has not judged it.
func (f Failure) excludes() []Aspect {
	phase, _, _ := strings.Cut(string(f), "_")
	switch phase {
	case "tcp":
		return []Aspect{AboutName}
	case "ssh":
		return []Aspect{AboutName, AboutPath}
	case "tls":
		out := []Aspect{AboutName, AboutPath, AboutIdentity, AboutClientCA}
		if f != TLSUnknownCA {
			out = append(out, AboutBundle)
		}
		return out
	case "mtls":
		return []Aspect{AboutName, AboutPath, AboutServerCert, AboutBundle}
	case "http", "ws":
		return []Aspect{AboutName, AboutPath, AboutServerCert, AboutBundle}
	}
	return nil
}
