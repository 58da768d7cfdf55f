package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// matrixColumns are in the order of a run. A narrow terminal drops the lowest Drop first: the residue on a machine
// matters more than the names of hop and signal.
func matrixColumns() []page.Column {
	return []page.Column{
		{Title: "drill", Least: 14}, {Title: "injected", Drop: 4}, {Title: "detected", Drop: 8}, {Title: "budget", Drop: 5},
		{Title: "hop", Least: 20, Drop: 3}, {Title: "signal", Least: 20, Drop: 2}, {Title: "blame", Drop: 7},
		{Title: "user saw", Least: 16, Drop: 1}, {Title: "recovered", Drop: 6}, {Title: "residue", Drop: 9},
		{Title: "verdict"},
	}
}

// table has one row for each drill; whole disables leaving out and truncating.
func table(r *drill.Report, whole bool) page.Table {
	t := page.Table{Columns: matrixColumns()}
	for i := range t.Columns {
		if whole {
			t.Columns[i].Least, t.Columns[i].Drop = 0, 0
		}
	}
	for i := range r.Drills {
		c := cellsOf(&r.Drills[i])
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{
			c.drill, c.injected, c.detected, c.budget, c.hop, c.signal, c.blame, c.saw, c.recovered, c.residue, c.verdict,
		}})
	}
	return t
}

// matrix adds the table, then the reasons of drills that did not pass, and last the verdict.
func (s *sheet) matrix(r *drill.Report, whole bool) {
	s.Add(page.Heading{Text: Title(r)})
	if len(r.Drills) > 0 {
		s.Add(table(r, whole), page.Blank{})
	}
	for i := range r.Drills {
		if d := &r.Drills[i]; d.Verdict.Word != drill.Pass {
			s.Add(page.Para{Lead: word(d.Verdict.Word).Text + " ",
				Text: fmt.Sprintf("%s: %s (run %s)", d.Scenario, d.Verdict.Text, d.Run)})
		}
	}
	s.foot(r)
}

// Title names the set of drills.
func Title(r *drill.Report) string {
	parts := []string{page.Count(len(r.Drills)+len(r.NotRun), "drill")}
	if b := r.Game; b != nil {
		parts = []string{"game day " + b.ID + page.Prefixed(": ", b.Title), fmt.Sprintf("seed %d", b.Seed)}
	}
	if r.Profile != "" {
		parts = append(parts, "profile "+r.Profile)
	}
	if !r.StartedAt.IsZero() {
		parts = append(parts, r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	return strings.Join(parts, " · ")
}

func notRun(r *drill.Report) string { return strings.Join(r.NotRun, ", ") }

// foot adds the summary: drills that were not run, the counts, and the worst verdict.
func (s *sheet) foot(r *drill.Report) {
	s.Field("not run", notRun(r), page.Unsure)
	s.limits(r)
	if b := r.Game; b != nil {
		s.Field("order", strings.Join(b.Order, ", "), page.Faint)
	}
	s.Add(page.Para{Text: loud(r.Verdict.Word) + " · " + counts(r), Style: word(r.Verdict.Word).Style})
}

// loud returns a verdict as symbol and word, in capitals.
func loud(w drill.Word) string { return strings.ToUpper(word(w).Text) }
