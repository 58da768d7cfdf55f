package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Event describes one event of a drill, in lines; nil if it only announces another event, or is not meant for
// people.
func Event(e drill.Event, s *drill.Story) []string {
	switch e.Kind {
	case drill.Refused:
		var lines []string
		for _, r := range e.Refused {
			lines = append(lines, "refused: "+r.String())
		}
		return lines
	case drill.Walked:
		if e.WalkView == nil {
			return nil
		}
		return []string{fmt.Sprintf("walk %d: %s", e.WalkView.N, e.WalkView.VerdictLine())}
	case drill.Armed:
		return []string{fmt.Sprintf("%s: armed, reverts by itself after %s", e.Machine, s.Plan.Budgets.TTL)}
	case drill.Broken:
		return []string{fmt.Sprintf("%s: %s", e.Machine, brokenStep(e, s))}
	case drill.Probed:
		if e.Seen == nil {
			return nil
		}
		return []string{looked(*e.Seen)}
	case drill.Lost:
		return []string{e.Machine + ": reverted by itself: " + e.Text}
	case drill.Stopped, drill.Interrupt:
		return []string{e.Text}
	case drill.Reverting:
		return []string{e.Machine + ": asked to revert"}
	case drill.Reverted:
		return []string{e.Machine + ": " + revertText(e)}
	case drill.Decided:
		if e.Text != "" {
			return []string{"the platform did not take the decision: " + e.Text}
		}
		return []string{"the platform was told that it is decided"}
	case drill.Compared:
		return compared(e)
	case drill.Closed:
		return []string{e.Machine + ": " + cmp.Or(e.Text, "the drill's traces are gone")}
	case drill.Trouble:
		if e.Machine == "" {
			return []string{"trouble: " + e.Text}
		}
		return []string{"trouble: " + e.Machine + ": " + e.Text}
	case drill.Ended:
		v := s.Verdict()
		return []string{strings.TrimSuffix(fmt.Sprintf("%s: %s", v.Word, v.Text), ": ")}
	}
	return nil
}

// brokenStep names a step that was made by its effect.
func brokenStep(e drill.Event, s *drill.Story) string {
	text := e.Step
	for _, t := range s.Plan.Targets {
		if st, ok := t.Drill.Step(e.Step); ok && t.ID == e.Machine {
			text = fmt.Sprintf("%s: %s (%s)", st.ID, cmp.Or(st.Title, st.Fault), st.Tier)
		}
	}
	if e.Text != "" {
		text += ", but: " + e.Text
	}
	return text
}

// looked describes the result of an independent probe.
func looked(l drill.Seen) string {
	there, not := "the fault is there", "the fault is not there"
	switch l.Name {
	case drill.ProbeControl:
		there, not = "what must still work does", "what must still work does not"
	case drill.ProbeProof:
		there, not = "it is repaired", "it is not repaired"
	}
	switch {
	case l.Name == drill.ProbeTerminal && l.NotRun:
		return "no terminal is open: " + l.Why
	case l.Name == drill.ProbeTerminal:
		return "the tenant's terminal: " + l.Why
	case l.NotRun:
		return "independent probe: not run: " + l.Why
	case l.Stage == drill.Before && l.Name == drill.ProbeInjected && !l.Held:
		return "independent probe: the fault is not visible yet"
	case l.Stage == drill.Before && l.Held:
		return "independent probe: " + there + " before anything is touched"
	case l.Held:
		return fmt.Sprintf("independent probe: %s, seen after %s", there, drill.Seconds(int64(l.TookMS)))
	}
	return "independent probe: " + not + ": " + l.Why
}

func revertText(e drill.Event) string {
	st := e.Status
	if st == nil {
		return "reverted"
	}
	if st.State != step.Conflict && st.State != step.Failed {
		return RevertedBy(st.Reverter, e.TookUS)
	}
	text := string(st.State)
	for _, s := range st.Steps {
		for _, c := range s.Changes {
			if c.State == step.Conflict || c.State == step.Failed {
				text += ": " + c.Place + ": " + c.Text
			}
		}
	}
	return text
}

// RevertedBy describes who reverted a machine and, if that was on request, in how many microseconds.
func RevertedBy(reverter string, us int64) string {
	if reverter != "" && reverter != step.ByCLI {
		return "reverted by its " + reverter
	}
	return fmt.Sprintf("reverted in %.0f ms", float64(us)/1000)
}

// Compared describes how a machine differs from its state before the drill.
func Compared(same *bool, residue []step.Residue) string {
	if same != nil && *same {
		return "as before"
	}
	return fmt.Sprintf("%d left that was not there", len(step.Unexplained(residue)))
}

// compared lists the differences that the drill does not allow.
func compared(e drill.Event) []string {
	lines := []string{e.Machine + ": " + Compared(e.Clean, e.Residue)}
	if e.Clean != nil && *e.Clean {
		return lines
	}
	for _, r := range step.Unexplained(e.Residue) {
		lines = append(lines, e.Machine+": "+r.String())
	}
	return lines
}
