package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// machines describes what was done on each machine, and what is left there; brief leaves out reverted steps and
// allowed differences.
func machines(d *drill.Drill, brief bool) page.Fields {
	var f page.Fields
	for i := range d.Machines {
		m := &d.Machines[i]
		text := m.ID
		if m.Role != "" || m.Tier != "" {
			text += " (" + strings.Trim(string(m.Role)+", "+string(m.Tier), ", ") + ")"
		}
		f = append(f, page.Field{Label: once(i, "machines"), Text: text + ": " + machineSays(m)})
		for k := range m.Steps {
			if s := &m.Steps[k]; !brief || s.State != step.Reverted {
				f = append(f, steps(s)...)
			}
		}
		for _, r := range m.Residue {
			st, text := diag.StatusFail, r.String()
			if r.Allowed != "" {
				st, text = diag.StatusSkipped, text+" (allowed: "+r.Allowed+")"
			}
			if !brief || r.Allowed == "" {
				f = append(f, marked(st, diag.StatusSkipped, "left: "+text))
			}
		}
	}
	return f
}

// marked returns a line with a status, without a style if the status is good.
func marked(st, good diag.Status, text string) page.Field {
	return page.Field{Lead: st.Symbol() + " ", Text: text, Style: plainUnless(st, good)}
}

// machineSays describes the machine's part in one sentence.
func machineSays(m *drill.MachineResult) string {
	var parts []string
	switch {
	case !m.Armed && m.State == "":
		return "was not seen to be armed"
	case !m.Armed:
		parts = append(parts, "never armed")
	}
	state := orWord(m.State, "state not known")
	if m.Reverter != "" {
		state += " by " + string(m.Reverter)
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
		parts = append(parts, "not compared with its state before")
	case *m.Clean && len(m.Residue) > 0:
		parts = append(parts,
			"identical to before but for "+page.Count(len(m.Residue), "difference")+" that the drill allows")
	case *m.Clean:
		parts = append(parts, "identical to before")
	default:
		parts = append(parts, "not identical to before")
	}
	if m.Closed {
		parts = append(parts, "drill artifacts removed")
	} else {
		parts = append(parts, "drill artifacts not removed")
	}
	return strings.Join(parts, "; ")
}

// steps describes a step of a machine, and those changes that the step's own line does not cover.
func steps(s *step.StepStatus) page.Fields {
	text := fmt.Sprintf("%s %s (%s, %s)%s", orWord(s.State, "not begun"), s.ID, s.Fault, s.Tier,
		page.Prefixed(": ", s.Text))
	f := page.Fields{marked(StepStatus(s.State), diag.StatusPass, text)}
	for _, c := range s.Changes {
		if c.State == step.Reverted || c.State == "" || c.State == step.Planned {
			continue
		}
		text := string(c.State) + " " + c.Place + page.Prefixed(": ", c.Text)
		if c.By != "" {
			text += " (by " + string(c.By) + ")"
		}
		change := marked(StepStatus(c.State), diag.StatusPass, text)
		change.Lead = "  " + change.Lead
		f = append(f, change)
	}
	return f
}

func orWord[T ~string](s T, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return clean(s)
}
