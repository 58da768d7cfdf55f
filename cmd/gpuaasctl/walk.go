package main

import (
	"context"
	"os"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// walkAndShow walks within the deadline. shown says that the report is on the screen already.
func (a *app) walkAndShow(ctx context.Context, j *job, o *preflightOptions, memory *recall) (r *diag.Report, shown bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	j.Vantages = j.vantages()
	defer closeAll(ctx, j.Vantages)
	walk := func(ctx context.Context, observe func(preflight.Event)) *diag.Report {
		j.Observe, j.LastGood = observe, memory.lastGoodAt
		r := preflight.Run(ctx, &j.Job)
		memory.compare(&o.baseline, r)
		return r
	}
	in, out := terminals(a)
	if o.output != formatTable && o.output != formatWide || !tui.Possible(in, out) {
		return walk(ctx, nil), false, nil
	}
	r, err = tui.Run(ctx, tui.Options{In: in, Out: out, Plan: j.Plan, Subject: j.Env.Subject, Report: a.look(o.output)}, walk)
	return r, true, err
}

// terminals are stdin and stdout as files; nil where they are none.
func terminals(a *app) (in, out *os.File) {
	return fileOf(a.stdin), fileOf(a.stdout)
}
