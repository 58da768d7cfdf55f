package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// HopInfo describes a hop, for lists of the hops that can be walked.
type HopInfo struct {
	diag.Head

	ID          diag.HopID   `json:"id"`
	Title       string       `json:"title"`
	Layer       diag.Layer   `json:"layer"`
	Vantages    []string     `json:"vantages"`
	BudgetMS    int64        `json:"budget_ms"`
	Steps       []string     `json:"steps"`
	ExplainedBy []diag.HopID `json:"explained_by,omitempty"`
}

// Hops writes the hops in the order of the chain.
func Hops(w io.Writer, hops []HopInfo, o Options) error {
	t := page.Table{Columns: []page.Column{
		{Title: "#", Right: true}, {Title: "hop"}, {Title: "from"}, {Title: "budget", Right: true}, {Title: "what it asks"},
	}}
	for i, h := range hops {
		row := page.Row{Cells: []page.Cell{
			{Text: strconv.Itoa(i + 1), Style: page.Faint}, {Text: string(h.ID)}, {Text: from(h.Vantages)},
			{Text: Budget(h.BudgetMS)},
			{Text: h.Title, Style: page.Faint},
		}}
		if o.all() && len(h.Steps) > 0 {
			row.Below = []page.Block{page.Para{Indent: 5, Lead: "steps ", Text: strings.Join(h.Steps, ", "), Style: page.Faint}}
		}
		t.Rows = append(t.Rows, row)
	}
	s := &sheet{o: o}
	s.Add(t)
	return s.write(w)
}

// from returns where a hop is measured from, short enough for a column.
func from(vantages []string) string {
	if len(vantages) == 2 && vantages[0] == "operator" && vantages[1] == "node" {
		return "both"
	}
	return strings.Join(vantages, "+")
}

// Plan writes what a walk would do.
func Plan(w io.Writer, plan diag.Plan, of diag.Subject, o Options) error {
	t := page.Table{Columns: []page.Column{
		{Title: "#", Right: true}, {Title: "plan"}, {Title: "hop"}, {Title: "from"}, {Title: "budget", Right: true},
		{Title: "steps"},
	}}
	run := 0
	for i := range plan.Hops {
		h := &plan.Hops[i]
		state, text := page.Cell{Text: "› run", Style: page.Good}, strings.Join(h.Steps, ", ")
		if h.Skip != "" {
			state, text = page.Status(diag.StatusSkipped), h.Skip
		} else {
			run++
		}
		t.Rows = append(t.Rows, page.Row{Below: leftOut(h), Cells: []page.Cell{
			{Text: strconv.Itoa(i + 1), Style: page.Faint}, state, {Text: string(h.ID)}, {Text: from(h.Vantages)},
			{Text: Budget(h.BudgetMS)},
			{Text: text, Style: page.Faint},
		}})
	}
	s := &sheet{o: o}
	s.Add(page.Heading{Text: "plan: " + Headline(&of)}, t, page.Para{
		Indent: 2, Text: fmt.Sprintf("%d of %d hops would be walked; nothing was touched", run, len(plan.Hops)),
		Style: page.Faint,
	})
	s.Field("insecure", plan.Insecure(), page.Unsure)
	return s.write(w)
}

// leftOut lists the steps that are omitted from a hop that runs.
func leftOut(h *diag.PlannedHop) []page.Block {
	var under []page.Block
	if h.Skip != "" {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(h.Left)) {
		under = append(under, page.Para{Indent: underIndent, Lead: "└ ", Text: k + " left out: " + h.Left[k],
			Style: page.Faint})
	}
	if h.Absent != "" {
		under = append(under, page.Para{Indent: underIndent, Lead: "└ ", Text: "asked and not judged: " + h.Absent,
			Style: page.Faint})
	}
	return under
}
