package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// short writes one line for each drill, of which nothing is cut off: lists and pipes read it.
func (p *page) short(r *drill.Report) {
	for i := range r.Drills {
		d := &r.Drills[i]
		c := cellsOf(d)
		parts := []string{c.drill.Text, orWord(d.Node, "–"), "detected " + c.detected.Text + "/" + c.budget.Text}
		if o := d.Observed; o != nil && o.Blame != nil {
			parts = append(parts, c.hop.Text, c.signal.Text)
		}
		parts = append(parts, "residue "+c.residue.Text)
		if d.Verdict.Word != drill.Pass && d.Verdict.Text != "" {
			parts = append(parts, clean(d.Verdict.Text))
		}
		p.Uncut(c.verdict, render.Cell{Text: "  " + strings.Join(append(parts, "run "+clean(d.Run)), "  ")})
	}
	for _, id := range r.NotRun {
		p.Uncut(said(diag.StatusSkipped, "not run"), render.Cell{Text: "  " + clean(id)})
	}
	if how := ended(r); how != "" {
		p.Uncut(said(diag.StatusInconclusive, fmt.Sprintf("%s  %s", orWord(r.EndedBy, "not known"), how)))
	}
}
