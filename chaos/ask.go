package chaos

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Subject is the node, and its peer and allocation, that a drill runs on.
type Subject struct {
	Node       string // that is walked
	Peer       string // a second node, for drills that need two
	Allocation string
	Absent     []AbsentHop // of the environment
}

// Platform is the id of the platform's machine, in plans and in its consent.
const Platform = "platform"

// Machines returns the machines that a drill breaks or probes from, in the order of roles. The error says why they
// cannot be determined; no connection is made.
func (s *Scenario) Machines(p profile.Profile, on Subject) ([]Machine, error) {
	var all []Machine
	for _, role := range s.roles() {
		switch role {
		case RoleNode, RolePeer:
			m, err := s.member(p, map[Role]string{RoleNode: on.Node, RolePeer: on.Peer}[role], role)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		case RolePlatform:
			if p.PlatformSSH.Host == "" {
				return nil, fmt.Errorf("drill %s is about the platform's machine: the profile has no platform_ssh.host",
					s.Metadata.ID)
			}
			all = append(all, Machine{Role: role, ID: Platform, Host: p.PlatformSSH.Host})
		}
	}
	return all, nil
}

// CheckNode says why a drill cannot be about the node that on names, or nil. No connection is made.
func (s *Scenario) CheckNode(p profile.Profile, on Subject) error {
	_, err := s.member(p, on.Node, RoleNode)
	return err
}

// member returns a node of the profile, if the drill may use it: a node that is walked or broken must have every
// label in the drill's target.
func (s *Scenario) member(p profile.Profile, id string, role Role) (Machine, error) {
	n, ok := p.Nodes[id]
	if !ok || n.Host == "" {
		return Machine{}, fmt.Errorf("zero targets: the profile has no %s %q for drill %s (it has %s)", role, id,
			s.Metadata.ID, cmp.Or(strings.Join(strictyaml.NearestOf(id, sortedKeys(p.Nodes)), ", "), "no nodes"))
	}
	if role == RoleNode || s.breaks(role) {
		for _, want := range [...]map[string]string{s.Target.Labels, p.Chaos.Labels} {
			for _, key := range sortedKeys(want) {
				if n.Labels[key] != want[key] {
					return Machine{}, fmt.Errorf("zero targets: %s has not the label %s: %s that drill %s wants", id, key, want[key],
						s.Metadata.ID)
				}
			}
		}
	}
	return Machine{Role: role, ID: id, Host: n.Host, Labels: n.Labels}, nil
}

// breaks reports whether a fault targets the machine of that role.
func (s *Scenario) breaks(role Role) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return s.On(f) == role })
}

// roles returns the roles that the drill needs a machine for, each once. The node is always included: it is
// walked.
func (s *Scenario) roles() []Role {
	need := []Role{RoleNode}
	for _, f := range s.Faults {
		need = append(need, s.On(f))
	}
	for _, p := range s.probes() {
		need = append(need, p.From)
	}
	var all []Role
	for _, r := range [...]Role{RoleNode, RolePeer, RolePlatform} {
		if slices.Contains(need, r) {
			all = append(all, r)
		}
	}
	return all
}

func (s *Scenario) probes() []Probe {
	return []Probe{s.VerifyInjected.Probe, s.VerifyInjected.Control, s.Recovery.Proof}
}

// NeedsAllocation reports whether planning the drill requires an allocation.
func (s *Scenario) NeedsAllocation() bool {
	known := samples()
	for _, name := range [...]string{"allocation_id", "os_user", "app_unit", "app_port", "app_url", "app_host",
		"app_address"} {
		delete(known, name)
	}
	for _, f := range s.Faults {
		if k, ok := KindOf(f.Kind); ok &&
			len(f.Params.decode(k.params(), "", func(t string) (string, error) { return fill(t, known) })) > 0 {
			return true
		}
	}
	for _, p := range s.probes() {
		for _, text := range append([]string{p.View, p.Expect.Has, p.Expect.Lacks}, p.Probe...) {
			if _, err := fill(text, known); err != nil {
				return true
			}
		}
	}
	// The hop that must fail has to be walked. A hop that must stay green is not judged if it is not walked.
	return slices.ContainsFunc(append(s.Expect.Others, s.Expect.Blame.Finding), func(f Finding) bool {
		return len(f.Hop) > 0 && !slices.ContainsFunc(f.Hop, func(h diag.HopID) bool { return !h.NeedsAllocation() })
	})
}

// Ask returns the questions that m does not answer yet. It is called again with the answers, since some raise
// further questions (a user's shell), until none is left.
func (s *Scenario) Ask(p profile.Profile, on Subject, a *Allocation, m Machine) Questions {
	m.make()
	vars := values(p, on.Node, on.Peer, a)
	var q Questions
	for _, f := range s.Faults {
		if s.On(f) != m.Role {
			continue
		}
		k, _ := KindOf(f.Kind)
		params := k.params()
		if len(f.Params.decode(params, "", func(t string) (string, error) { return fill(t, vars) })) > 0 {
			continue // the plan gives the reason
		}
		q = q.and(k.ask(params, &Case{Run: "plan", Step: f.ID, Profile: p, Values: vars, Machine: &m}))
	}
	q.Tools = append(q.Tools, "systemctl", "timeout")
	for _, probe := range s.probes() {
		if probe.From == m.Role && len(probe.Probe) > 0 && !strings.HasPrefix(probe.Probe[0], "/") {
			q.Tools = append(q.Tools, probe.Probe[0])
		}
	}
	return q.unknown(m)
}

func (q Questions) and(o Questions) Questions {
	return Questions{
		slices.Concat(q.Tools, o.Tools), slices.Concat(q.Names, o.Names), slices.Concat(q.Units, o.Units),
		slices.Concat(q.Files, o.Files), slices.Concat(q.Texts, o.Texts), slices.Concat(q.Users, o.Users),
		slices.Concat(q.Mints, o.Mints),
	}
}

// unknown returns the questions that m does not answer, sorted and without duplicates. Mints are always included.
func (q Questions) unknown(m Machine) Questions {
	texts := fresh(q.Texts, m.Files)
	files := slices.DeleteFunc(fresh(q.Files, m.Files), func(f string) bool { return slices.Contains(texts, f) })
	return Questions{fresh(q.Tools, m.Tools), fresh(q.Names, m.Names), fresh(q.Units, m.Units), files, texts,
		fresh(q.Users, m.Users), q.Mints}
}

func fresh[V any](asked []string, known map[string]V) []string {
	var all []string
	for _, a := range asked {
		if _, ok := known[a]; !ok && a != "" {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// None reports whether no question has to be sent to a machine.
func (q Questions) None() bool {
	return len(q.Tools)+len(q.Names)+len(q.Units)+len(q.Files)+len(q.Texts)+len(q.Users) == 0
}

// resolve resolves a probe for its machine.
func (p Probe) resolve(name string, machines []Machine, tools map[string]string,
	vars map[string]string) (PlannedProbe, *step.Refusal) {
	l := PlannedProbe{From: p.From, Check: step.Check{Name: name, Within: step.MillisOf(p.Within.Std())}}
	l.Check.Exec.Exits = p.Expect.Exit
	where := "this machine"
	tool := tools[p.Probe[0]]
	if p.From != RoleOperator {
		i := slices.IndexFunc(machines, func(m Machine) bool { return m.Role == p.From })
		if i < 0 {
			return l, step.Refuse(step.RefusedUnsupported, "%s: there is no %s to look from", name, p.From)
		}
		l.Machine, where, tool = machines[i].ID, machines[i].ID, string(machines[i].Tools[p.Probe[0]])
	}
	if strings.HasPrefix(p.Probe[0], "/") {
		tool = p.Probe[0]
	}
	if tool == "" {
		return l, step.Refuse(step.RefusedTools, "%s: %s has no %s", name, where, p.Probe[0])
	}
	l.Check.Exec.Argv = []string{tool}
	for _, of := range append([]string{p.View, p.Expect.Has, p.Expect.Lacks}, p.Probe[1:]...) {
		text, err := fill(of, vars)
		if err != nil {
			return l, step.Refuse(step.RefusedUnsupported, "%s: %v", name, err)
		}
		l.Check.Exec.Argv = append(l.Check.Exec.Argv, text)
	}
	l.Check.Unit, l.Check.Has, l.Check.Lacks = unitOf(l.Check.Exec.Argv[1]), l.Check.Exec.Argv[2], l.Check.Exec.Argv[3]
	l.Check.Exec.Argv = append(l.Check.Exec.Argv[:1:1], l.Check.Exec.Argv[4:]...)
	if agent := unitOf(vars["agent_unit"]); p.From != RoleOperator && agent != "" && l.Check.Unit == "" &&
		journalOf(l.Check.Exec.Argv) == agent {
		l.Check.Unit = agent
		l.Check.Exec.Argv = append(l.Check.Exec.Argv, "_PID="+step.MainPID)
	}
	return l, nil
}

// journalOf returns the unit whose journal a command reads; "" for any other command, or if it names a process.
// The caller restricts such a command to the agent's main process: a tenant could write lines under the agent's
// control group or name.
func journalOf(argv []string) string {
	if path.Base(argv[0]) != "journalctl" {
		return ""
	}
	unit := ""
	for i, a := range argv {
		switch {
		case strings.HasPrefix(a, "_PID="):
			return ""
		case (a == "-u" || a == "--unit") && i+1 < len(argv):
			unit = argv[i+1]
		case strings.HasPrefix(a, "--unit="):
			unit = strings.TrimPrefix(a, "--unit=")
		case strings.HasPrefix(a, "-u"):
			unit = strings.TrimPrefix(a, "-u")
		}
	}
	return unitOf(unit)
}
