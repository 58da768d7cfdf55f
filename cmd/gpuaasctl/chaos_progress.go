package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// newDrillProgress says on w what drills tell as they go, one line for each event that is worth one, with the seconds since
// the drill began. It is not for use by several at once.
func newDrillProgress(w io.Writer) func(tui.DrillUpdate) {
	p := &drillProgress{w: w}
	return p.told
}

// drillProgress is the drill that goes on, as far as it was told.
type drillProgress struct {
	w     io.Writer
	story drill.Story
	found bool
	green bool
}

func (p *drillProgress) told(u tui.DrillUpdate) {
	if u.Walk != nil {
		return
	}
	if u.Event.Kind == drill.Begun {
		*p = drillProgress{w: p.w}
	}
	p.story.Add(u.Event)
	if u.Event.Kind == drill.Begun {
		p.title(u)
		return
	}
	for _, line := range drillLines(u.Event, &p.story) {
		p.line(u.Event, line)
	}
	p.times(u.Event)
}

// title begins a drill.
func (p *drillProgress) title(u tui.DrillUpdate) {
	plan := &p.story.Plan
	m := plan.Scenario.Metadata
	which := "drill"
	if u.Count > 1 {
		which = fmt.Sprintf("drill %d of %d", u.Index+1, u.Count)
	}
	p.write(fmt.Sprintf("%s: %s on %s: %s (run %s)", which, m.ID, plan.Node, m.Title, plan.Run))
}

// times says once when the chain said what it should, and when it was green again.
func (p *drillProgress) times(e drill.Event) {
	d := p.story.Drill()
	if !p.found && d.Detect.Seen {
		p.found = true
		p.line(e, "found "+timed(d.Detect))
	}
	if !p.green && d.Recover.Seen {
		p.green = true
		p.line(e, "green again "+timed(d.Recover))
	}
}

func timed(t drill.Timing) string {
	text := fmt.Sprintf("after %s of %s", drill.Seconds(t.WithinMS), t.Budget)
	if t.WithinMS > t.Budget.Std().Milliseconds() {
		text += ", late"
	}
	return text
}

func (p *drillProgress) line(e drill.Event, text string) {
	p.write(fmt.Sprintf("%7s  %s", drill.Seconds(e.MS), text))
}

// write writes one line, whatever a far side put into it. One that cannot be written is lost.
func (p *drillProgress) write(text string) { _, _ = fmt.Fprintln(p.w, render.Clean(text)) }

// drillLines is what is said of one event; nothing where it only announces another one, or is not for people.
func drillLines(e drill.Event, s *drill.Story) []string {
	switch e.Kind {
	case drill.Refused:
		var lines []string
		for _, r := range e.Refused {
			lines = append(lines, "refused: "+r.String())
		}
		return lines
	case drill.Walked:
		if e.Sight == nil {
			return nil
		}
		return []string{fmt.Sprintf("walk %d: %s", e.Sight.N, e.Sight.Says())}
	case drill.Armed:
		return []string{fmt.Sprintf("%s: armed, puts itself back after %s", e.Machine, s.Plan.Budgets.TTL)}
	case drill.Broken:
		return []string{fmt.Sprintf("%s: %s", e.Machine, brokenStep(e, s))}
	case drill.Looked:
		if e.Seen == nil {
			return nil
		}
		return []string{looked(*e.Seen)}
	case drill.Lost:
		return []string{e.Machine + ": put itself back: " + e.Text}
	case drill.Stopped, drill.Interrupt:
		return []string{e.Text}
	case drill.Reverting:
		return []string{e.Machine + ": is asked to put everything back"}
	case drill.Reverted:
		return []string{e.Machine + ": " + putBack(e)}
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

// brokenStep names the step that was made, by what it does.
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

// looked is what a plain tool saw.
func looked(l drill.Seen) string {
	there, not := "the fault is there", "the fault is not there"
	switch l.Name {
	case drill.LookControl:
		there, not = "what must still work does", "what must still work does not"
	case drill.LookProof:
		there, not = "it is repaired", "it is not repaired"
	}
	switch {
	case l.NotRun:
		return "plain tools could not look: " + l.Why
	case l.Stage == drill.Before && l.Name == drill.LookInjected && !l.Held:
		return "plain tools: the fault is not there yet"
	case l.Stage == drill.Before && l.Held:
		return "plain tools: " + there + " before anything is touched"
	case l.Held:
		return fmt.Sprintf("plain tools: %s, seen after %s", there, drill.Seconds(int64(l.TookMS)))
	}
	return "plain tools: " + not + ": " + l.Why
}

func putBack(e drill.Event) string {
	st := e.Status
	switch {
	case st == nil:
		return "put back"
	case st.State == step.Conflict, st.State == step.Failed:
		text := string(st.State)
		for _, s := range st.Steps {
			for _, c := range s.Changes {
				if c.State == step.Conflict || c.State == step.Failed {
					text += ": " + c.Place + ": " + c.Text
				}
			}
		}
		return text
	case st.Reverter != "" && st.Reverter != step.ByCLI:
		return "put back, by its " + st.Reverter
	}
	return fmt.Sprintf("put back in %.0f ms", float64(e.TookUS)/1000)
}

// compared is every difference from before that nobody allowed.
func compared(e drill.Event) []string {
	left := step.Unexplained(e.Residue)
	if e.Clean != nil && *e.Clean {
		return []string{e.Machine + ": as before"}
	}
	lines := []string{fmt.Sprintf("%s: %d left that was not there", e.Machine, len(left))}
	for _, r := range left {
		lines = append(lines, e.Machine+": "+r.String())
	}
	return lines
}
