package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	chaosrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// machines shows each machine with the time after which it reverts by itself, and its steps.
func (m drillModel) machines(f *frame, c *current) {
	names := 0
	for _, t := range c.story.Plan.Targets {
		names = max(names, page.Width(page.Clean(t.ID)))
	}
	for _, t := range c.story.Plan.Targets {
		i := slices.IndexFunc(c.story.Machines, func(p drill.MachineStory) bool { return p.ID == t.ID })
		if i < 0 {
			continue
		}
		p := &c.story.Machines[i]
		f.add(rankMachines, append([]page.Cell{strong(page.Pad(page.Clean(t.ID), names+2))}, m.machine(c, p)...)...)
		for _, s := range t.Drill.Steps {
			f.add(rankSteps, m.step(c, p, t, s)...)
		}
	}
}

// machine is one machine: its last command, the result, and its countdown while it has one.
func (m drillModel) machine(c *current, p *drill.MachineStory) []page.Cell {
	switch {
	case p.Closed && !p.Armed:
		return []page.Cell{statusCell(diag.StatusPass, "nothing was armed, nothing is left")}
	case p.State == step.Conflict, p.State == step.Failed:
		return m.behind(p, statusCell(diag.StatusFail, state(p.State)+": "+c.against(p)))
	case p.RevertedMS > 0 && p.Lost != "":
		return m.behind(p, statusCell(diag.StatusFail, "reverted by itself: "+p.Lost))
	case p.RevertedMS > 0:
		return m.behind(p, statusCell(diag.StatusPass, chaosrender.RevertedBy(p.Reverter, p.UndoUS)))
	case c.last(p.ID, drill.Reverting) != nil:
		return []page.Cell{m.running("asked to revert")}
	case p.Lost != "":
		return []page.Cell{statusCell(diag.StatusFail, "reverted by itself: "+p.Lost)}
	case p.Armed:
		return m.countdown(c, p)
	case p.Touched:
		return []page.Cell{m.running("being armed")}
	}
	return []page.Cell{faint("not touched")}
}

// behind shows what follows reverting: the comparison with the state before, and whether the drill's artifacts are
// removed.
func (m drillModel) behind(p *drill.MachineStory, first page.Cell) []page.Cell {
	cells := []page.Cell{first}
	if p.Clean != nil {
		st := diag.StatusFail
		if *p.Clean {
			st = diag.StatusPass
		}
		cells = append(cells, plain("  "), statusCell(st, chaosrender.Compared(p.Clean, p.Residue)))
	}
	switch {
	case p.Closed:
		cells = append(cells, plain("  "), statusCell(diag.StatusPass, "closed"))
	case p.NotClosed != "":
		cells = append(cells, plain("  "), statusCell(diag.StatusInconclusive, p.NotClosed))
	}
	return cells
}

// countdown shows the time after which the machine reverts itself, by its own last answer, and the state of its lease.
func (m drillModel) countdown(c *current, p *drill.MachineStory) []page.Cell {
	e := c.last(p.ID, drill.Armed, drill.Renewed)
	cells := []page.Cell{statusCell(diag.StatusPass, "armed")}
	if len(p.Made) > 0 {
		cells[0] = statusCell(diag.StatusWarn, "broken")
	}
	if e == nil || e.Status == nil || e.Status.TTLLeft == nil {
		return cells
	}
	since := time.Duration(c.ms(m.elapsed)-e.MS) * time.Millisecond
	all := c.story.Plan.Budgets.TTL.Std()
	left := max(0, e.Status.TTLLeft.Duration()-since)
	style := page.Plain
	if left < all/10 {
		style = page.Warning
	}
	cells = append(cells, plain(fmt.Sprintf("  back by itself in %3.0f s ", left.Seconds())),
		page.Cell{Text: m.bar(left.Milliseconds(), all.Milliseconds(), m.barWidth()/2), Style: style})
	return append(cells, m.lease(c, p, e, since)...)
}

// lease shows how long the machine still waits for a renewal from here, and how often the lease was renewed.
func (m drillModel) lease(c *current, p *drill.MachineStory, e *drill.Event, since time.Duration) []page.Cell {
	if e.Status.LeaseLeft == nil {
		return nil
	}
	left, n := max(0, e.Status.LeaseLeft.Duration()-since), 0
	for _, e := range c.events {
		if e.Machine == p.ID && e.Kind == drill.Renewed {
			n++
		}
	}
	text := fmt.Sprintf("  lease %2.0f s", left.Seconds())
	if m.wide() && n > 0 {
		text += fmt.Sprintf(", renewed %d×", n)
	}
	if left < c.story.Plan.Budgets.Lease.Std()/2 {
		return []page.Cell{{Text: text + " !", Style: page.Warning}}
	}
	return []page.Cell{faint(text)}
}

// stateWidth is the room for a step's state.
const stateWidth = 15

// step is one step: its state, its description, and what reverts it if the tool does not.
func (m drillModel) step(c *current, p *drill.MachineStory, t chaos.PlannedMachine, s step.Step) []page.Cell {
	cell := m.stepState(c, p, t, s.ID)
	cell.Text = page.Pad(cell.Text, stateWidth)
	title := cmp.Or(s.Title, s.Fault)
	cells := []page.Cell{plain("  "), cell, faint("  " + s.Tier + " "), plain(s.ID + ": " + title)}
	if m.wide() {
		cells = append(cells, faint("  "+tierWords(s.Tier)))
	}
	return cells
}

// stepState uses the machine's last report, and the events since.
func (m drillModel) stepState(c *current, p *drill.MachineStory, t chaos.PlannedMachine, id string) page.Cell {
	word := step.State("")
	if i := slices.IndexFunc(p.Steps, func(s step.StepStatus) bool { return s.ID == id }); i >= 0 {
		word = p.Steps[i].State
	}
	switch word {
	case step.Reverted:
		return statusCell(diag.StatusPass, "reverted")
	case step.Lost:
		return statusCell(diag.StatusFail, "gone by itself")
	case step.Conflict, step.Failed:
		return statusCell(diag.StatusFail, state(word))
	}
	if _, made := p.Made[id]; made {
		if p.RevertedMS == 0 && c.last(t.ID, drill.Reverting) != nil {
			return m.running("reverting")
		}
		if p.Against != "" && c.last(t.ID, drill.Broken).Step == id {
			return statusCell(diag.StatusFail, "not made")
		}
		return statusCell(diag.StatusWarn, "in place")
	}
	if e := c.last(t.ID, drill.Breaking); e != nil && e.Step == id && p.RevertedMS == 0 {
		return m.running("being made")
	}
	return statusCell(diag.StatusNotReached, "planned")
}

// against is the first of the machine's changes that could not be reverted, and why.
func (c *current) against(p *drill.MachineStory) string {
	for _, s := range p.Steps {
		for _, ch := range s.Changes {
			if ch.State == step.Conflict || ch.State == step.Failed {
				return ch.Place + ", " + ch.Text
			}
		}
	}
	return "left alone"
}

// state describes a state that needs an operator.
func state(s step.State) string {
	if s == step.Failed {
		return "not reverted"
	}
	return string(s)
}

// tierWords names what reverts a step if the tool does not.
func tierWords(tier string) string {
	return map[string]string{
		step.TierKernel:     "the kernel ends it",
		step.TierWatchdog:   "ends with its watchdog",
		step.TierBoot:       "ends at a reboot",
		step.TierPersistent: "only an undo ends it",
	}[tier]
}

// looks shows the results of the independent probes so far: first that nothing is wrong, then the fault, then its
// repair.
func (m drillModel) looks(f *frame, c *current) {
	p := &c.story.Plan
	_, placed := c.story.InPlace()
	stage, goes := drill.Before, !c.has(drill.Arming) && len(c.story.Walks) > 0
	if placed || c.has(drill.Reverting) {
		stage, goes = drill.During, placed && !c.has(drill.Reverting)
	}
	for _, l := range []struct {
		label string
		chaos.PlannedProbe
		stage drill.Stage
		goes  bool
	}{
		{"injected", p.Injected, stage, goes},
		{"control", p.Control, stage, goes},
		{"repaired", p.Proof, drill.After, c.answered() && !c.has(drill.Compared)},
	} {
		seen := c.story.LastProbe(l.stage, l.Check.Name)
		goes := l.goes && !c.over() && c.story.Interrupted == ""
		if seen != nil || goes || l.stage == drill.During {
			f.field(rankLooks, l.label, m.seen(seen, goes, l.label == "injected" && l.stage == drill.Before),
				faint(tool(l.PlannedProbe)))
		}
	}
}

// answered reports whether every armed machine was asked to revert and has answered.
func (c *current) answered() bool {
	return c.has(drill.Reverted) &&
		!slices.ContainsFunc(c.story.Machines, func(p drill.MachineStory) bool { return p.Armed && p.RevertedMS == 0 })
}

// seen is the result of one probe; absent means that the probe must not find its target yet.
func (m drillModel) seen(l *drill.ProbeResult, goes, absent bool) page.Cell {
	const room = 18
	cell := statusCell(diag.StatusInconclusive, "not seen")
	switch {
	case l == nil && goes:
		cell = m.running("looking")
	case l == nil:
	case l.NotRun:
		cell = statusCell(diag.StatusInconclusive, "not run: "+l.Why)
	case l.Held && absent:
		cell = statusCell(diag.StatusFail, "there already")
	case l.Held:
		cell = statusCell(diag.StatusPass, "seen after "+l.TookMS.Words())
	case absent:
		cell = statusCell(diag.StatusPass, "not there yet")
	default:
		cell = statusCell(diag.StatusFail, l.Why)
	}
	cell.Text = page.Pad(cell.Text, room) + "  "
	return cell
}

// tool is a probe's command, and where it runs.
func tool(l chaos.PlannedProbe) string {
	where := cmp.Or(l.Machine, "here")
	return strings.TrimSpace(l.Check.Exec.Line()) + " (" + where + ")"
}
