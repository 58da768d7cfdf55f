package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// page adds the default page: the hops, footnotes, and then the answer, so that it is at the end of the screen.
func (s *sheet) page(r *diag.Report) {
	wide := s.o.Format == Wide
	s.Add(page.Heading{Text: Headline(&r.Subject)})
	s.vantages(r, wide)
	top, answer := len(s.Blocks), answer(r, s.o)
	s.Add(s.hops(r, false))
	if wide {
		s.footnotes(r)
	}
	s.Add(page.Para{Text: Counts(r.Hops), Indent: 2, Style: page.Faint}, page.Blank{})
	before := len(s.Blocks)
	if wide {
		s.run(&r.Run)
	}
	s.diff(r)
	if len(s.Blocks) > before {
		s.Add(page.Blank{})
	}
	s.Add(answer...)
	if all := page.Text(page.Layout{Width: s.o.Width}, s.Blocks...); !wide && s.o.Height > 0 &&
		strings.Count(string(all), "\n") >= s.o.Height {
		s.Blocks[top] = s.hops(r, true)
		s.Blocks[top+1] = page.Para{Text: Counts(r.Hops) + " · other rows are hidden, -o wide shows them", Indent: 2,
			Style: page.Faint}
	}
}

// hops returns the table of hops; if folded, without unremarkable rows.
func (s *sheet) hops(r *diag.Report, folded bool) page.Table {
	t := page.Table{Columns: hopColumns(s.o.Width)}
	wide, parent := s.o.Format == Wide, parents(r)
	switch {
	case wide:
		for i := range t.Columns {
			t.Columns[i].Drop = 0
		}
		t.Columns = append(t.Columns, page.Titles("signal", "failure", "what was seen")...)
	case textShown(s.o.Width):
		t.Columns = append(t.Columns, textColumn())
	case len(parent) > 0 || r.Verdict.Blame != nil:
		t.Columns = append(t.Columns, page.Column{Title: "follows"})
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		by, symptom := parent[h.ID]
		blame := blamed(&r.Verdict, h.ID)
		if folded && !blame && !symptom && unremarkable(h) {
			continue
		}
		row := JudgedRow(h)
		cells := row.cells(i + 1)
		if wide {
			cells = append(cells, page.Cell{Text: string(h.Signal)}, page.Cell{Text: string(h.Failure)})
		}
		switch text := row.Text; {
		case len(t.Columns) == colTime+1:
		case blame && textColumnAt(t):
			cells = append(cells, page.Cell{Text: markOf(&r.Verdict, h.ID) + " · " + findingText(&h.Finding), Style: page.Bad})
		case blame:
			cells = append(cells, page.Cell{Text: markOf(&r.Verdict, h.ID), Style: page.Bad})
		case symptom && textColumnAt(t):
			cells = append(cells, page.Cell{Text: "follows from " + number(r.Hops, by) + " " + string(by)})
		case symptom:
			cells = append(cells, page.Cell{Text: "from " + number(r.Hops, by)})
		case textColumnAt(t):
			cells = append(cells, text)
		}
		for k := range cells {
			switch {
			case symptom:
				cells[k].Style = page.Faint
			case blame && cells[k].Style == page.Plain:
				cells[k].Style = page.Strong
			}
		}
		t.Rows = append(t.Rows, page.Row{Cells: cells, Below: s.below(h, blame || symptom)})
	}
	return t
}

// markOf returns the mark at the end of a blamed hop's row: the blame itself, or a further finding.
func markOf(v *diag.Verdict, id diag.HopID) string {
	if v.Blame != nil && v.Blame.Hop != id {
		return "◀ also"
	}
	return "◀ blame"
}

// textColumnAt reports whether the last column of a table of hops is the text.
func textColumnAt(t page.Table) bool { return t.Columns[len(t.Columns)-1].Title == "what was seen" }

// unremarkable reports whether a hop's row may be folded: it passed, or was not supposed to run.
func unremarkable(h *diag.HopResult) bool {
	switch h.Status {
	case diag.StatusPass, diag.StatusSkipped, diag.StatusNotReached:
		return len(h.Also) == 0
	}
	return false
}

const underIndent = 3

// besideText is the maximum width of a row without its text: a longer text may have been truncated.
const besideText = 82

// below returns the lines below a row: a finding that the answer does not mention, and further findings.
func (s *sheet) below(h *diag.HopResult, spoken bool) []page.Block {
	var under []page.Block
	text := findingText(&h.Finding)
	whole := s.o.Format == Wide || s.o.Width == 0 || (textShown(s.o.Width) &&
		page.Width(page.Clean(text)) <= s.o.Width-besideText)
	switch h.Status {
	case diag.StatusFail, diag.StatusWarn, diag.StatusInconclusive:
		if !spoken && !whole {
			under = append(under, page.Para{Indent: underIndent, Lead: "└ ", Text: text, Style: page.StatusStyle(h.Status)})
		}
	}
	for k := range h.Also {
		also := &h.Also[k]
		under = append(under, page.Para{
			Indent: underIndent, Lead: "└ ", Text: "also " + also.Status.Words() + ": " + findingText(also),
			Style: page.StatusStyle(also.Status),
		})
	}
	return under
}

// parents maps each symptom to the hop that explains it.
func parents(r *diag.Report) map[diag.HopID]diag.HopID {
	m := map[diag.HopID]diag.HopID{}
	if b := r.Verdict.Blame; b != nil {
		for _, s := range append(append([]diag.HopID{}, r.Verdict.Symptoms...), b.Symptoms...) {
			m[s] = b.Hop
		}
	}
	for _, b := range r.Verdict.OtherFindings {
		for _, s := range b.Symptoms {
			if _, taken := m[s]; !taken {
				m[s] = b.Hop
			}
		}
	}
	return m
}

func number(hops []diag.HopResult, id diag.HopID) string {
	for i := range hops {
		if hops[i].ID == id {
			return strconv.Itoa(i + 1)
		}
	}
	return "?"
}

// blamed reports whether the verdict's blame or a further finding is about the hop.
func blamed(v *diag.Verdict, id diag.HopID) bool {
	return (v.Blame != nil && v.Blame.Hop == id) ||
		slices.ContainsFunc(v.OtherFindings, func(b diag.Blame) bool { return b.Hop == id })
}

// findingText is the sentence of a finding.
func findingText(f *diag.Finding) string {
	switch {
	case f.Text != "":
		return f.Text
	case f.Because != "":
		return f.Because
	case f.Failure != diag.OK:
		return f.Failure.Words()
	}
	return string(f.Signal)
}

// footnotes adds why hops or steps did not run, each reason once.
func (s *sheet) footnotes(r *diag.Report) {
	var order []string
	hops := map[string][]string{}
	add := func(why, hop string) {
		if hops[why] == nil {
			order = append(order, why)
		}
		hops[why] = append(hops[why], hop)
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		switch h.Status {
		case diag.StatusSkipped, diag.StatusNotReached:
			add(h.Status.Words()+": "+findingText(&h.Finding), strconv.Itoa(i+1))
			continue
		}
		for _, st := range h.Steps {
			if st.Status == diag.StatusSkipped || st.Status == diag.StatusNotReached {
				add("step "+st.Status.Words()+": "+st.Because, strconv.Itoa(i+1)+" "+st.Name)
			}
		}
	}
	for _, why := range order {
		s.Add(page.Para{Indent: underIndent - 1, Text: why + " (" + strings.Join(hops[why], ", ") + ")", Style: page.Faint})
	}
}

// vantages adds which vantages were not available and, with all, which were used.
func (s *sheet) vantages(r *diag.Report, all bool) {
	for _, v := range r.Vantages {
		var parts []string
		for _, part := range []string{v.How, v.Host} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		if v.Resolver != "" {
			parts = append(parts, "DNS "+v.Resolver)
		}
		if v.ClockOffsetMS != nil {
			parts = append(parts, fmt.Sprintf("clock %+d ms", *v.ClockOffsetMS))
		}
		style := page.Faint
		if v.Missing != "" {
			parts, style = append(parts, "missing: "+v.Missing), page.Bad
		}
		if all || v.Missing != "" {
			s.Add(page.Para{Indent: 2, Lead: fmt.Sprintf("%-8s ", v.ID), Text: strings.Join(parts, " · "), Style: style})
		}
	}
}

func (s *sheet) run(run *diag.Run) {
	var parts []string
	for _, f := range [][2]string{{"", run.ID}, {"", run.DurationMS.Words()}, {"gpuaasctl ", run.ToolVersion}} {
		if f[1] != "" {
			parts = append(parts, f[0]+f[1])
		}
	}
	s.Field("run", strings.Join(parts, " · "), page.Faint)
	s.Field("trace", run.CorrelationID, page.Faint)
}
