package render

// Column describes one column of a list.
type Column struct {
	Title string
	Right bool // numbers
	Min   int  // columns that it has at the least, so that a live list does not jump
	Give  int  // columns that it may lose, when the list is too wide; the last column with Give gives first
	Drop  bool // may go as a whole, when that is not enough; the last one goes first
}

// Cell is one field of a row. Text must be clean.
type Cell struct {
	Text  string
	Style Style
}

const columnGap = 1

// list writes rows under titles, no line wider than the page. Widths come from the contents; it is a writer of its own
// because a fleet has ten thousand rows and each costs two passes over its cells, nothing else.
func (p *page) list(columns []Column, rows [][]Cell, after func(row int)) {
	widths := measure(columns, rows)
	shrink(columns, widths, p.width)
	p.lines(columns, widths, rows, after)
}

// lines writes titles and rows in columns of given widths.
func (p *page) lines(columns []Column, widths []int, rows [][]Cell, after func(row int)) {
	titles := false
	for _, c := range columns {
		titles = titles || c.Title != ""
	}
	if titles {
		head := make([]Cell, len(columns))
		for i, c := range columns {
			head[i] = Cell{c.Title, Faint}
		}
		p.row(columns, widths, head)
	}
	for i, r := range rows {
		p.row(columns, widths, r)
		if after != nil {
			after(i)
		}
	}
}

func measure(columns []Column, rows [][]Cell) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = max(c.Min, width(c.Title))
	}
	for _, r := range rows {
		for i := range r {
			if n := width(r[i].Text); n > widths[i] {
				widths[i] = n
			}
		}
	}
	return widths
}

// shrink takes what is too much from the columns that may give, from the right.
func shrink(columns []Column, widths []int, limit int) {
	total := columnGap * (len(columns) - 1)
	for _, w := range widths {
		total += w
	}
	for i := len(columns) - 1; i >= 0 && total > limit; i-- {
		give := min(columns[i].Give, total-limit, widths[i])
		widths[i] -= give
		total -= give
	}
	for i := len(columns) - 1; i >= 0 && total > limit; i-- {
		if columns[i].Drop {
			total -= widths[i] + columnGap
			widths[i] = dropped
		}
	}
}

// dropped is the width of a column that is not shown.
const dropped = -1

func (p *page) row(columns []Column, widths []int, cells []Cell) {
	last := len(cells) - 1
	for last > 0 && (cells[last].Text == "" || widths[last] == dropped) {
		last--
	}
	for i := 0; i <= last; i++ {
		if widths[i] == dropped {
			continue
		}
		text, w := cells[i].Text, width(cells[i].Text)
		if w > widths[i] {
			text = cut(text, widths[i])
			w = width(text)
		}
		if columns[i].Right {
			p.b.WriteString(spaces(widths[i] - w))
		}
		p.put(text, cells[i].Style)
		if i == last {
			break
		}
		if !columns[i].Right {
			p.b.WriteString(spaces(widths[i] - w))
		}
		p.b.WriteString(spaces(columnGap))
	}
	p.newline()
}
