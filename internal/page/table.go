package page

import (
	"cmp"
	"slices"
	"strings"
)

// Table is rows under titles. On a pipe every cell is complete, on one line. On a terminal, a table is fitted in this
// order: columns with a Drop are left out, cells of columns with a Least are cut, the last column is wrapped in place,
// and trailing columns are written below their row, each value after its title.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Column describes one column.
type Column struct {
	Title string
	Right bool // numbers
	Min   int  // minimum width, so that a live table does not jump
	Max   int  // maximum width; a longer cell is cut; 0: none
	Least int  // width to which a terminal may cut it; 0: it is never cut
	Drop  int  // a terminal may leave it out, the lowest number first; 0: never
}

// Row is one row. Below is written under it, in text only.
type Row struct {
	Cells []Cell
	Below []Block
}

// Titles returns columns that have only a title.
func Titles(titles ...string) []Column {
	columns := make([]Column, len(titles))
	for i, t := range titles {
		columns[i].Title = t
	}
	return columns
}

// Cells returns a row of plain cells; an empty one is "-".
func Cells(texts ...string) Row {
	cells := make([]Cell, len(texts))
	for i, t := range texts {
		t = cmp.Or(t, "-")
		cells[i].Text = t
	}
	return Row{Cells: cells}
}

const (
	wideGap, narrowGap = 2, 1
	// leastLast is the room that the last column needs to be wrapped in place; with less it is written below.
	leastLast = 28
	// belowIndent is the indentation of cells written below their row.
	belowIndent = 4
)

// layout is how a table fits: its columns by number, from left to right, the columns below, and the gap.
type layout struct {
	beside, below []int
	widths        []int // by the column's number
	gap           int
}

func (t Table) text(w *writer) {
	t = t.cleaned()
	l := t.fit(w.width(0, 0))
	if t.titled() {
		head := make([]Cell, len(t.Columns))
		for i, c := range t.Columns {
			head[i] = Cell{c.Title, Faint}
		}
		t.row(w, &l, head)
	}
	for _, r := range t.Rows {
		t.row(w, &l, r.Cells)
		t.under(w, &l, r.Cells)
		for _, b := range r.Below {
			b.text(w)
		}
	}
}

// cleaned returns the table with cleaned titles and cells, and a column for each cell.
func (t Table) cleaned() Table {
	columns := append([]Column{}, t.Columns...)
	for i := range columns {
		columns[i].Title = Clean(columns[i].Title)
	}
	rows := make([]Row, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = Row{make([]Cell, len(r.Cells)), r.Below}
		for k, c := range r.Cells {
			if k == len(columns) {
				columns = append(columns, Column{})
			}
			c.Text = Clean(c.Text)
			if columns[k].Max > 0 {
				c.Text = Cut(c.Text, columns[k].Max)
			}
			rows[i].Cells[k] = c
		}
	}
	return Table{columns, rows}
}

func (t Table) titled() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Title != "" })
}

// fit chooses columns and widths for a line of limit columns; 0: unlimited.
func (t Table) fit(limit int) layout {
	natural := make([]int, len(t.Columns))
	l := layout{widths: natural, gap: wideGap}
	for i, c := range t.Columns {
		natural[i] = max(c.Min, Width(c.Title))
		l.beside = append(l.beside, i)
	}
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			natural[i] = max(natural[i], Width(c.Text))
		}
	}
	if limit == 0 || l.total(natural) <= limit {
		return l
	}
	least := t.least(natural)
	last := len(natural) - 1
	// columns keep their positions, whatever the last one contains
	roomy := append(append([]int{}, natural[:last]...), least[last])
	if l.total(roomy) > limit {
		l.gap = narrowGap
	}
	for l.total(least) > limit {
		if !l.drop(t.Columns) && !l.lower() {
			break
		}
	}
	spare := max(limit-l.total(least), 0)
	l.widths = least
	for _, i := range l.beside {
		more := min(natural[i]-least[i], spare)
		least[i] += more
		spare -= more
	}
	return l
}

// least returns the minimum width of each column. The last one is wrapped rather than cut, unless it sets Least or Max.
func (t Table) least(natural []int) []int {
	least := append([]int{}, natural...)
	for i, c := range t.Columns {
		switch {
		case c.Least > 0:
			least[i] = max(c.Min, min(c.Least, natural[i]))
		case i == len(t.Columns)-1:
			least[i] = min(leastLast, natural[i])
		}
	}
	return least
}

// total returns the width of a line.
func (l *layout) total(widths []int) int {
	n := l.gap * (len(l.beside) - 1)
	for _, i := range l.beside {
		n += widths[i]
	}
	return n
}

// drop leaves out the next column that may be dropped; false if there is none.
func (l *layout) drop(columns []Column) bool {
	first := -1
	for at, i := range l.beside {
		if d := columns[i].Drop; d > 0 && (first < 0 || d < columns[l.beside[first]].Drop) {
			first = at
		}
	}
	if first >= 0 {
		l.beside = append(l.beside[:first:first], l.beside[first+1:]...)
	}
	return first >= 0
}

// lower moves the last column below; false if only one is left.
func (l *layout) lower() bool {
	last := len(l.beside) - 1
	if last == 0 {
		return false
	}
	l.beside, l.below = l.beside[:last], append([]int{l.beside[last]}, l.below...)
	return true
}

// row writes one line, or several if its last cell is wrapped.
func (t Table) row(w *writer, l *layout, cells []Cell) {
	at, n := 0, len(l.beside)
	for n > 1 && (l.beside[n-1] >= len(cells) || cells[l.beside[n-1]].Text == "") {
		n--
	}
	w.begin(0)
	for k, i := range l.beside[:n] {
		if i >= len(cells) {
			break
		}
		c, room := cells[i], l.widths[i]
		if k == n-1 && i == len(t.Columns)-1 && t.Columns[i].Least == 0 && Width(c.Text) > room {
			t.wrapped(w, at, room, c)
			return
		}
		c.Text = Cut(c.Text, room)
		blank := spaces(room - Width(c.Text))
		if t.Columns[i].Right {
			w.b.WriteString(blank)
			blank = ""
		}
		w.put(c.Text, c.Style)
		w.b.WriteString(blank + spaces(l.gap))
		at += room + l.gap
	}
	w.end()
}

// wrapped writes the last cell of a line, starting at a column.
func (t Table) wrapped(w *writer, at, room int, c Cell) {
	for i, line := range Wrap(c.Text, room) {
		if i > 0 {
			w.begin(at)
		}
		w.put(line, c.Style)
		w.end()
	}
}

// under writes the cells that are below their row, except empty ones.
func (t Table) under(w *writer, l *layout, cells []Cell) {
	var parts []string
	for _, i := range l.below {
		if i >= len(cells) || cells[i].Text == "" || cells[i].Text == "-" {
			continue
		}
		text := cells[i].Text
		if title := t.Columns[i].Title; title != "" {
			text = strings.ToLower(title) + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) > 0 {
		w.hang(belowIndent, "", strings.Join(parts, "; "), Plain)
	}
}
