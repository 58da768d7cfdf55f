package render

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// summary adds what a pull request or a handover needs: the verdict, the matrix, and then each drill, with failed
// drills first and expanded.
func (s *sheet) summary(r *drill.Report) {
	s.Add(page.Heading{Text: word(r.Verdict.Word).Text + ": " + counts(r)})
	s.Add(page.Para{Text: Title(r)})
	s.Add(page.Para{Text: ended(r), Style: page.Strong}, page.Para{Text: insecure(r), Style: page.Strong})
	s.Field("not run", notRun(r), page.Plain)
	if len(r.Drills) > 0 {
		s.Add(table(r, true))
	}
	for _, passed := range [...]bool{false, true} {
		for i := range r.Drills {
			d := &r.Drills[i]
			if (d.Verdict.Word == drill.Pass) != passed {
				continue
			}
			one := &sheet{}
			one.Add(page.Para{Text: d.Title}, page.Para{Text: d.Verdict.Text})
			one.drill(r, d, 0)
			title := word(d.Verdict.Word).Text + " " + d.Scenario
			if passed && len(r.Drills) > 1 {
				s.Add(page.Fold{Title: title, Blocks: one.Blocks})
				continue
			}
			s.Add(page.Heading{Text: title, Level: 3})
			s.Add(one.Blocks...)
		}
	}
	s.Add(page.Para{Text: writtenBy(r)})
}

// writtenBy names the tool that ran the drills and, if that is another version, the tool that rendered the page.
func writtenBy(r *drill.Report) string {
	switch {
	case r.RenderedBy == "":
		return fmt.Sprintf("Written by gpuaasctl %s.", r.ToolVersion)
	case r.ToolVersion == "":
		return fmt.Sprintf("Rendered by gpuaasctl %s.", r.RenderedBy)
	}
	return fmt.Sprintf("Run by gpuaasctl %s, rendered by gpuaasctl %s.", r.ToolVersion, r.RenderedBy)
}
