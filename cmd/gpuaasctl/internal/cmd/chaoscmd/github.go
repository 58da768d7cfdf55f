package chaoscmd

import (
	"io"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// publish adds a run of drills to the page of the CI job, with an error for each drill that did not pass.
func publish(a *cmdutil.App, r *drill.Report) {
	var notes []cmdutil.Annotation
	for i := range r.Drills {
		if d := &r.Drills[i]; d.Verdict.Word != drill.Pass {
			notes = append(notes, cmdutil.Annotation{
				Title: "drill " + d.Scenario + " on " + d.Node + ": " + string(d.Verdict.Word),
				Text:  d.Verdict.Text + "\nowner: " + d.Owner,
			})
		}
	}
	a.Publish(notes, func(w io.Writer) error {
		return drillrender.Report(w, r, render.Options{Format: render.Markdown})
	})
}
