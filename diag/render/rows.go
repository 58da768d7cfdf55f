package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// The vantages that have a column.
const (
	operator = "operator"
	node     = "node"
)

// textColumnFrom is the page width from which every row has room for its text; on a narrower page, text is printed
// below the rows that need it.
const textColumnFrom = 110

// HopRow is one hop as a row of the table, whether or not it has finished.
type HopRow struct {
	State    page.Cell // symbol and word
	Hop      string
	Operator page.Cell
	Node     page.Cell
	Time     page.Cell // spent of budget
	Text     page.Cell
}

// JudgedRow returns the row of a judged hop.
func JudgedRow(h *diag.HopResult) HopRow {
	r := HopRow{
		State: page.Status(h.Status), Hop: string(h.ID),
		Operator: vantageCell(h, operator), Node: vantageCell(h, node),
		Text: page.Cell{Text: h.Text},
	}
	if h.DurationMS > 0 {
		r.Time = page.Cell{Text: TimeUsed(h.DurationMS, h.BudgetMS)}
		if h.BudgetMS > 0 && int64(h.DurationMS) > h.BudgetMS {
			r.Time.Style = page.Warning
		}
	}
	if h.Text == "" {
		r.Text = page.Cell{Text: h.Because, Style: page.Faint}
	}
	return r
}

// AskingWhy is shown for a failed hop while its counter-probes run.
const AskingWhy = "checking why"

// TimeUsed formats the time used and the budget in milliseconds: "820 ms/12 s".
func TimeUsed(d diag.Millis, budgetMS int64) string {
	if budgetMS <= 0 {
		return d.Words()
	}
	return d.Words() + "/" + Budget(budgetMS)
}

// Budget formats a budget, in seconds if it is a whole number of them: "12 s".
func Budget(ms int64) string {
	if ms%1000 == 0 && ms < 100_000 {
		return strconv.FormatInt(ms/1000, 10) + " s"
	}
	return diag.Millis(ms).Words()
}

// vantageCell sums up the steps measured from one vantage: the worst status, and the total time. It is blank for a
// vantage that the hop does not use.
func vantageCell(h *diag.HopResult, vantage string) page.Cell {
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
			return page.Cell{Text: h.Status.Symbol(), Style: page.StatusStyle(h.Status)}
		}
		return page.Cell{}
	}
	if h.DurationMS > 0 {
		total = min(total, h.DurationMS) // steps run side by side
	}
	// the request was answered, and the content of the answer is the fault
	if h.Status == diag.StatusFail && worst == diag.StatusPass {
		if total == 0 {
			return page.Cell{}
		}
		return page.Cell{Text: "  " + total.Words()}
	}
	if total == 0 {
		return page.Cell{Text: worst.Symbol(), Style: page.StatusStyle(worst)}
	}
	return page.Marked(worst, total.Words())
}

// worse reports whether a is more important to show than b. A skipped step does not hide one that passed, nor the other
// way round.
func worse(a, b diag.Status) bool { return rank(a) > rank(b) }

func rank(s diag.Status) int {
	return map[diag.Status]int{
		diag.StatusFail:         6,
		diag.StatusInconclusive: 5,
		diag.StatusNotReached:   4,
		diag.StatusWarn:         3,
		diag.StatusPass:         2,
		diag.StatusSkipped:      1,
	}[s]
}

// hopColumns returns the columns of a hop list: at 80 columns all but the text. A narrow terminal drops times first.
func hopColumns(width int) []page.Column {
	columns := []page.Column{
		{Title: "#", Right: true, Min: 2},
		{Title: "status", Min: 9},
		{Title: "hop"},
		{Title: "operator", Min: 8, Drop: 3},
		{Title: "node", Min: 8, Drop: 2},
		{Title: "of budget", Min: 11, Drop: 1},
	}
	if width > 0 && width < tiny {
		columns[colHop].Least = 20
	}
	return columns
}

// tiny is the page width below which even the names of hops are truncated.
const tiny = 60

// Indices of the columns that are modified later.
const (
	colStatus = 1 + iota
	colHop
	colOperator
	colNode
	colTime
)

func (r HopRow) cells(number int) []page.Cell {
	return []page.Cell{{Text: strconv.Itoa(number), Style: page.Faint}, r.State, {Text: r.Hop}, r.Operator, r.Node, r.Time}
}

// textShown reports whether rows have room for their text.
func textShown(width int) bool { return width == 0 || width >= textColumnFrom }

// textColumn is the column for what was measured; it is truncated on a terminal.
func textColumn() page.Column { return page.Column{Title: "what was seen", Least: 20} }

// Rows writes hop rows alone, one line each, for a live table. From the first frame on, columns are wide enough for any
// status and any time within the budgets; anything wider is truncated.
func Rows(w io.Writer, rows []HopRow, budgets []int64, o Options) error {
	columns := hopColumns(o.Width)
	status, operator, spent := &columns[colStatus], &columns[colOperator], &columns[colTime]
	status.Min, spent.Min = page.Width("⠋ "+AskingWhy), 0
	for _, s := range diag.Statuses {
		status.Min = max(status.Min, page.Width(page.Status(s).Text))
	}
	for _, b := range budgets {
		// the longest texts of milliseconds and of seconds
		for _, most := range [...]diag.Millis{999, 99_400, diag.Millis(b)} {
			spent.Min = max(spent.Min, page.Width(TimeUsed(most, b)))
			operator.Min = max(operator.Min, page.Width("✘ "+most.Words()))
		}
	}
	names := 0
	for _, r := range rows {
		names = max(names, page.Width(r.Hop))
	}
	if full := columns[0].Min + status.Min + names + 2*operator.Min + spent.Min + len(columns) - 1; full == o.Width+1 {
		spent.Min-- // so that 80 columns have room for every hop's name
	}
	columns[colNode].Min = operator.Min
	for i := colStatus; i <= colTime; i++ {
		columns[i].Max = columns[i].Min
	}
	text := textShown(o.Width)
	if text {
		columns = append(columns, textColumn())
	}
	t := page.Table{Columns: columns}
	for i, r := range rows {
		if page.Width(r.Time.Text) > columns[colTime].Max {
			r.Time.Text = closer(r.Time.Text)
		}
		cells := r.cells(i + 1)
		if text {
			cells = append(cells, r.Text)
		}
		t.Rows = append(t.Rows, page.Row{Cells: cells})
	}
	s := &sheet{o: o}
	s.Add(t)
	return s.write(w)
}

// closer writes a time and its budget in one column less, so that no unit is cut off: "112 ms/12s".
func closer(spent string) string {
	at := strings.LastIndexByte(spent, '/') + 1
	return spent[:at] + strings.ReplaceAll(spent[at:], " ", "")
}

// Counts returns how many hops have each status.
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

// Headline names the subject: node, host, allocation, profile; without control characters.
func Headline(s *diag.Subject) string {
	parts := []string{}
	who := s.NodeID
	if s.NodeHost != "" && s.NodeHost != s.NodeID {
		who = strings.TrimSpace(who + " (" + s.NodeHost + ")")
	}
	if who != "" {
		parts = append(parts, who)
	}
	for _, p := range [][2]string{{"", s.AllocationID}, {"session ", s.SessionID}, {"request ", s.CorrelationID},
		{"profile ", s.EnvironmentProfile}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	if len(parts) == 0 {
		return "preflight"
	}
	return "preflight " + page.Clean(strings.Join(parts, " · "))
}
