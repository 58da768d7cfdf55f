package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Text is the plan for people: exactly what each machine does, what undo does, what is expected by when, and why
// nothing of it may be done. Secrets are not in it.
func (p Plan) Text() string {
	var w strings.Builder
	m := p.Scenario.Metadata
	fmt.Fprintf(&w, "%s: %s (%s, %s)\nplan %s of run %s\n", m.ID, m.Title, m.Severity, m.Owner, diag.Digits(p.Hash), p.Run)
	for _, t := range p.Targets {
		fmt.Fprintf(&w, "\n%s %s at %s, tier %s: reverted by itself after %s, or %s without this tool\n", t.Role, t.ID,
			t.Host, t.Tier, p.Budgets.TTL, p.Budgets.Lease)
		for _, s := range t.Drill.Steps {
			p.step(&w, t, s)
		}
	}
	if len(p.Material) > 0 {
		w.WriteString("\nmade for the run:\n")
		for _, made := range p.Material {
			fmt.Fprintf(&w, "  %s\n", made.Mint)
		}
	}
	w.WriteString("\nlooked at:\n")
	for _, l := range [...]Look{p.Injected, p.Control, p.Proof} {
		if len(l.Check.Exec.Argv) > 0 {
			fmt.Fprintf(&w, "  %-9s %s, within %s: %s\n", l.Check.Name, l.where(), Duration(l.Check.Within.Duration()),
				l.Check.Exec.Line()+wants(l.Check))
		}
	}
	p.expectations(&w)
	for i, r := range p.Refused {
		if i == 0 {
			w.WriteString("\nrefused:\n")
		}
		fmt.Fprintf(&w, "  %s\n", r)
	}
	return w.String()
}

func (p Plan) step(w *strings.Builder, t PlannedMachine, s step.Step) {
	at := Duration(0)
	if i := slices.IndexFunc(p.Schedule, func(m Move) bool { return m.Machine == t.ID && m.Step == s.ID }); i >= 0 {
		at = p.Schedule[i].At
	}
	when := ""
	if at > 0 {
		when = ", after " + at.String()
	}
	fmt.Fprintf(w, "\n  %s (%s, %s%s): %s\n", s.ID, s.Fault, s.Tier, when, s.Title)
	var undos []string
	for n, c := range s.Changes {
		do, undo := c.Lines(p.Run, s.ID, n, t.Drill.TTL.Duration())
		lines(w, "    do    ", do)
		undos = append(undo, undos...)
	}
	lines(w, "    undo  ", undos)
	for _, c := range s.Verify {
		fmt.Fprintf(w, "    seen  %s: %s%s\n", c.Name, c.Exec.Line(), wants(c))
	}
}

// lines writes them under one mark.
func lines(w *strings.Builder, mark string, all []string) {
	for _, l := range all {
		w.WriteString(mark + l + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}

func (l Look) where() string {
	if l.Machine == "" {
		return "from here"
	}
	if l.Check.Unit != "" {
		return "on " + l.Machine + " as " + l.Check.Unit + " sees it"
	}
	return "on " + l.Machine
}

// wants returns what a check must give, where it is not exit code 0 alone.
func wants(c step.Check) string {
	var all []string
	if len(c.Exec.Exits) > 0 {
		words := make([]string, len(c.Exec.Exits))
		for i, e := range c.Exec.Exits {
			words[i] = fmt.Sprint(e)
		}
		all = append(all, "exit code "+strings.Join(words, " or "))
	}
	if c.Has != "" {
		all = append(all, fmt.Sprintf("says %q", c.Has))
	}
	if c.Lacks != "" {
		all = append(all, fmt.Sprintf("does not say %q", c.Lacks))
	}
	if len(all) == 0 {
		return ""
	}
	return " -> " + strings.Join(all, ", ")
}

func (p Plan) expectations(w *strings.Builder) {
	e, r := p.Scenario.Expect, p.Scenario.Recovery
	fmt.Fprintf(w, "\nexpected:\n  blame     %s, within %s\n", e.Blame, e.DetectWithin)
	for _, f := range e.Others {
		fmt.Fprintf(w, "  also      %s\n", f)
	}
	if len(e.FirstFailedHop) > 0 {
		fmt.Fprintf(w, "  first     %s\n", orList(e.FirstFailedHop))
	}
	if len(e.MustStayGreen) > 0 {
		fmt.Fprintf(w, "  green     %s\n", strings.Join(step.Texts(e.MustStayGreen), ", "))
	}
	if len(p.Scenario.Guards.StopIf) > 0 {
		fmt.Fprintf(w, "  stop if   %s fails\n", orList(p.Scenario.Guards.StopIf))
	}
	fmt.Fprintf(w, "  recovery  %d green walks within %s, residue %s\n", r.Green, r.Within, r.Residue)
	if p.Decision != nil {
		fmt.Fprintf(w, "  decision  POST %s, once it is undone: %s\n", p.Decision.Path, p.Decision.Reason)
	}
	for _, a := range r.AllowedChanges {
		fmt.Fprintf(w, "  allowed   %s %s: %s\n", a.Class, a.Key, a.Why)
	}
}
