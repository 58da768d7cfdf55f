package preflightcmd

import (
	"cmp"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// publish adds a walk to the page of the CI job.
func publish(a *cmdutil.App, r *diag.Report, failOn string) {
	a.Publish(annotations(r, failOn), func(w io.Writer) error {
		return render.Report(w, r, render.Options{Format: render.Markdown})
	})
}

// annotations lists the findings of a walk: as errors if the exit code is an error, else as warnings; none for a pass.
func annotations(r *diag.Report, failOn string) []cmdutil.Annotation {
	v, failed := &r.Verdict, cmdutil.Judged(r, failOn) != nil
	if !failed && v.Outcome == diag.OutcomePass {
		return nil
	}
	first := cmdutil.Annotation{Warning: !failed, Title: "preflight " + r.Subject.NodeID + ": " + string(v.Outcome)}
	lines := []string{v.Because}
	if v.Blame != nil {
		first.Title += " at " + string(v.Blame.Hop)
		lines = append(lines, v.Blame.Text)
	}
	lines = append(lines, "owner: "+cmp.Or(v.Owner, "not known"))
	if len(v.Recovery) > 0 {
		lines = append(lines, "next: "+v.Recovery[0])
	}
	first.Text = strings.TrimLeft(strings.Join(lines, "\n"), "\n")
	all := []cmdutil.Annotation{first}
	for i := range v.OtherFindings {
		b := &v.OtherFindings[i]
		all = append(all, cmdutil.Annotation{Warning: !failed, Title: "also " + string(b.Hop),
			Text: b.Text + "\nowner: " + b.Owner})
	}
	return all
}
