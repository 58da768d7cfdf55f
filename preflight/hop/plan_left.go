package hop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Why a hop is skipped on request, or a step for lack of a token or a session.
const (
	SkipSkip    = "in --skip"
	SkipNoToken = "no operator token given (--token-file)"

	skipNoSession = "--run-ws-smoke=false"
	SkipWatch     = "not asked: a watch changes nothing (--full asks it)"

	noAgent      = "the profile declares no agent (agent.present: false)"
	noAllocation = "the profile declares no allocation (allocation.present: false)"
)

// leftOut has, while a plan is made, the gates of the hops and steps that are left out, by hop id and by fact id.
type leftOut map[string]Gate

// planned returns the plan's row of h; the rows before it must be known.
func (out leftOut) planned(h *Hop, p *profile.Profile, s diag.Subject, o Options) diag.PlannedHop {
	row := diag.PlannedHop{ID: h.ID, Vantages: h.From(), BudgetMS: Budget(*p, h).Milliseconds(), Steps: []string{},
		Check: h.Check}
	whole := h.Planned(p, s, o)
	all, measuring := Gate{Verdict: Never}, 0 // all: of the steps together
	for i := range h.Steps {
		step := &h.Steps[i]
		row.Steps = append(row.Steps, step.Name)
		if step.Pure() || !whole.Open() {
			continue
		}
		measuring++
		left := out.step(step, p, o)
		if left.Open() {
			continue
		}
		if row.Left == nil {
			row.Left, all.Why, all.root = map[string]string{}, left.Why, left.root
		}
		row.Left[step.Name], out[FactID(h.ID, step.Name)] = left.Why, left
		all.Verdict = min(all.Verdict, left.Verdict)
	}
	row.Vantages = h.places(row)
	if measuring > 0 && len(row.Left) == measuring {
		whole = all
	}
	if whole.Open() {
		row.Absent = lacks(p.Mapping, nil, h.Fields)
		return row
	}
	row.Skip, out[string(h.ID)] = whole.Why, whole
	if whole.Verdict == Never {
		row.Absent = row.Skip
	}
	return row
}

// step says whether one step runs: not without its inputs, nor if this platform does not support it, nor if a step or
// hop that it needs is left out.
func (out leftOut) step(s *Step, p *profile.Profile, o Options) Gate {
	if g := s.Planned(p, o); !g.Open() {
		return g
	}
	needs := s.Needs.of(p)
	for _, need := range needs.Hops {
		if g, left := out[string(need)]; left && g.Verdict != Never {
			return Gate{Verdict: Skip, Why: fmt.Sprintf("needs %s, which is skipped (%s)", need, g.first()), root: g.first()}
		}
	}
	for _, fact := range needs.Facts {
		for _, id := range []string{fact, string(OfFact(fact))} {
			if g, left := out[id]; left {
				why := fmt.Sprintf("needs the answer of %s, which is skipped (%s)", fact, g.first())
				return Gate{Verdict: g.Verdict, Why: why, root: g.first()}
			}
		}
	}
	return Gate{}
}

// Planned says, before the walk, whether the operator gave what the step needs, else Skip, and whether the platform has
// it, else Never.
func (s *Step) Planned(p *profile.Profile, o Options) Gate {
	needs := s.Needs.of(p)
	if needs.Agent && p.Agent.Absent() {
		return gate(Never, noAgent)
	}
	own := ask(needs.Profile, p)
	if own.Verdict == Skip {
		return own
	}
	for _, given := range []struct {
		lacks bool
		why   string
	}{
		{s.From == Platform && p.PlatformSSH.Host == "", "the profile has no platform_ssh.host"},
		{s.From == Node && !o.SSH, "no node host given (--node-host, or nodes in the profile)"},
		{needs.Token && !o.Token, SkipNoToken},
		{s.From == Operator && p.APIBase == "" && !needs.NoAPI, "no API base given"},
		{o.Watch && (needs.Session || s.Policy.Changes), SkipWatch},
		{needs.Session && !o.Session, skipNoSession},
	} {
		if given.lacks {
			return gate(Skip, given.why)
		}
	}
	return strictest(own, gate(Never, lacks(p.Mapping, needs.Paths, needs.Fields)))
}

// Planned says, before the walk, whether the whole hop is left out, with all of its steps.
func (h *Hop) Planned(p *profile.Profile, s diag.Subject, o Options) Gate {
	absent := ""
	if h.Absent != nil {
		absent = h.Absent(p)
	}
	leaves := ""
	if h.Optional {
		leaves = p.LeavesOut(h.ID)
	}
	allocated := h.Allocation && (h.FreeOf == nil || !h.FreeOf(p))
	for _, out := range []struct {
		left    bool
		verdict Verdict
		why     string
	}{
		{len(o.Only) > 0 && !slices.Contains(o.Only, h.ID), Skip, SkipOnly},
		{slices.Contains(o.Skip, h.ID), Skip, SkipSkip},
		{leaves != "", Skip, leaves},
		{absent != "", Never, absent},
		{h.Agent && p.Agent.Absent(), Never, noAgent},
		{allocated && p.Allocation.Absent(), Never, noAllocation},
		{s.AllocationID == "" && allocated, Skip, "no --allocation-id given"},
		{o.Watch && h.session(), Skip, SkipWatch},
		{!o.Session && h.session(), Skip, skipNoSession},
	} {
		if out.left {
			return gate(out.verdict, out.why)
		}
	}
	return ask(h.Profile, p)
}

// lacks names the first of the paths and fields that a mapping does not have; for "a|b" one of the two is enough.
func lacks(m profile.Mapping, paths, fields []string) string {
	for _, path := range paths {
		if m.Path(path, nil) == "" {
			return fmt.Sprintf("this platform has no %s path (mapping.paths.%s: %q)", path, path, profile.Absent)
		}
	}
	for _, field := range fields {
		if !slices.ContainsFunc(strings.Split(field, "|"), func(name string) bool { return m.Field(name) != "" }) {
			name := strings.ReplaceAll(field, "|", " and no ")
			return fmt.Sprintf("this platform reports no %s (mapping.fields: %q)", name, profile.Absent)
		}
	}
	return ""
}

// NoTerminalBase returns what the profile lacks for a hop that uses the browser's terminal gateway.
func NoTerminalBase(p *profile.Profile) string {
	if p.TerminalBase == "" {
		return "no terminal base given"
	}
	return ""
}

// NoTerminal says why a platform has no terminal at all.
func NoTerminal(p *profile.Profile) string {
	if p.Terminal.Kind == diag.TerminalNone {
		return "the profile declares no terminal (terminal.kind: none)"
	}
	return ""
}

// NoTerminalSite says why a terminal has no site of its own, with a page, sessions, and streams of nodes.
func NoTerminalSite(p *profile.Profile) string {
	if p.Terminal.Kind == diag.TerminalExec {
		return fmt.Sprintf("no part of a terminal of this kind (terminal.kind: %s)", p.Terminal.Kind)
	}
	return NoTerminal(p)
}

// NoTokenMinted says why no token is minted for a terminal.
func NoTokenMinted(p *profile.Profile) string {
	if why := NoTerminalSite(p); why != "" {
		return why
	}
	if !p.Terminal.OfReference() && p.Mapping.Lacks(profile.PathTerminalToken) {
		return fmt.Sprintf("no token is minted for this terminal (terminal.token: %s)", p.Terminal.Token)
	}
	return ""
}

// OptedOut reports whether --only or --skip left the hop out, or one that it needs.
func OptedOut(h *diag.PlannedHop) bool {
	return h.Skip == SkipOnly || h.Skip == SkipSkip || strings.HasSuffix(h.Skip, "("+SkipSkip+")")
}
