package tui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// gridColumns is how many named hops fit in a row.
const gridColumns = 3

// chain shows the hops of the last walk: one row of numbers and symbols, or their names on a large terminal.
func (m drillModel) chain(f *frame, c *current) {
	if m.tall() {
		m.grid(f, c)
		return
	}
	var cells []page.Cell
	for i, id := range diag.HopsAnd(maps.Keys(c.chain.hops)) {
		mark := m.mark(c.chain, id)
		mark.Text = strconv.Itoa(i+1) + mark.Text
		cells = append(cells, mark, plain(" "))
	}
	f.field(rankHops, "chain", cells...)
}

// grid shows the hops by name, down each column.
func (m drillModel) grid(f *frame, c *current) {
	ids := diag.HopsAnd(maps.Keys(c.chain.hops))
	rows := (len(ids) + gridColumns - 1) / gridColumns
	room := (m.width - labelWidth) / gridColumns
	for y := range rows {
		var cells []page.Cell
		for i := y; i < len(ids); i += rows {
			id := ids[i]
			h := c.chain.hops[id]
			mark := m.mark(c.chain, id)
			text := string(id)
			if h.failure != diag.OK && h.status == diag.StatusFail {
				text += " " + string(h.failure)
			}
			note := ""
			if slices.Contains(c.story.Plan.Scenario.Expect.MustStayGreen.Hops, id) {
				note = " must stay green"
			}
			mark.Text = fmt.Sprintf("%2d %s %s", i+1, mark.Text, page.Cut(text, room-8-len(note)))
			cells = append(cells, mark, faint(page.Pad(note, room-page.Width(mark.Text))))
		}
		label := ""
		if y == 0 {
			label = "chain"
		}
		f.field(rankHops, label, cells...)
	}
}

// mark is a hop's symbol. Results of an earlier walk than the current one are faint.
func (m drillModel) mark(c chain, id diag.HopID) page.Cell {
	h := c.hops[id]
	switch {
	case h.running:
		return page.Cell{Text: spinner(m.frame, m.look.ASCII), Style: page.Strong}
	case h.status == "":
		return faint(" ")
	case c.walking && !h.fresh:
		return faint(h.status.Symbol())
	}
	return page.Cell{Text: h.status.Symbol(), Style: page.StatusStyle(h.status)}
}

// walks shows one line for each walk whose result differs from the previous one's, and one for the walk in progress.
func (m drillModel) walks(f *frame, c *current) {
	all := c.story.Walks
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n].Stage == all[i].Stage && all[n].VerdictLine() == all[i].VerdictLine() &&
			m.fits(c, all[n]) == m.fits(c, all[i]) {
			n++
		}
		r := rankEarlier
		if n == len(all) {
			r = rankWalk
		}
		f.field(r, "walk "+span(all[i].N, all[n-1].N), m.walk(c, all[i:n])...)
		i = n
	}
	if c.chain.walking {
		done, red := c.chain.count()
		text := fmt.Sprintf("%d of the hops done", done)
		if red > 0 {
			text += fmt.Sprintf(", %d red", red)
		}
		f.field(rankWalk, fmt.Sprintf("walk %d", len(all)+1), m.running(text))
	}
}

// span is "3" or "3-5".
func span(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// fits reports whether a walk during the fault has the complete expected result.
func (m drillModel) fits(c *current, s drill.WalkView) bool {
	word, _ := drill.Judge(c.story.Plan.Scenario.Expect, s)
	return s.Stage == drill.During && word == drill.Pass
}

// walk is the common result of walks that agree.
func (m drillModel) walk(c *current, same []drill.WalkView) []page.Cell {
	s, last := same[0], same[len(same)-1]
	words := s.VerdictLine()
	if b := s.Blame; b != nil && m.width < 100 { // the number identifies the hop, as in the row above
		words = fmt.Sprintf("%d %s", s.Number(b.Hop), b.Signal)
		if b.Failure != diag.OK {
			words += " (" + string(b.Failure) + ")"
		}
	}
	cells := []page.Cell{statusCell(render.OutcomeStatus(s.Outcome), words)}
	if n := len(s.Others); n > 0 {
		cells = append(cells, plain(fmt.Sprintf(" and %d more", n)))
	}
	if m.fits(c, s) {
		cells = append(cells, plain(", as expected"))
	}
	if m.wide() {
		cells = append(cells, faint(fmt.Sprintf("  %s, %s after the start, took %s", s.Stage, drill.Seconds(last.EndedMS),
			diag.Millis(last.EndedMS-last.BeganMS).Words())))
	}
	return cells
}
