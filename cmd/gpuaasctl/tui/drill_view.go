package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	chaosrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// rows are all lines of the view, from the finished drills to the current step.
func (m drillModel) rows() frame {
	var f frame
	m.finished(&f)
	c := m.now
	if c == nil || len(c.events) == 0 {
		f.add(rankAlways, strong(m.place()+"reading the machines"))
		m.footer(&f)
		return f
	}
	m.head(&f, c)
	m.machines(&f, c)
	m.looks(&f, c)
	f.add(rankGap)
	m.chain(&f, c)
	m.walks(&f, c)
	f.add(rankGap)
	m.clocks(&f, c)
	m.claims(&f, c)
	if n := len(c.story.Trouble); n > 0 {
		f.field(rankWrong, "trouble", statusCell(diag.StatusWarn, c.story.Trouble[n-1]))
	}
	m.footer(&f)
	return f
}

// mostLines is the maximum height of a frame on a higher terminal.
const mostLines = 50

// filled pads the rows to the frame's height, which is constant: a change would erase the screen, and terminals keep
// what is erased in the scrollback.
func (m drillModel) filled() frame {
	height := min(m.height, mostLines)
	f := m.rows().fit(height)
	if n := height - len(f); n > 0 && len(f) > 0 {
		last := len(f) - 1
		f = append(append(f[:last:last], make(frame, n)...), f[last])
	}
	return f
}

// finished shows one line for each finished drill, except for the one that is still shown below.
func (m drillModel) finished(f *frame) {
	over := m.over
	if m.now != nil && m.now.over() && len(over) > 0 {
		over = over[:len(over)-1]
	}
	names := 0
	for i := range over {
		names = max(names, page.Width(page.Clean(over[i].Scenario)))
	}
	for i := range over {
		d := &over[i]
		st := chaosrender.Status(d.Verdict.Word)
		cells := []page.Cell{{Text: page.Pad(st.Symbol()+" "+page.Clean(string(d.Verdict.Word)), 16),
			Style: page.StatusStyle(st)}, plain(page.Pad(page.Clean(d.Scenario), names+2))}
		switch {
		case d.Verdict.Word == drill.Pass:
			cells = append(cells, faint(m.figures(d)))
		default:
			cells = append(cells, plain(d.Verdict.Text))
		}
		r := rankFinished
		if i < len(over)-1 {
			r = rankEarlier
		}
		f.add(r, cells...)
	}
	if len(over) > 0 {
		f.add(rankGap)
	}
}

// figures are a drill's times, as intervals if there is room.
func (m drillModel) figures(d *drill.Drill) string {
	if m.wide() {
		return fmt.Sprintf("found %s, green %s", d.Detect, d.Recover)
	}
	of := func(t drill.Timing) string { return drill.Seconds(t.WithinMS) + "/" + t.Budget.String() }
	return fmt.Sprintf("found %s, green %s", of(d.Detect), of(d.Recover))
}

// place is the number of the drill, and how many there are.
func (m drillModel) place() string {
	if m.count <= 1 {
		return "drill: "
	}
	i := 0
	if m.now != nil {
		i = m.now.index
	}
	return fmt.Sprintf("drill %d of %d: ", i+1, m.count)
}

// head names the drill and its subject.
func (m drillModel) head(f *frame, c *current) {
	s := &c.story.Plan.Scenario
	about := page.NonEmpty(c.story.Plan.Node, c.story.Plan.Allocation, s.Metadata.Severity)
	if m.wide() {
		about = append(about, "run "+c.story.Plan.Run)
	}
	cells := []page.Cell{strong(m.place() + s.Metadata.ID), faint(" · " + strings.Join(about, " · "))}
	if text := m.tally(); text != "" {
		cells = append(cells, faint(" · "+text))
	}
	f.add(rankAlways, cells...)
	f.add(rankTitle, plain(s.Metadata.Title))
	f.add(rankGap)
}

// tally is the number of finished drills with each verdict.
func (m drillModel) tally() string {
	var parts []string
	for _, w := range drill.Words() {
		n := 0
		for _, d := range m.over {
			if d.Verdict.Word == w {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, w))
		}
	}
	return strings.Join(parts, ", ")
}

// clocks shows the times against their budgets, as far as the drill has got.
func (m drillModel) clocks(f *frame, c *current) {
	now := c.ms(m.elapsed)
	if zero, placed := c.story.InPlace(); placed {
		m.clock(f, "found", c.report.Detect, now-zero, !c.has(drill.Reverting))
	}
	if zero, back := c.story.RevertedAt(); back {
		row := 0
		for _, w := range slices.Backward(c.story.Walks) {
			if w.Stage != drill.After || !w.Green() {
				break
			}
			row++
		}
		goes := !c.report.Recover.Seen && !c.has(drill.Compared) && !c.over() && c.story.Interrupted == ""
		m.clock(f, "green", c.report.Recover, now-zero, goes,
			fmt.Sprintf("%d of %d walks", row, c.story.Plan.Scenario.Recovery.Green))
	}
}

// clock is one time: running against its budget, or final, or given up. Its bar is full at the end of the budget.
func (m drillModel) clock(f *frame, label string, t drill.Timing, spent int64, goes bool, more ...string) {
	budget := t.Budget.Std().Milliseconds()
	state := statusCell(diag.StatusInconclusive, "not seen")
	switch {
	case t.Seen && t.WithinMS > budget:
		state, spent = statusCell(diag.StatusFail, "late, "+t.String()), t.WithinMS
	case t.Seen:
		state, spent = statusCell(diag.StatusPass, t.String()), t.WithinMS
	case goes && spent > budget:
		state = statusCell(diag.StatusFail, fmt.Sprintf("late, %s of %s", drill.Seconds(spent), t.Budget))
	case goes:
		state = m.running(fmt.Sprintf("%s of %s", drill.Seconds(spent), t.Budget))
	default:
		spent = t.AfterMS
	}
	style := state.Style
	if style == page.Strong && spent > budget*3/4 {
		style = page.Warning
	}
	bar := page.Cell{Text: m.bar(spent, budget, m.barWidth()), Style: style}
	if len(more) > 0 {
		state.Text += ", " + strings.Join(more, ", ")
	}
	f.field(rankClocks, label, bar, plain(" "), state)
}

// footer shows the current step, and how to end it.
func (m drillModel) footer(f *frame) {
	f.add(rankGap)
	text, hint := m.doing(), "ctrl-c: revert everything"
	switch {
	case m.now != nil && m.now.over() && m.now.index+1 >= m.count:
		hint = ""
	case m.ending == puttingOff:
		text, hint = "reverting everything, Ctrl-C again leaves it to the machines", ""
	case m.ending == abandoned:
		text, hint = "left to the machines, which revert by themselves: gpuaasctl chaos status", ""
	}
	left := fmt.Sprintf("%s %5.1f s  %s", spinner(m.frame, m.look.ASCII), m.elapsed.Seconds(), text)
	style := page.Faint
	if m.ending != goesOn {
		style = page.Warning
	}
	if space := m.width - page.Width(left) - len(hint); hint != "" && space >= 2 {
		left += strings.Repeat(" ", space) + hint
	}
	f.add(rankAlways, page.Cell{Text: left, Style: style})
}

// doing is what the drill is waiting for.
func (m drillModel) doing() string {
	c := m.now
	if c == nil || len(c.events) == 0 || c.over() {
		if c != nil && c.over() && c.index+1 >= m.count {
			return "done"
		}
		return "the next drill is about to begin"
	}
	_, placed := c.story.InPlace()
	switch {
	case c.has(drill.Compared), c.report.Recover.Seen:
		return "comparing with before, clearing up"
	case c.answered() && c.story.Interrupted == "":
		return "waiting for the chain to be green"
	case c.has(drill.Reverting):
		return "reverting everything"
	case placed && !c.report.Detect.Seen:
		return "waiting for the chain to say it"
	case placed:
		return "waiting for the independent probes"
	case c.has(drill.Breaking):
		return "breaking"
	case c.has(drill.Arming):
		return "arming the machines"
	}
	if len(c.story.Walks) > 0 {
		return "checking the independent probes before the fault"
	}
	return "walking the chain: it must be green"
}
