package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// machine is what was done on one machine, and what is left there.
func (p *page) machine(i int, m *drill.MachineResult) {
	text := clean(m.ID)
	if m.Role != "" || m.Tier != "" {
		text += " (" + strings.Trim(clean(m.Role)+", "+clean(m.Tier), ", ") + ")"
	}
	p.Field(once(i, "machines"), text+": "+machineSays(m), render.Plain)
	for _, s := range m.Steps {
		p.step(&s)
	}
	for _, r := range m.Residue {
		st, text := diag.StatusFail, clean(r.String())
		if r.Allowed != "" {
			st, text = diag.StatusSkipped, text+" (allowed: "+clean(r.Allowed)+")"
		}
		p.Wrapped(labelWidth, st.Symbol()+" ", "left: "+text, plainUnless(st, diag.StatusSkipped))
	}
}

// machineSays is the machine's part in one sentence.
func machineSays(m *drill.MachineResult) string {
	var parts []string
	switch {
	case !m.Armed && m.State == "":
		return "was not seen to be armed"
	case !m.Armed:
		parts = append(parts, "never armed")
	}
	state := string(m.State)
	if state == "" {
		state = "state not known"
	}
	if m.Reverter != "" {
		state += " by " + m.Reverter
	}
	if m.UndoUS > 0 {
		state += " in " + micros(m.UndoUS)
	}
	parts = append(parts, state)
	if m.Why != "" {
		parts = append(parts, "because "+m.Why)
	}
	switch {
	case m.Clean == nil:
		parts = append(parts, "not compared with before")
	case *m.Clean:
		parts = append(parts, "as before")
	default:
		parts = append(parts, "not as before")
	}
	if m.Closed {
		parts = append(parts, "closed")
	} else {
		parts = append(parts, "not closed")
	}
	return clean(strings.Join(parts, "; "))
}

func (p *page) step(s *step.StepStatus) {
	st := stepStatus(s.State)
	text := fmt.Sprintf("%s %s (%s, %s)", orWord(s.State, "not begun"), clean(s.ID), clean(s.Fault), clean(s.Tier))
	if s.Text != "" {
		text += ": " + clean(s.Text)
	}
	p.Wrapped(labelWidth, st.Symbol()+" ", text, plainUnless(st, diag.StatusPass))
	for _, c := range s.Changes {
		if c.State == step.Reverted || c.State == "" || c.State == step.Planned {
			continue // the step's own line says it
		}
		st, text := stepStatus(c.State), clean(c.State)+" "+clean(c.Place)
		if c.Text != "" {
			text += ": " + clean(c.Text)
		}
		if c.By != "" {
			text += " (by " + clean(c.By) + ")"
		}
		p.Wrapped(labelWidth+2, st.Symbol()+" ", text, render.StatusStyle(st))
	}
}

func orWord[T ~string](s T, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return clean(s)
}
