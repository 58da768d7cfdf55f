package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// column is one of the matrix. A page that is too narrow shortens columns down to what they need at least, and leaves out
// whole ones, those of the lowest rank first.
type column struct {
	title string
	cell  func(*cells) render.Cell
	least int // 0: never shortened
	rank  int // 0: never left out
}

// matrixColumns stand in the order of a run. What broke on a machine outranks what it was called.
func matrixColumns() []column {
	return []column{
		{"drill", func(c *cells) render.Cell { return c.drill }, 14, 0},
		{"injected", func(c *cells) render.Cell { return c.injected }, 0, 4},
		{"detected", func(c *cells) render.Cell { return c.detected }, 0, 8},
		{"budget", func(c *cells) render.Cell { return c.budget }, 0, 5},
		{"hop", func(c *cells) render.Cell { return c.hop }, 20, 3},
		{"signal", func(c *cells) render.Cell { return c.signal }, 20, 2},
		{"blame", func(c *cells) render.Cell { return c.blame }, 0, 7},
		{"user saw", func(c *cells) render.Cell { return c.saw }, 16, 1},
		{"recovered", func(c *cells) render.Cell { return c.recovered }, 0, 6},
		{"residue", func(c *cells) render.Cell { return c.residue }, 0, 9},
		{"verdict", func(c *cells) render.Cell { return c.verdict }, 0, 0},
	}
}

// matrix writes one line for each drill, and below why those are none that passed.
func (p *page) matrix(r *drill.Report) {
	p.head(r)
	rows := make([]cells, len(r.Drills))
	for i := range r.Drills {
		rows[i] = cellsOf(&r.Drills[i])
	}
	if len(rows) > 0 {
		p.rows(rows)
		p.Blank()
	}
	for i := range r.Drills {
		if d := &r.Drills[i]; d.Verdict.Word != drill.Pass {
			p.Wrapped(0, word(d.Verdict.Word).Text+" ", fmt.Sprintf("%s: %s (run %s)", clean(d.Scenario), clean(d.Verdict.Text), clean(d.Run)), render.Plain)
		}
	}
	p.foot(r)
}

// rows writes the lines of the matrix.
func (p *page) rows(rows []cells) {
	columns, widths := fit(matrixColumns(), rows, p.Width())
	titles := make([]render.Column, len(columns))
	for i, c := range columns {
		titles[i] = render.Column{Title: c.title}
	}
	lines := make([][]render.Cell, len(rows))
	for n := range rows {
		for i, c := range columns {
			cell := c.cell(&rows[n])
			cell.Text = render.Cut(cell.Text, widths[i])
			lines[n] = append(lines[n], cell)
		}
	}
	p.List(titles, lines)
}

// fit chooses columns and their widths, so that a line fits into limit.
func fit(all []column, rows []cells, limit int) ([]column, []int) {
	natural := func(c column) int {
		n := render.Columns(c.title)
		for i := range rows {
			n = max(n, render.Columns(c.cell(&rows[i]).Text))
		}
		return n
	}
	for {
		widths, least := make([]int, len(all)), len(all)-1
		total := least
		for i, c := range all {
			widths[i] = natural(c)
			total += widths[i]
			least += shortest(c, widths[i])
		}
		lowest := lowestRank(all)
		if least > limit && lowest >= 0 {
			all = append(all[:lowest:lowest], all[lowest+1:]...)
			continue
		}
		shorten(all, widths, total-limit)
		return all, widths
	}
}

func shortest(c column, natural int) int {
	if c.least == 0 {
		return natural
	}
	return min(c.least, natural)
}

// lowestRank is the column that goes first; -1 when none may.
func lowestRank(all []column) int {
	lowest := -1
	for i, c := range all {
		if c.rank > 0 && (lowest < 0 || c.rank < all[lowest].rank) {
			lowest = i
		}
	}
	return lowest
}

// shorten takes what is too much, from the lowest ranks first; those that are never left out give last.
func shorten(all []column, widths []int, much int) {
	for rank := 1; rank <= len(all)+1 && much > 0; rank++ {
		for i, c := range all {
			if c.rank == rank || c.rank == 0 && rank > len(all) {
				give := min(much, widths[i]-shortest(c, widths[i]))
				widths[i] -= give
				much -= give
			}
		}
	}
}

// head says which drills these are.
func (p *page) head(r *drill.Report) {
	parts := []string{plural(len(r.Drills)+len(r.NotRun), "drill")}
	if b := r.Book; b != nil {
		parts = []string{"game day " + clean(b.ID)}
		if b.Title != "" {
			parts[0] += ": " + clean(b.Title)
		}
		parts = append(parts, fmt.Sprintf("seed %d", b.Seed))
	}
	if r.Profile != "" {
		parts = append(parts, "profile "+clean(r.Profile))
	}
	if !r.StartedAt.IsZero() {
		parts = append(parts, r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	p.Wrapped(0, "", strings.Join(parts, " · "), render.Strong)
}

// foot sums up: how many, the worst, what was not run.
func (p *page) foot(r *drill.Report) {
	v := word(r.Verdict.Word)
	text := strings.Fields(v.Text)[0] + " " + strings.ToUpper(strings.Join(strings.Fields(v.Text)[1:], " "))
	p.Wrapped(0, "", text+" · "+counts(r), v.Style)
	if len(r.NotRun) > 0 {
		p.Field("not run", clean(strings.Join(r.NotRun, ", ")), render.StatusStyle(diag.StatusInconclusive))
	}
	if how := ended(r); how != "" {
		p.Field("partial", how, render.StatusStyle(diag.StatusInconclusive))
	}
	if b := r.Book; b != nil && len(b.Order) > 0 {
		p.Field("order", clean(strings.Join(b.Order, ", ")), render.Faint)
	}
}
