package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// rank is how soon a row is dropped on a low terminal: the highest first, and among equals the uppermost.
type rank int

// The ranks, from what is never dropped. What needs action comes before what only informs.
const (
	rankAlways rank = iota
	rankWrong
	rankMachines
	rankClocks
	rankHops
	rankSteps
	rankWalk
	rankLooks
	rankClaims
	rankFinished
	rankTitle
	rankEarlier
	rankGap
)

// row is one line of a frame.
type row struct {
	rank  rank
	cells []page.Cell
}

// frame is the rows of the view at one moment.
type frame []row

func (f *frame) add(r rank, cells ...page.Cell) { *f = append(*f, row{r, cells}) }

// labelWidth is the column in which values begin, as in the report.
const labelWidth = 10

// field is a row with a label.
func (f *frame) field(r rank, label string, cells ...page.Cell) {
	f.add(r, append([]page.Cell{faint(page.Pad(label, labelWidth))}, cells...)...)
}

// fit drops rows until the frame has no more than height; 0: any height.
func (f frame) fit(height int) frame {
	for height > 0 && len(f) > height {
		out := 0
		for i, r := range f {
			if r.rank > f[out].rank {
				out = i
			}
		}
		if f[out].rank == rankAlways {
			return f[len(f)-height:] // the footer shows the current step, even on the smallest terminal
		}
		f = append(f[:out:out], f[out+1:]...)
	}
	return f
}

func plain(s string) page.Cell { return page.Cell{Text: page.Clean(s)} }

func faint(s string) page.Cell { return page.Cell{Text: page.Clean(s), Style: page.Faint} }

func strong(s string) page.Cell { return page.Cell{Text: page.Clean(s), Style: page.Strong} }

// statusCell is a status as symbol and text.
func statusCell(st diag.Status, words string) page.Cell {
	return page.Cell{Text: st.Symbol() + " " + page.Clean(words), Style: page.StatusStyle(st)}
}

// View implements tea.Model.
func (m drillModel) View() tea.View {
	v := tea.NewView(m.text())
	v.DisableBracketedPasteMode = true
	return v
}

// text is the frame, never higher or wider than the terminal.
func (m drillModel) text() string {
	var rows []page.Block
	for _, r := range m.filled() {
		rows = append(rows, page.Line(r.cells))
	}
	b := page.Text(page.Layout{Width: m.width, Color: m.look.Color, ASCII: m.look.ASCII}, rows...)
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i := range lines {
		lines[i] = ansi.Truncate(strings.TrimRight(lines[i], " "), max(m.width, 1), "")
	}
	return strings.Join(lines, "\n")
}

// running shows a state that is not decided yet: the spinner, and text.
func (m drillModel) running(words string) page.Cell {
	return page.Cell{Text: spinner(m.frame, m.look.ASCII) + " " + page.Clean(words), Style: page.Strong}
}

// bar shows spent of all in n columns.
func (m drillModel) bar(spent, all int64, n int) string {
	full := 0
	if all > 0 {
		full = int(min(max(spent, 0), all) * int64(n) / all)
	}
	return strings.Repeat("█", full) + strings.Repeat("─", n-full)
}

// barWidth is the width of a bar on this terminal.
func (m drillModel) barWidth() int { return min(max((m.width-40)/2, 4), 60) }

// wide reports whether rows have room for optional columns.
func (m drillModel) wide() bool { return m.width >= 120 }

// tall reports whether lists fit, or only lines.
func (m drillModel) tall() bool { return m.wide() && m.height >= 40 }
