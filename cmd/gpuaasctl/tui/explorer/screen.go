package explorer

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// The layout: a title, the two sides under it, and a line for keys and messages. The right side has its sections in its
// first line, and a column for the mark of a match.
const (
	frameLines = 2
	barLines   = 1
	gutter     = 2
	split      = 2  // the line between the sides, and a blank
	leastBoth  = 70 // minimum width for both sides
	mostLeft   = 48
)

// View implements tea.Model.
func (m *model) View() tea.View {
	text := m.text()
	if m.o.drawn != nil {
		m.o.drawn(text)
	}
	v := tea.NewView(text)
	v.AltScreen = true
	v.DisableBracketedPasteMode = !m.typing
	return v
}

// leftWidth is the width of the left side, 0 if only the right one has room.
func (m *model) leftWidth() int {
	if m.width < leastBoth {
		return 0
	}
	return min(m.width*2/5, mostLeft)
}

// rightWidth is the width of the right side.
func (m *model) rightWidth() int {
	if left := m.leftWidth(); left > 0 {
		return m.width - left - split
	}
	return m.width
}

// options is how the right side is written.
func (m *model) options() render.Options {
	o := m.o.Display
	o.Width = max(m.rightWidth()-gutter, 1)
	return o
}

// rows is the number of visible lines of the right side.
func (m *model) rows() int { return max(m.height-frameLines-barLines, 1) }

// resize fits the screen to a terminal of another size.
func (m *model) resize(width, height int) {
	m.width, m.height = width, height
	if len(m.matches) > 0 { // lines are others now
		m.matches = m.matching()
		m.match = min(m.match, max(len(m.matches)-1, 0))
	}
	m.show(m.at)
}

// show renders the right side, starting at a line.
func (m *model) show(at int) {
	switch m.over {
	case overExplain:
		var sections []render.Section
		for _, w := range m.words() {
			sections = append(sections, render.Section{Title: w, Blocks: m.o.Explain(w)})
		}
		m.shown = newSide(m.options(), sections)
	case overHelp:
		m.shown = newSide(m.options(), []render.Section{{Title: "keys", Blocks: m.helpPage()}})
	default:
		m.shown = m.item(m.chosen)
	}
	m.at = min(max(at, 0), max(len(m.shown.lines)-1, 0))
}

// pane returns the visible lines of the right side, each after the mark of a match.
func (m *model) pane() []string {
	marked := map[int]bool{}
	for _, x := range m.matches {
		marked[x.line] = marked[x.line] || (x.item == m.chosen && m.over == overNothing)
	}
	lines := make([]string, m.rows())
	for i := range lines {
		n := m.at + i
		if n >= len(m.shown.lines) {
			break
		}
		mark := ""
		if marked[n] {
			mark = m.drawn(page.Cell{Text: "›", Style: page.Strong})
		}
		lines[i] = padded(mark, gutter) + m.shown.lines[n]
	}
	return lines
}

// drawn returns cells as one clean line, in the terminal's character set, with colours if they are on.
func (m *model) drawn(cells ...page.Cell) string {
	look := m.o.Display.Layout()
	look.Width = 0
	return strings.TrimSuffix(string(page.Text(look, page.Line(cells))), "\n")
}

// padded returns a drawn line padded with blanks to n columns.
func padded(line string, n int) string {
	return line + strings.Repeat(" ", max(n-ansi.StringWidth(line), 0))
}

// text is the screen, never higher or wider than the terminal.
func (m *model) text() string {
	if m.height < frameLines+barLines+1 || m.width < 1 {
		return ansi.Truncate(m.footer(), max(m.width, 0), "")
	}
	title := m.doc.Title
	if m.leftWidth() == 0 {
		title = strings.TrimSpace(m.doc.Items[m.chosen].Name) + " " + m.doc.Items[m.chosen].Mark.Text
	}
	lines := []string{m.drawn(page.Cell{Text: title, Style: page.Strong})}
	right := append([]string{m.bar()}, m.pane()...)
	left := m.list(len(right))
	for i := range right {
		l := right[i]
		if m.leftWidth() > 0 {
			l = left[i] + m.drawn(page.Cell{Text: "│", Style: page.Faint}) + " " + l
		}
		lines = append(lines, l)
	}
	lines = append(lines, m.footer())
	for i := range lines {
		lines[i] = ansi.Truncate(strings.TrimRight(lines[i], " "), m.width, "")
	}
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

// list returns the rows of the left side, padded to its width: the items around the selected one.
func (m *model) list(rows int) []string {
	width := m.leftWidth()
	items := m.doc.Items
	first := min(max(m.chosen-rows/2, 0), max(len(items)-rows, 0))
	out := make([]string, rows)
	for i := range out {
		if first+i >= len(items) || width == 0 {
			out[i] = strings.Repeat(" ", width)
			continue
		}
		it := &items[first+i]
		cursor, style := "  ", page.Plain
		if first+i == m.chosen {
			cursor, style = "› ", page.Strong
		}
		mark := page.Pad(page.Cut(page.Clean(it.Mark.Text), 1), 1) + " "
		room := width - page.Width(cursor) - page.Width(mark)
		note := page.Clean(it.Note)
		if note != "" {
			note = " " + note
		}
		name := page.Cut(page.Clean(it.Name), max(room-page.Width(note), 0))
		out[i] = padded(m.drawn(page.Cell{Text: cursor, Style: style}, page.Cell{Text: mark, Style: it.Mark.Style},
			page.Cell{Text: page.Pad(name, room-page.Width(note)), Style: style},
			page.Cell{Text: note, Style: it.Mark.Style}), width)
	}
	return out
}

// bar names the sections of the right side, the topmost visible one in brackets; earlier ones are dropped if there is
// no room.
func (m *model) bar() string {
	at := m.shown.section(m.at)
	for from := 0; ; from++ {
		var cells []page.Cell
		width := 0
		for i := from; i < len(m.shown.titles); i++ {
			c := page.Cell{Text: " " + page.Clean(m.shown.titles[i]) + " ", Style: page.Faint}
			if i == at {
				c = page.Cell{Text: "[" + page.Clean(m.shown.titles[i]) + "]", Style: page.Strong}
			}
			if i <= at {
				width += page.Width(c.Text)
			}
			cells = append(cells, c)
		}
		if width <= m.rightWidth() || from >= at {
			return m.drawn(cells...)
		}
	}
}

// footer shows the typed text, what is in progress, the result of a key, or the keys.
func (m *model) footer() string {
	switch {
	case m.typing:
		return m.drawn(page.Cell{Text: "search: " + m.query + "_  (enter finds, esc leaves)", Style: page.Strong})
	case m.status != "":
		return m.drawn(page.Cell{Text: m.status, Style: page.Strong})
	case m.walking != nil:
		return m.drawn(page.Cell{Style: page.Strong,
			Text: fmt.Sprintf("walking %s again, %d s (esc ends it)", m.doc.Items[*m.walking].Again, m.seconds)})
	case len(m.matches) > 0:
		return m.drawn(page.Cell{Style: page.Strong,
			Text: fmt.Sprintf("match %d of %d of %s (n next, N before, esc ends it)", m.match+1, len(m.matches), m.query)})
	}
	return m.drawn(page.Cell{Text: m.shortHelp(), Style: page.Faint})
}
