package chaos

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: one plan, made in the order in which it is printed.

// Refusals that do not come from a machine.
const (
	RefusedUnreachable = "unreachable" // no fact could be read from a machine
	RefusedNotAllowed  = "not_allowed" // the profile does not allow drills
	RefusedWindow      = "window"      // not at this time
	RefusedTooMany     = "too_many"    // more nodes than maxNodes
	RefusedEnvironment = "environment" // it lacks what the drill needs
)

// Make plans a run. It is pure: p has its defaults, facts are the answers to Ask, and run names the run on
// machines. A plan with a refusal must not be executed, but still contains everything that could be planned.
func Make(s Scenario, p profile.Profile, on Subject, facts Facts, run string) Plan {
	plan := build(&s, p, on, facts, run, func(m Mint) Material {
		if made, ok := facts.Material[m.Key()]; ok {
			return made
		}
		return m.placeholder()
	})
	plan.Hash = hash(build(&s, p, on, facts, anyRun, Mint.placeholder))
	return plan
}

// the hash covers the changes and the probes, but not the run's name, the time, the operator, or the run's
// material
func hash(p Plan) string {
	p.At, p.Refused = time.Time{}, nil
	p.Targets = slices.Clone(p.Targets)
	for i := range p.Targets {
		p.Targets[i].Drill.At, p.Targets[i].Drill.By, p.Targets[i].Drill.Peers = time.Time{}, "", nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// planner builds one plan.
type planner struct {
	Plan
	profile profile.Profile
	facts   Facts
	vars    map[string]string
	minted  func(Mint) Material
}

func build(s *Scenario, p profile.Profile, on Subject, facts Facts, run string, minted func(Mint) Material) Plan {
	b := &planner{profile: p, facts: facts, vars: values(p, on.Node, on.Peer, facts.Allocation), minted: minted}
	b.vars["run"] = run
	b.Plan = Plan{
		Head: diag.NewHead(PlanKind), Run: run, Scenario: *s, Profile: p.Name, Node: on.Node, Allocation: on.Allocation,
		At: facts.Now, Targets: []PlannedMachine{}, Schedule: []PlannedStep{},
		Budgets: Budgets{
			TTL: s.Guards.TTL, Lease: s.Guards.Lease, InjectWithin: s.VerifyInjected.Within,
			DetectWithin: s.Expect.DetectWithin, RecoverWithin: s.Recovery.Within,
		},
	}
	for _, gone := range on.Absent {
		if e := &s.Expect.MustStayGreen; e.WasGreen || slices.Contains(e.Hops, gone.Hop) {
			b.NotMeasured = append(b.NotMeasured, gone)
		}
	}
	b.Budgets.Lease = cmp.Or(b.Budgets.Lease, min(Duration(step.DefaultLease), s.Guards.TTL))
	b.environment()
	if lacks := s.Lacks(p, on); len(lacks) > 0 { // no machine was asked
		for _, why := range lacks {
			b.refuse("", "", step.Refuse(RefusedEnvironment, "%s", why))
		}
		return b.Plan
	}
	for _, m := range facts.Machines {
		b.machine(m)
	}
	b.looks()
	b.count()
	slices.SortStableFunc(b.Schedule, func(x, y PlannedStep) int { return int(x.At.Std() - y.At.Std()) })
	return b.Plan
}

func (b *planner) refuse(machine, fault string, r *step.Refusal) {
	if r != nil {
		b.Refused = append(b.Refused, Refusal{machine, fault, *r})
	}
}

// environment checks that the profile allows drills.
func (b *planner) environment() {
	if !b.profile.Chaos.Allow {
		b.refuse("", "", step.Refuse(RefusedNotAllowed, "profile %q does not allow drills (chaos.allow)", b.profile.Name))
	}
	if least := time.Duration(
		b.profile.PolicyValue(profile.PolicyChaosMinTTL)) * time.Second; b.Scenario.Guards.TTL.Std() < least {
		b.refuse("", "", step.Refuse(step.RefusedDrill, "the ttl %s is under %s of the profile (%s)", b.Scenario.Guards.TTL,
			Duration(least), profile.PolicyChaosMinTTL))
	}
	takes := b.Scenario.Guards.TTL.Std() + b.Scenario.Recovery.Within.Std()
	for _, rule := range [...]struct {
		who   string
		texts []string
	}{{"the profile", b.profile.Chaos.Windows}, {"the scenario", []string{b.Scenario.Guards.Window}}} {
		open, closed := false, []string{}
		for _, text := range rule.texts {
			if text == "" {
				open = true
				continue
			}
			w, err := profile.ParseWindow(text)
			open = open || (err == nil && w.Open(b.facts.Now, takes))
			closed = append(closed, text)
		}
		if !open && len(closed) > 0 {
			b.refuse("", "", step.Refuse(RefusedWindow,
				"by %s, drills begin %s, and are over by then: now it is %s, and this one takes up to %s", rule.who,
				strings.Join(closed, ", "), b.facts.Now.UTC().Format("Mon 15:04 MST"), Duration(takes)))
		}
	}
}

// machine plans the faults of one machine. A machine without a fault is only probed from.
func (b *planner) machine(m Machine) {
	var faults []Fault
	for _, f := range b.Scenario.Faults {
		if b.Scenario.On(f) == m.Role {
			faults = append(faults, f)
		}
	}
	if m.Error != "" {
		b.refuse(m.ID, "", step.Refuse(RefusedUnreachable, "%s", m.Error))
		return
	}
	if len(faults) == 0 {
		return
	}
	m.make()
	s := b.Scenario
	t := PlannedMachine{Role: m.Role, ID: m.ID, Host: m.Host, Drill: step.Drill{
		Schema: step.Schema, Run: b.Run, Scenario: s.Metadata.ID, Node: m.ID, By: cmp.Or(b.facts.Operator, "somebody"),
		At: b.facts.Now, TTL: step.MillisOf(s.Guards.TTL.Std()), Lease: step.MillisOf(b.Budgets.Lease.Std()),
		Disposable: s.Target.Disposable, Steps: []step.Step{},
	}}
	if m.SSH.IsValid() {
		t.Drill.Peers = []string{m.SSH.String()}
	}
	for _, a := range s.Recovery.AllowedChanges {
		t.Drill.Allowed = append(t.Drill.Allowed, step.Allow{Class: a.Class, Key: a.Key, Why: a.Why})
	}
	for _, f := range faults {
		made, scope := b.fault(m, f)
		if made.Tier == "" {
			continue
		}
		t.Drill.Steps, t.Tier = append(t.Drill.Steps, made), max(t.Tier, made.Tier)
		t.Drill.Scope.Files = merged(t.Drill.Scope.Files, scope.Files)
		t.Drill.Scope.Units = merged(t.Drill.Scope.Units, scope.Units)
		b.Schedule = append(b.Schedule, PlannedStep{At: f.At, Machine: m.ID, Step: f.ID})
	}
	b.admits(m, t.Drill)
	if len(t.Drill.Steps) > 0 {
		if err := t.Drill.Validate(); err != nil {
			b.refuse(m.ID, "", step.Refuse(step.RefusedDrill, "%v", err))
		}
		b.Targets = append(b.Targets, t)
	}
}

// fault plans one fault. It returns an empty step if the fault is refused.
func (b *planner) fault(m Machine, f Fault) (step.Step, step.Scope) {
	k, ok := KindOf(f.Kind)
	if !ok {
		b.refuse(m.ID, f.ID, step.Refuse(step.RefusedUnsupported, "unknown kind %s", f.Kind))
		return step.Step{}, step.Scope{}
	}
	params := k.params()
	if found := f.Params.decode(params, "params", func(text string) (string, error) {
		return fill(text, b.vars)
	}); len(found) > 0 {
		b.refuse(m.ID, f.ID, step.Refuse(step.RefusedUnsupported, "%s", found[0]))
		return step.Step{}, step.Scope{}
	}
	minted := func(n Mint) Material {
		made := b.minted(n)
		if !slices.ContainsFunc(b.Material, func(o Material) bool { return o.Mint == n }) {
			b.Material = append(b.Material, made)
		}
		return made
	}
	c := &Case{Run: b.Run, Step: f.ID, Profile: b.profile, Values: b.vars, Machine: &m, minted: minted}
	made, no := Made{}, withheld(&m, k.ask(params, c))
	if no == nil {
		made, no = k.make(params, c)
	}
	if no != nil {
		b.refuse(m.ID, f.ID, no)
		return step.Step{}, step.Scope{}
	}
	out := step.Step{ID: f.ID, Fault: f.Kind, Title: made.Title, Changes: made.Changes, Verify: made.Verify}
	for _, change := range made.Changes {
		out.Tier = max(out.Tier, change.Tier())
	}
	b.spares(m, f, made.Changes)
	if why := out.Risk(); why != "" && !b.Scenario.Target.Disposable {
		b.refuse(m.ID, f.ID, step.Refuse(step.RefusedDisposable, "%s, and the scenario does not say disposable: true", why))
	}
	return out, made.Scope
}

// withheld refuses facts of a redacted plan that lack a text which the fault needs.
func withheld(m *Machine, q Questions) *step.Refusal {
	for _, path := range q.Texts {
		if m.Files[path].Text == step.Redacted {
			return step.Refuse(step.RefusedUnsupported,
				"%s of %s is not in these facts, since not everybody may read it: plan without them, and the machine is asked",
				path, m.ID)
		}
	}
	return nil
}

// spares refuses a block that would cut off the operator.
func (b *planner) spares(m Machine, f Fault, changes []step.Change) {
	for _, c := range changes {
		if c.Block == nil || !m.SSH.IsValid() {
			continue
		}
		if why, cuts := c.Block.Covers(netip.AddrPortFrom(m.SSH.Addr().Unmap(), m.SSH.Port())); cuts {
			b.refuse(m.ID, f.ID, step.Refuse(step.RefusedOperator, "it would cut the operator's own SSH: %s", why))
		}
	}
}

// admits applies the checks that the machine itself makes.
func (b *planner) admits(m Machine, d step.Drill) {
	switch c := m.Consent; {
	case !c.Present:
		b.refuse(m.ID, "", step.Refuse(step.RefusedConsent, "its owner has not agreed to drills: there is no consent file"))
	case c.Problem != "":
		b.refuse(m.ID, "", step.Refuse(step.RefusedConsent, "the consent does not count: %s", c.Problem))
	default:
		b.refuse(m.ID, "", node.Consent{Node: c.Node, Until: c.Until, Disposable: c.Disposable}.Permits(d, m.Now))
	}
	if m.Locked != "" {
		b.refuse(m.ID, "", step.Refuse(step.RefusedLocked, "drill %s is on it", m.Locked))
	}
	if !m.Root {
		b.refuse(m.ID, "", step.Refuse(step.RefusedUnsupported, "the login is not root and may not become root by sudo"))
	}
}

// looks resolves the scenario's own probes.
func (b *planner) looks() {
	for _, l := range [...]struct {
		name string
		p    Probe
		into *PlannedProbe
	}{
		{"injected", b.Scenario.VerifyInjected.Probe, &b.Injected},
		{"control", b.Scenario.VerifyInjected.Control, &b.Control}, {"recovered", b.Scenario.Recovery.Proof, &b.Proof},
	} {
		made, no := l.p.resolve(l.name, b.facts.Machines, b.facts.Tools, b.vars)
		*l.into = made
		b.refuse(made.Machine, "", no)
	}
	b.Control.Check.Control = true
	if d := b.Scenario.Recovery.Decision; d != nil {
		path, err := fillPath(d.Path, b.vars)
		if err != nil {
			b.refuse("", "", step.Refuse(step.RefusedUnsupported, "decision: %v", err))
		}
		b.Decision = &Decision{Path: path, Reason: d.Reason}
	}
}

// count refuses a plan that breaks no machine, or more nodes than allowed.
func (b *planner) count() {
	nodes := 0
	for _, t := range b.Targets {
		if t.Role != RolePlatform {
			nodes++
		}
	}
	if most := b.Scenario.Target.MaxNodes; nodes > most {
		b.refuse("", "", step.Refuse(RefusedTooMany, "%d nodes would be broken, and maxNodes is %d", nodes, most))
	}
	if len(b.Targets) == 0 && len(b.Refused) == 0 {
		b.refuse("", "", step.Refuse(step.RefusedDrill, "zero targets: nothing would be broken"))
	}
}

func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Key is the key of a Mint's material.
func (m Mint) Key() string {
	return fmt.Sprintf("%s|%s|%s|%s|%s", m.What, m.Node, m.From, m.Until, m.By)
}
