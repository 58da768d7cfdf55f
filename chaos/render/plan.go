package render

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Plan renders a plan for people: each machine's changes, the undo, the expectations with their times, and
// refusals. It shows no secrets.
func Plan(p *chaos.Plan) []page.Block {
	var d page.Doc
	m := p.Scenario.Metadata
	d.Add(page.Heading{Text: fmt.Sprintf("%s: %s (%s, %s)", m.ID, m.Title, m.Severity, m.Owner)},
		page.Para{Text: fmt.Sprintf("plan %s of run %s", diag.Digits(p.Hash), p.Run)})
	section := func(title string, blocks ...page.Block) {
		d.Add(page.Blank{}, page.Heading{Text: title, Level: 3})
		d.Add(blocks...)
	}
	for _, t := range p.Targets {
		section(fmt.Sprintf("%s %s at %s, tier %s: reverted by itself after %s, or %s without this tool", t.Role, t.ID,
			t.Host, t.Tier, p.Budgets.TTL, p.Budgets.Lease))
		for _, s := range t.Drill.Steps {
			title, lines := plannedStep(p, &t, &s)
			d.Add(page.Blank{}, page.Heading{Text: title, Level: 4}, lines)
		}
	}
	if len(p.Material) > 0 {
		var made page.Code
		for _, m := range p.Material {
			made += page.Code(fmt.Sprintln(m.Mint))
		}
		section("made for the run", made)
	}
	var probes page.Code
	for _, l := range [...]chaos.PlannedProbe{p.Injected, p.Control, p.Proof} {
		if len(l.Check.Exec.Argv) > 0 {
			probes += page.Code(fmt.Sprintf("%-9s %s, within %s: %s\n", l.Check.Name, where(&l),
				chaos.Duration(l.Check.Within.Duration()), l.Check.Line()))
		}
	}
	section("probes", probes)
	section("expected", expectations(p))
	if len(p.Refused) > 0 {
		section("refused")
		for _, r := range p.Refused {
			d.Add(page.Para{Text: r.String(), Indent: 2, Style: page.Bad})
		}
	}
	return d.Blocks
}

// plannedStep returns a step's title, its changes, the undo and the checks.
func plannedStep(p *chaos.Plan, t *chaos.PlannedMachine, s *step.Step) (string, page.Code) {
	i := slices.IndexFunc(p.Schedule, func(m chaos.PlannedStep) bool { return m.Machine == t.ID && m.Step == s.ID })
	when := ""
	if i >= 0 && p.Schedule[i].At > 0 {
		when = ", after " + p.Schedule[i].At.String()
	}
	var code page.Code
	add := func(mark string, lines []string) {
		for _, l := range lines {
			code += page.Code(fmt.Sprintf("%-5s %s\n", mark, l))
			mark = ""
		}
	}
	var undos []string
	for n, c := range s.Changes {
		do, undo := c.Lines(p.Run, s.ID, n, t.Drill.TTL.Duration())
		add("do", do)
		undos = append(undo, undos...)
	}
	add("undo", undos)
	for _, c := range s.Verify {
		add("check", []string{c.Name + ": " + c.Line()})
	}
	return fmt.Sprintf("%s (%s, %s%s): %s", s.ID, s.Fault, s.Tier, when, s.Title), code
}

// where names the machine and the unit that a probe runs in.
func where(l *chaos.PlannedProbe) string {
	switch {
	case l.Machine == "":
		return "from here"
	case l.Check.Unit != "":
		return "on " + l.Machine + " as " + l.Check.Unit + " sees it"
	}
	return "on " + l.Machine
}

func expectations(p *chaos.Plan) (f page.Fields) {
	add := func(label, format string, args ...any) {
		f = append(f, page.Field{Label: label, Text: fmt.Sprintf(format, args...)})
	}
	e, r := &p.Scenario.Expect, &p.Scenario.Recovery
	add("blame", "%s, within %s", e.Blame, e.DetectWithin)
	for _, other := range e.Others {
		add("also", "%s", other)
	}
	if len(e.FirstFailedHop) > 0 {
		add("first", "%s", step.Join(e.FirstFailedHop, " or "))
	}
	if e.MustStayGreen.WasGreen {
		add("green", "whatever is green before, and is not expected to fail")
	} else if hops := e.MustStayGreen.Hops; len(hops) > 0 {
		add("green", "%s", step.Join(slices.DeleteFunc(slices.Clone(hops), p.Absent), ", "))
	}
	for _, a := range byReason(p.NotMeasured) {
		add("not measured here", "%s", a)
	}
	if len(p.Scenario.Guards.StopIf) > 0 {
		add("stop if", "%s fails", step.Join(p.Scenario.Guards.StopIf, " or "))
	}
	add("recovery", "%d green walks within %s, residue %s", r.Green, r.Within, r.Residue)
	if p.Decision != nil {
		add("decision", "POST %s, after the revert: %s", p.Decision.Path, p.Decision.Reason)
	}
	for _, a := range r.AllowedChanges {
		add("allowed", "%s %s: %s", a.Class, a.Key, a.Why)
	}
	return f
}

// byReason has a line for each reason for which hops are not measured, such as "node_heartbeat,
// gateway_node_stream (no agent)".
func byReason(gone []chaos.AbsentHop) []string {
	hops, order := map[string][]diag.HopID{}, []string{}
	for _, a := range gone {
		if len(hops[a.Why]) == 0 {
			order = append(order, a.Why)
		}
		hops[a.Why] = append(hops[a.Why], a.Hop)
	}
	for i, why := range order {
		order[i] = fmt.Sprintf("%s (%s)", step.Join(hops[why], ", "), why)
	}
	return order
}
