package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// steps is the table of a hop's steps, with what each fact measured.
func steps(h *diag.HopResult, facts map[string]*diag.Fact) page.Table {
	var t page.Table
	for i := range h.Steps {
		st := &h.Steps[i]
		took := ""
		if st.DurationMS > 0 {
			took = st.DurationMS.Words()
		}
		style := page.StatusStyle(st.Status)
		row := page.Row{Cells: []page.Cell{
			{Text: strings.Repeat(" ", underIndent+2) + st.Status.Symbol(), Style: style}, {Text: st.Name, Style: style},
			{Text: st.Vantage, Style: style},
			{Text: took, Style: style}, {Text: strings.TrimSpace(string(st.Failure) + " " + st.Because), Style: style},
		}}
		if f := facts[st.Fact]; f != nil {
			for _, l := range Detail(f) {
				lead, rest := labelOf(l)
				row.Below = append(row.Below, page.Para{Indent: underIndent + 6, Lead: lead, Text: rest, Style: page.Faint})
			}
			row.Below = append(row.Below, counters(f, facts)...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// counters lists the counter-probes of a failed fact, each of which differs from it in one input.
func counters(f *diag.Fact, facts map[string]*diag.Fact) []page.Block {
	var lines []page.Block
	for _, id := range slices.Sorted(maps.Keys(facts)) {
		name, ok := strings.CutPrefix(id, f.ID+"~")
		if !ok {
			continue
		}
		c, word := facts[id], "passes"
		if c.Failure != diag.OK {
			word = string(c.Failure)
		}
		lines = append(lines, page.Para{Indent: underIndent + 6, Lead: "↳ ",
			Text: fmt.Sprintf("%s %s %s %s", name, c.Vantage, c.DurationMS.Words(), word)})
	}
	return lines
}

// labelOf splits a detail after its label, so that continuation lines can be aligned with the value. It does not split
// off a long label.
func labelOf(l string) (lead, rest string) {
	const longest = 8
	inner := strings.TrimLeft(l, " ")
	word, rest, ok := strings.Cut(inner, " ")
	lead = l[:len(l)-len(inner)] + word + " "
	if !ok || page.Width(lead) > longest {
		return l[:len(l)-len(inner)], inner
	}
	return lead, rest
}

// Detail returns what a fact measured, one line per phase, without control characters.
func Detail(f *diag.Fact) []string {
	var lines []string
	add := func(what string, parts ...string) {
		var kept []string
		for _, s := range parts {
			if s != "" {
				kept = append(kept, page.Clean(s))
			}
		}
		if len(kept) > 0 {
			lines = append(lines, what+" "+strings.Join(kept, ", "))
		}
	}
	target := cmp.Or(f.Target, f.Request.Target)
	add(page.Clean(string(f.Request.Op)), target)
	for _, section := range f.Sections() {
		for _, l := range section.Words() {
			name := strings.TrimLeft(l.About, " ")
			add(l.About[:len(l.About)-len(name)]+page.Clean(name), l.Words...)
		}
	}
	if f.AgentView != "" {
		add("seen as the agent:", f.AgentView)
	}
	if f.Errno != "" || f.Detail != "" {
		add("detail", f.Errno, f.Detail)
	}
	return lines
}
