package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The vantages that have a column.
const (
	operator = "operator"
	node     = "node"
)

// textColumnFrom is the page width from which on every row has room for its text; below, text stands under the rows
// that need it.
const textColumnFrom = 110

// HopRow is one hop as a row of the table, finished or not.
type HopRow struct {
	State    Cell // symbol and word
	Hop      string
	Operator Cell
	Node     Cell
	Time     Cell // spent of budget
	Text     Cell
}

// Done is the row of a judged hop.
func Done(h *diag.HopResult) HopRow {
	r := HopRow{
		State: State(h.Status), Hop: Clean(string(h.ID)),
		Operator: vantageCell(h, operator), Node: vantageCell(h, node),
		Text: Cell{Clean(h.Text), Plain},
	}
	if h.DurationMS > 0 {
		r.Time = Cell{Spent(h.DurationMS, h.BudgetMS), Plain}
		if h.BudgetMS > 0 && int64(h.DurationMS) > h.BudgetMS {
			r.Time.Style = Warning
		}
	}
	if h.Text == "" {
		r.Text = Cell{Clean(h.Because), Faint}
	}
	return r
}

// AskingWhy is the word of a hop that failed, and whose counter-probes are under way.
const AskingWhy = "checking why"

// State is a status as symbol and word.
func State(s diag.Status) Cell { return Cell{s.Symbol() + " " + Clean(s.Words()), StatusStyle(s)} }

// Spent is "820 ms/12 s": what was spent of a budget in milliseconds.
func Spent(d diag.Millis, budgetMS int64) string {
	if budgetMS <= 0 {
		return d.Words()
	}
	return d.Words() + "/" + Budget(budgetMS)
}

// Budget is a budget in whole seconds where it is whole: "12 s".
func Budget(ms int64) string {
	if ms%1000 == 0 && ms < 100_000 {
		return strconv.FormatInt(ms/1000, 10) + " s"
	}
	return diag.Millis(ms).Words()
}

// vantageCell sums up the steps that were measured from one place: the worst status, and the time they took. Nothing
// stands there for a place from which the hop does not look.
func vantageCell(h *diag.HopResult, vantage string) Cell {
	worst, total, any := diag.Status(""), diag.Millis(0), false
	for i := range h.Steps {
		s := &h.Steps[i]
		if s.Vantage != vantage {
			continue
		}
		any = true
		total += s.DurationMS
		if worse(s.Status, worst) {
			worst = s.Status
		}
	}
	if !any {
		if strings.Contains(h.Vantage, vantage) && len(h.Steps) == 0 {
			return Cell{h.Status.Symbol(), StatusStyle(h.Status)}
		}
		return Cell{}
	}
	if h.DurationMS > 0 {
		total = min(total, h.DurationMS) // steps run side by side
	}
	if h.Status == diag.StatusFail && worst == diag.StatusPass { // what was asked was answered, and the answer is what is wrong
		if total == 0 {
			return Cell{}
		}
		return Cell{"  " + total.Words(), Plain}
	}
	if total == 0 {
		return Cell{worst.Symbol(), StatusStyle(worst)}
	}
	return Cell{worst.Symbol() + " " + total.Words(), StatusStyle(worst)}
}

// worse orders statuses by how much they want to be seen: a step that was left out does not hide one that passed, nor
// the other way round.
func worse(a, b diag.Status) bool { return rank(a) > rank(b) }

func rank(s diag.Status) int {
	switch s {
	case diag.StatusFail:
		return 6
	case diag.StatusInconclusive:
		return 5
	case diag.StatusNotReached:
		return 4
	case diag.StatusWarn:
		return 3
	case diag.StatusPass:
		return 2
	case diag.StatusSkipped:
		return 1
	}
	return 0
}

// hopColumns is the layout of a hop list: at 80 columns all but the text.
func hopColumns(text bool) []Column {
	columns := []Column{
		{Title: "#", Right: true, Min: 2},
		{Title: "status", Min: 9},
		{Title: "hop", Give: 14},
		{Title: "operator", Min: 8, Drop: true},
		{Title: "node", Min: 8, Drop: true},
		{Title: "of budget", Min: 11, Drop: true},
	}
	if text {
		columns = append(columns, Column{Title: "what was seen", Give: 1 << 16})
	}
	return columns
}

func (r HopRow) cells(number int, text bool) []Cell {
	c := []Cell{{strconv.Itoa(number), Faint}, r.State, {r.Hop, Plain}, r.Operator, r.Node, r.Time}
	if text {
		c = append(c, r.Text)
	}
	return c
}

// Rows writes hop rows alone, one line each: what a live table shows. Its columns have from the first frame on the
// width that any status and any time within budgets needs; what is wider is cut.
func Rows(w io.Writer, rows []HopRow, budgets []int64, o Options) error {
	p := newPage(o)
	text := p.width >= textColumnFrom
	columns := hopColumns(text)
	status, vantage, spent := &columns[1], []*Column{&columns[3], &columns[4]}, &columns[5]
	for _, s := range diag.Statuses {
		status.Min = max(status.Min, width(State(s).Text))
	}
	status.Min, spent.Min = max(status.Min, width("⠋ "+AskingWhy)), 0
	spent.Give = 1 // so that 80 columns have room for every hop's name
	for _, b := range budgets {
		for _, most := range [...]diag.Millis{999, 99_400, diag.Millis(b)} { // the widest words of milliseconds and of seconds
			spent.Min = max(spent.Min, width(Spent(most, b)))
			for _, c := range vantage {
				c.Min = max(c.Min, width("✘ "+most.Words()))
			}
		}
	}
	cells := cellsOf(rows, text)
	widths := measure(columns, nil)
	for _, c := range cells { // only names and texts have no width of their own
		widths[2] = max(widths[2], width(c[2].Text))
		if text {
			widths[6] = max(widths[6], width(c[6].Text))
		}
	}
	shrink(columns, widths, p.width)
	for _, c := range cells {
		if width(c[5].Text) > widths[5] {
			c[5].Text = closer(c[5].Text)
		}
	}
	p.lines(columns, widths, cells, nil)
	return p.flush(w)
}

// closer is a time of a budget in one column less, so that no unit is cut off: "112 ms/12s".
func closer(spent string) string {
	at := strings.LastIndexByte(spent, '/') + 1
	return spent[:at] + strings.ReplaceAll(spent[at:], " ", "")
}

func cellsOf(rows []HopRow, text bool) [][]Cell {
	cells := make([][]Cell, len(rows))
	for i, r := range rows {
		cells[i] = r.cells(i+1, text)
	}
	return cells
}

func (p *page) rows(rows []HopRow, after func(row int)) {
	text := p.width >= textColumnFrom
	p.list(hopColumns(text), cellsOf(rows, text), after)
}

// Counts is how many hops have each status, every status named.
func Counts(hops []diag.HopResult) string {
	n := map[diag.Status]int{}
	for i := range hops {
		n[hops[i].Status]++
	}
	parts := make([]string, len(diag.Statuses))
	for i, s := range diag.Statuses {
		parts[i] = fmt.Sprintf("%d %s", n[s], s.Words())
	}
	return strings.Join(parts, " · ")
}

// Headline names the subject: node, host, allocation, profile.
func Headline(s *diag.Subject) string {
	parts := []string{}
	who := Clean(s.NodeID)
	if s.NodeHost != "" && s.NodeHost != s.NodeID {
		who = strings.TrimSpace(who + " (" + Clean(s.NodeHost) + ")")
	}
	if who != "" {
		parts = append(parts, who)
	}
	for _, p := range [][2]string{{"", s.AllocationID}, {"session ", s.SessionID}, {"request ", s.CorrelationID}, {"profile ", s.EnvironmentProfile}} {
		if p[1] != "" {
			parts = append(parts, p[0]+Clean(p[1]))
		}
	}
	if len(parts) == 0 {
		return "preflight"
	}
	return "preflight " + strings.Join(parts, " · ")
}
