package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// frameLines are the lines around the rows: headline, column titles, footer.
const frameLines = 3

// View implements tea.Model.
func (m model) View() tea.View {
	v := tea.NewView(m.text())
	v.DisableBracketedPasteMode = true
	return v
}

// text is the table, never higher or wider than the terminal.
func (m model) text() string {
	lines := []string{m.paint(lipgloss.NewStyle().Bold(true), m.cut(m.plain(render.Headline(&m.subject))))}
	rows := m.rows()
	likely := m.likelySoFar()
	hidden := max(0, len(rows)+frameLines+len(likely)-m.height)
	for i, l := range rows {
		if i == 0 { // column titles
			lines = append(lines, l)
			continue
		}
		if hidden > 0 && m.quiet(i-1) {
			hidden--
			continue
		}
		lines = append(lines, l)
	}
	lines = append(append(lines, likely...), m.footer())
	if over := len(lines) - m.height; over > 0 && m.height > 0 {
		lines = lines[over:] // the footer shows the current step, even on the smallest terminal
	}
	return strings.Join(lines, "\n")
}

// rows are the column titles and one line per hop, by the same writer as the finished table.
func (m model) rows() []string {
	rows := make([]render.HopRow, len(m.hops))
	for i := range m.hops {
		rows[i] = m.row(&m.hops[i])
	}
	var b strings.Builder
	o := m.options
	o.Width = m.width
	if err := render.Rows(&b, rows, m.budgets(), o); err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(m.width, 1), "")
	}
	return lines
}

// budgets are the hops' budgets, from which the table knows in its first frame how wide a time may become.
func (m model) budgets() []int64 {
	all := make([]int64, len(m.hops))
	for i := range m.hops {
		all[i] = m.hops[i].planned.BudgetMS
	}
	return all
}

// quiet reports whether a hop may be dropped on a low terminal: it passed, did not run, or has not started.
func (m model) quiet(i int) bool {
	h := &m.hops[i]
	if h.result == nil {
		return !h.started
	}
	switch h.result.Status {
	case diag.StatusPass, diag.StatusSkipped, diag.StatusNotReached:
		return true
	}
	return false
}

func (m model) row(h *hop) render.HopRow {
	if h.result != nil {
		return render.JudgedRow(h.result)
	}
	r := render.HopRow{Hop: page.Clean(string(h.planned.ID))}
	if !h.started {
		r.State = page.Cell{Text: "  pending", Style: page.Faint}
		r.Time = page.Cell{Text: "-/" + render.Budget(h.planned.BudgetMS), Style: page.Faint}
		return r
	}
	spent := diag.Measured(max(0, m.elapsed-h.at))
	r.State = page.Cell{Text: m.spinner() + " running", Style: page.Strong}
	r.Operator, r.Node = m.vantage(h, "operator", spent), m.vantage(h, "node", spent)
	if h.asking > 0 {
		r.State.Text = m.spinner() + " " + render.AskingWhy
	}
	r.Time = page.Cell{Text: render.TimeUsed(spent, h.planned.BudgetMS)}
	if int64(spent) > h.planned.BudgetMS {
		r.Time.Style = page.Warning
	}
	if h.asking > 0 {
		r.Text = page.Cell{Text: fmt.Sprintf("checking why: %d counter-probes", h.asking), Style: page.Faint}
	} else if left := waiting(h); len(left) > 0 {
		r.Text = page.Cell{Text: "waits for " + page.Clean(strings.Join(left, ", ")), Style: page.Faint}
	}
	return r
}

// vantage is the result from one place so far: the worst step and the total time, or the spinner before the first.
func (m model) vantage(h *hop, name string, spent diag.Millis) page.Cell {
	if !slices.Contains(h.planned.Vantages, name) {
		return page.Cell{}
	}
	var mine []diag.StepResult
	var spans []stretch
	for i, s := range h.steps {
		if s.Vantage == name {
			mine, spans = append(mine, s), append(spans, h.spans[i])
		}
	}
	if len(mine) == 0 {
		return page.Cell{Text: m.spinner() + " " + spent.Words()}
	}
	done := render.JudgedRow(&diag.HopResult{Vantage: name, Steps: mine, DurationMS: diag.Measured(together(spans))})
	if name == "node" {
		return done.Node
	}
	return done.Operator
}

// together is how long at least one step ran: concurrent steps count once.
func together(spans []stretch) time.Duration {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	sum, end := time.Duration(0), time.Duration(0)
	for _, s := range sorted {
		if s.to > end {
			sum += s.to - max(s.from, end)
			end = s.to
		}
	}
	return sum
}

// waiting lists the steps of a running hop without a result yet.
func waiting(h *hop) []string {
	var left []string
	for _, name := range h.planned.Steps {
		heard := slices.ContainsFunc(h.steps, func(s diag.StepResult) bool { return s.Name == name })
		if _, out := h.planned.Left[name]; !heard && !out {
			left = append(left, name)
		}
	}
	return left
}

// footer shows the walk's progress and how to end it.
func (m model) footer() string {
	done, running, asking := 0, 0, 0
	for i := range m.hops {
		switch {
		case m.hops[i].result != nil:
			done++
		case m.hops[i].started:
			running++
			if m.hops[i].asking > 0 {
				asking++
			}
		}
	}
	text := fmt.Sprintf("%d of %d hops done, %d running", done, len(m.hops), running)
	switch {
	case m.evidence && running == 0:
		text = fmt.Sprintf("%d of %d hops done, reading evidence", done, len(m.hops))
	case asking > 0:
		text = fmt.Sprintf("%d of %d hops done, %d checking why", done, len(m.hops), asking)
	}
	left := fmt.Sprintf("%s %5.1f s %s %s", m.spinner(), m.elapsed.Seconds(), m.bar(done), text)
	hint := m.hint(m.width - ansi.StringWidth(left) - 2)
	if ansi.StringWidth(left)+len(hint)+2 <= m.width {
		left += strings.Repeat(" ", m.width-ansi.StringWidth(left)-len(hint)) + hint
	} else if m.stopping {
		left = m.spinner() + " " + hint
	}
	return m.paint(lipgloss.NewStyle().Faint(true), m.cut(left))
}

// likelySoFar is the line with the walk's provisional blame, with hops by number if names are too long; empty without
// one.
func (m model) likelySoFar() []string {
	p := m.likely
	if p == nil || p.Blame == nil {
		return nil
	}
	text := ""
	for _, name := range []func(diag.HopID) string{func(id diag.HopID) string { return string(id) }, m.number} {
		waiting := make([]string, len(p.Waiting))
		for i, id := range p.Waiting {
			waiting[i] = name(id)
		}
		text = fmt.Sprintf("likely so far: %s at %s; waiting for %s", p.Blame.Signal, name(p.Blame.Hop),
			strings.Join(waiting, ", "))
		if ansi.StringWidth(text) <= m.width {
			break
		}
	}
	return []string{m.paint(lipgloss.NewStyle().Bold(true), m.cut(m.plain(page.Clean(text))))}
}

// number is a hop by its place in the table.
func (m model) number(id diag.HopID) string {
	return fmt.Sprintf("hop %d", 1+slices.IndexFunc(m.hops, func(h hop) bool { return h.planned.ID == id }))
}

// hint is what keys do, or did, in that many columns.
func (m model) hint(room int) string {
	switch {
	case m.stopping:
		return "ending: a partial report follows"
	case m.exploring && room >= len("the explorer follows"):
		return "the explorer follows"
	case m.explore != nil && room >= len("v: explore the report, ctrl-c: report so far"):
		return "v: explore the report, ctrl-c: report so far"
	case m.explore != nil && room >= len("v explores, ctrl-c ends"):
		return "v explores, ctrl-c ends"
	}
	return "ctrl-c: report so far"
}

// barWidth leaves room for the footer's text and hint at 80 columns.
const barWidth = 9

func (m model) bar(done int) string {
	full, empty := "█", "░"
	if m.options.ASCII {
		full, empty = "#", "."
	}
	n := 0
	if len(m.hops) > 0 {
		n = barWidth * done / len(m.hops)
	}
	return strings.Repeat(full, n) + strings.Repeat(empty, barWidth-n)
}

func (m model) spinner() string { return spinner(m.frame, m.options.ASCII) }

// spinner is one column that turns once a second.
func spinner(frame int, ascii bool) string {
	frames := [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	if ascii {
		return [...]string{"|", "/", "-", `\`}[frame%4]
	}
	return frames[frame%len(frames)]
}

func (m model) cut(s string) string { return ansi.Truncate(s, max(m.width, 1), "") }

// plain is s in the terminal's character set.
func (m model) plain(s string) string {
	if !m.options.ASCII {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r > 0x7e {
			return '.'
		}
		return r
	}, s)
}

func (m model) paint(st lipgloss.Style, s string) string {
	if !m.options.Color {
		return s
	}
	return st.Render(s)
}
