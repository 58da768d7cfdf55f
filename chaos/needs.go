package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Need is something of the environment without which a drill cannot run. A node with an SSH server, systemd and its
// owner's consent is what every drill needs, and so it is no word here.
type Need string

// The needs.
const (
	NeedAgent        Need = "agent"         // on the node
	NeedAllocation   Need = "allocation"    // of the node to a tenant
	NeedAPI          Need = "api"           // the platform's, as operators reach it
	NeedNodeAPI      Need = "node-api"      // an API that nodes reach
	NeedTerminal     Need = "terminal"      // the gateway, as browsers reach it
	NeedNodeTerminal Need = "node-terminal" // the gateway, as nodes reach it
	NeedPlatform     Need = "platform"      // the platform's machine, by SSH
	NeedPeer         Need = "peer"          // a second node
	NeedLogin        Need = "login"         // by a key and known hosts that the profile names
	NeedLab          Need = "lab"           // the lab's own machines
)

// needRow is one need: what it is for people, and why a profile lacks it, "" if it does not.
type needRow struct {
	need  Need
	about string
	lacks func(p *profile.Profile) string
}

func needRows() []needRow {
	without := func(is bool, why string) string {
		if is {
			return why
		}
		return ""
	}
	return []needRow{
		{NeedAgent, "an agent on the node", func(p *profile.Profile) string {
			return without(p.Agent.Absent(), "the profile declares no agent (agent.present: false)")
		}},
		{NeedAllocation, "an allocation", func(p *profile.Profile) string {
			return without(p.Allocation.Absent(), "the profile declares no allocation (allocation.present: false)")
		}},
		{NeedAPI, "the platform's API", func(p *profile.Profile) string {
			return without(p.APIBase == "", "the profile has no api_base")
		}},
		{NeedNodeAPI, "an API that nodes reach", func(p *profile.Profile) string {
			return without(p.NodeRuntimeAPIURL == "", "the profile has no node_runtime_api_url")
		}},
		{NeedTerminal, "a terminal gateway", func(p *profile.Profile) string {
			return without(p.TerminalBase == "", "the profile has no terminal_base")
		}},
		{NeedNodeTerminal, "a terminal gateway that nodes reach", func(p *profile.Profile) string {
			return without(p.NodeTerminalURL == "", "the profile has no node_terminal_url")
		}},
		{NeedPlatform, "the platform's machine", func(p *profile.Profile) string {
			return without(p.PlatformSSH.Host == "", "the profile has no platform_ssh.host")
		}},
		{NeedPeer, "a second node", func(p *profile.Profile) string {
			return without(len(p.Nodes) < 2, "the profile has no second node")
		}},
		{NeedLogin, "a login that another SSH client can repeat", func(p *profile.Profile) string {
			return without(p.SSH.User == "" || p.SSH.Identity == "" || p.SSH.KnownHosts == "",
				"the profile has not all of ssh.user, ssh.identity and ssh.known_hosts")
		}},
		{NeedLab, "the lab's own machines", func(p *profile.Profile) string {
			return without(!isLab(p), "no node of the profile has the label lab: it was written for the lab's machines")
		}},
	}
}

// isLab reports whether a profile is the lab's, whose compute nodes have that label.
func isLab(p *profile.Profile) bool {
	for _, n := range p.Nodes {
		if n.Labels["lab"] != "" {
			return true
		}
	}
	return false
}

// Needs lists every need in the order of reports.
func Needs() []Need {
	var all []Need
	for _, row := range needRows() {
		all = append(all, row.need)
	}
	return all
}

// About describes the need for people.
func (n Need) About() string {
	for _, row := range needRows() {
		if row.need == n {
			return row.about
		}
	}
	return ""
}

// Needs returns what the drill needs of the environment, by its faults, its variables, the machines of its probes and
// the hops that it expects to fail; ofHops says what a hop needs.
func (s *Scenario) Needs(ofHops map[diag.HopID][]Need) []Need {
	var all []Need
	if s.Lab {
		all = append(all, NeedLab)
	}
	for _, role := range s.roles() {
		all = append(all, map[Role][]Need{RolePlatform: {NeedPlatform}, RolePeer: {NeedPeer}}[role]...)
	}
	named := s.variables()
	for _, v := range Variables() {
		if v.need != "" && slices.Contains(named, v.Name) {
			all = append(all, v.need)
		}
	}
	for _, f := range s.Faults {
		all = append(all, f.needs()...)
	}
	for _, f := range s.expected() {
		all = append(all, common(f.Hop, ofHops)...)
	}
	order := Needs()
	slices.SortFunc(all, func(a, b Need) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return slices.Compact(all)
}

// common returns what all of the hops need: any of them may be the one that fails.
func common(hops []diag.HopID, ofHops map[diag.HopID][]Need) []Need {
	var all []Need
	for i, h := range hops {
		if i == 0 {
			all = slices.Clone(ofHops[h])
			continue
		}
		all = slices.DeleteFunc(all, func(n Need) bool { return !slices.Contains(ofHops[h], n) })
	}
	return all
}

// expected returns the findings that the walk must report.
func (s *Scenario) expected() []Finding {
	if s.Expect.Blame.None {
		return nil
	}
	return append([]Finding{s.Expect.Blame.Finding}, s.Expect.Others...)
}

// agents is implemented by parameters that concern the agent when they name nothing else.
type agents interface{ ofAgent() bool }

// needs returns what a fault needs by its kind and by what its parameters leave out.
func (f Fault) needs() []Need {
	k, _ := KindOf(f.Kind)
	params := k.params()
	filled := f.Params.decode(params, "", func(t string) (string, error) { return fill(t, samples()) })
	if a, is := params.(agents); is && len(filled) == 0 && a.ofAgent() {
		return append([]Need{NeedAgent}, k.needs...)
	}
	return k.needs
}

// variables returns the names of the variables that the drill uses.
func (s *Scenario) variables() []string {
	var names []string
	note := func(text string) (string, error) {
		for _, rest := range strings.Split(text, "${")[1:] {
			name, _, _ := strings.Cut(rest, "}")
			names = append(names, name)
		}
		return fill(text, samples())
	}
	for _, f := range s.Faults {
		if k, ok := KindOf(f.Kind); ok {
			_ = f.Params.decode(k.params(), "", note) // the file was checked
		}
	}
	for _, p := range s.probes() {
		for _, text := range append([]string{p.View, p.Expect.Has, p.Expect.Lacks}, p.Probe...) {
			_, _ = note(text)
		}
	}
	if d := s.Recovery.Decision; d != nil {
		_, _ = note(d.Path)
	}
	return names
}

// AbsentHop is a hop that a walk in this environment leaves out, whatever the operator gives.
type AbsentHop struct {
	Hop diag.HopID `json:"hop"`
	Why string     `json:"why"`
}

// absent returns why the environment lacks a hop.
func (on *Subject) absent(h diag.HopID) (string, bool) {
	i := slices.IndexFunc(on.Absent, func(a AbsentHop) bool { return a.Hop == h })
	if i < 0 {
		return "", false
	}
	return on.Absent[i].Why, true
}

// Lacks returns why the drill cannot run in the environment, in the order of the needs; nil if it can. Of the subject
// it reads the absent hops alone.
func (s *Scenario) Lacks(p profile.Profile, on Subject) []string {
	var all []string
	add := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	need := s.Needs(nil)
	for _, row := range needRows() {
		if why := row.lacks(&p); why != "" && slices.Contains(need, row.need) {
			add("it needs %s: %s", row.about, why)
		}
	}
	for _, f := range s.expected() {
		if why, gone := on.allAbsent(f.Hop); gone && len(all) == 0 {
			add("it is found by %s, which a walk here leaves out: %s", orList(f.Hop), why)
		}
	}
	if hops := s.Expect.MustStayGreen.Hops; len(hops) > 0 && len(all) == 0 {
		if why, gone := on.allAbsent(hops); gone {
			add("of %s, which must stay green, a walk here measures nothing, so there is no control: %s", step.Join(hops, ", "),
				why)
		}
	}
	return all
}

// allAbsent reports whether the environment has none of the hops, and why it lacks the first one.
func (on *Subject) allAbsent(hops []diag.HopID) (why string, gone bool) {
	for i, h := range hops {
		text, is := on.absent(h)
		if !is {
			return "", false
		}
		if i == 0 {
			why = text
		}
	}
	return why, len(hops) > 0
}

// Absent reports whether a walk by the plan leaves the hop out, whatever the operator gives.
func (p *Plan) Absent(h diag.HopID) bool {
	return slices.ContainsFunc(p.NotMeasured, func(a AbsentHop) bool { return a.Hop == h })
}

// Names reports whether the hop is one that the fault is expected to affect.
func (e *Expect) Names(h diag.HopID) bool {
	return slices.Contains(e.FirstFailedHop, h) ||
		slices.ContainsFunc(append(e.Others, e.Blame.Finding), func(f Finding) bool { return slices.Contains(f.Hop, h) })
}
