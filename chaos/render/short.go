package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// short writes one untruncated line for each drill, for lists and pipes.
func (s *sheet) short(r *drill.Report) {
	for i := range r.Drills {
		d := &r.Drills[i]
		c := cellsOf(d)
		parts := []string{c.drill.Text, orWord(d.Node, "–"), "detected " + c.detected.Text + "/" + c.budget.Text}
		if o := d.Observed; o != nil && o.Blame != nil {
			parts = append(parts, c.hop.Text, c.signal.Text)
		}
		parts = append(parts, "residue "+c.residue.Text)
		if d.Verdict.Word != drill.Pass && d.Verdict.Text != "" {
			parts = append(parts, d.Verdict.Text)
		}
		s.Add(page.Line{c.verdict, {Text: "  " + strings.Join(append(parts, "run "+d.Run), "  ")}})
	}
	for _, id := range r.NotRun {
		s.Add(page.Line{page.Marked(diag.StatusSkipped, "not run"), {Text: "  " + id}})
	}
	if how := ended(r); how != "" {
		s.Add(page.Line{page.Marked(diag.StatusInconclusive, fmt.Sprintf("%s  %s", orWord(r.EndedBy, "not known"), how))})
	}
	if note := insecure(r); note != "" {
		s.Add(page.Line{page.Marked(diag.StatusWarn, note)})
	}
}
