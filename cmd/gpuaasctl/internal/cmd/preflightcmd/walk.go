package preflightcmd

import (
	"context"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// walkAndShow walks within the deadline. shown means that the report is already on the screen, explore that the
// operator asked to open the explorer at the end.
func walkAndShow(a *cmdutil.App, ctx context.Context, s *ops.Session, opts ops.WalkOptions,
	o *preflightOptions) (r *diag.Report, shown, explore bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	in, out := cmdutil.Terminals(a)
	if !cmdutil.IsPage(o.output) || a.Quiet || !tui.Possible(in, out) {
		return s.Walk(ctx, opts, provisional(a, s, o.output)), false, false, nil
	}
	show := tui.Options{In: in, Out: out, Plan: s.Plan(opts), Subject: s.Subject(), Report: a.RenderOptions(o.output),
		Explore: func() { explore = true }}
	r, err = tui.Run(ctx, show, func(ctx context.Context, observe func(walk.Event)) *diag.Report {
		return s.Walk(ctx, opts, observe)
	})
	return r, true, explore, err
}

// provisional returns a function that writes a walk's provisional verdicts as lines, for a line-based format; otherwise
// nil.
func provisional(a *cmdutil.App, s *ops.Session, format string) func(walk.Event) {
	if format != cmdutil.FormatNDJSON || a.Quiet {
		return nil
	}
	return func(e walk.Event) {
		if p := e.Provisional; p != nil {
			line := render.Provisional(s.RunID, s.Subject().NodeID, p.At, p.Blame, p.Waiting)
			_ = a.Write(line) // the report's own lines follow, and report a write error
		}
	}
}
