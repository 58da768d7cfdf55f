package render

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// HopInfo describes a hop of the chain, for lists of what can be walked.
type HopInfo struct {
	ID          diag.HopID    `json:"id"`
	Title       string        `json:"title"`
	Layer       diag.Layer    `json:"layer"`
	Vantages    []string      `json:"vantages"`
	Budget      time.Duration `json:"-"`
	BudgetMS    int64         `json:"budget_ms"`
	Steps       []string      `json:"steps"`
	ExplainedBy []diag.HopID  `json:"explained_by,omitempty"`
}

// Hops writes the chain, in order. Format JSON gives the list as one document, any other the table.
func Hops(w io.Writer, hops []HopInfo, o Options) error {
	if o.Format == JSON {
		list := make([]HopInfo, len(hops))
		for i, h := range hops {
			if h.BudgetMS == 0 {
				h.BudgetMS = h.Budget.Milliseconds()
			}
			list[i] = h
		}
		return WriteJSON(w, list)
	}
	p := newPage(o)
	rows := make([][]Cell, len(hops))
	for i, h := range hops {
		rows[i] = []Cell{
			{strconv.Itoa(i + 1), Faint},
			{Clean(string(h.ID)), Plain},
			{from(h.Vantages), Plain},
			{Budget(budgetOf(h)), Plain},
			{Clean(h.Title), Faint},
		}
	}
	p.list([]Column{
		{Title: "#", Right: true}, {Title: "hop"}, {Title: "from"}, {Title: "budget", Right: true}, {Title: "what it asks", Give: 1 << 16},
	}, rows, func(i int) {
		if o.Format != Wide {
			return
		}
		p.wrapped(5, "asks  ", Clean(hops[i].Title), Plain)
		if len(hops[i].Steps) > 0 {
			p.wrapped(5, "steps ", Clean(strings.Join(hops[i].Steps, ", ")), Faint)
		}
	})
	return p.flush(w)
}

// from says where a hop is measured from, short enough for a column.
func from(vantages []string) string {
	if len(vantages) > 1 {
		return "both"
	}
	return Clean(strings.Join(vantages, ""))
}

func budgetOf(h HopInfo) int64 {
	if h.BudgetMS != 0 {
		return h.BudgetMS
	}
	return h.Budget.Milliseconds()
}

// Plan writes what a walk would do, without doing it. Format JSON gives the plan as one document.
func Plan(w io.Writer, plan diag.Plan, s diag.Subject, o Options) error {
	if o.Format == JSON {
		return WriteJSON(w, plan)
	}
	p := newPage(o)
	p.line(0, "plan: "+Headline(&s), Strong)
	rows := make([][]Cell, len(plan.Hops))
	run := 0
	for i := range plan.Hops {
		h := &plan.Hops[i]
		state := Cell{"› run", Good}
		if h.Skip != "" {
			state = State(diag.StatusSkipped)
		} else {
			run++
		}
		rows[i] = []Cell{
			{strconv.Itoa(i + 1), Faint}, state, {Clean(string(h.ID)), Plain},
			{from(h.Vantages), Plain}, {Budget(h.BudgetMS), Plain}, {planText(h), Faint},
		}
	}
	p.list([]Column{
		{Title: "#", Right: true}, {Title: "plan"}, {Title: "hop"}, {Title: "from"}, {Title: "budget", Right: true}, {Title: "steps", Give: 1 << 16},
	}, rows, func(i int) { p.planned(&plan.Hops[i]) })
	p.wrapped(2, "", strconv.Itoa(run)+" of "+strconv.Itoa(len(plan.Hops))+" hops would be walked; nothing was touched", Faint)
	return p.flush(w)
}

func planText(h *diag.PlannedHop) string {
	if h.Skip != "" {
		return Clean(h.Skip)
	}
	return Clean(strings.Join(h.Steps, ", "))
}

// planned writes the steps that are left out of a hop that runs.
func (p *page) planned(h *diag.PlannedHop) {
	if h.Skip != "" {
		if p.width < textColumnFrom {
			p.line(underIndent, "└ "+Clean(h.Skip), Faint)
		}
		return
	}
	for _, k := range sortedKeys(h.Left) {
		p.wrapped(underIndent, "└ ", Clean(k)+" left out: "+Clean(h.Left[k]), Faint)
	}
	if h.Absent != "" {
		p.wrapped(underIndent, "└ ", "asked and not judged: "+Clean(h.Absent), Faint)
	}
}
