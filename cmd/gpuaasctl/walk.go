package main

import (
	"context"
	"os"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// interruptGrace is how long after its end a walk may still say what it saw: after Ctrl-C the whole must end within a
// second.
const interruptGrace = 800 * time.Millisecond

// walkAndShow walks within the deadline. shown says that the report is on the screen already.
func (a *app) walkAndShow(ctx context.Context, j *job, o *preflightOptions) (r *diag.Report, shown bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	v := j.vantages()
	defer v.close(ctx)
	walk := func(ctx context.Context, observe func(preflight.Event)) *diag.Report {
		return j.await(ctx, v, func(ctx context.Context) *diag.Report { return j.walk(ctx, v, observe) })
	}
	in, out := terminals(a)
	if o.output != formatTable && o.output != formatWide || !tui.Possible(in, out) {
		return walk(ctx, nil), false, nil
	}
	r, err = tui.Run(ctx, tui.Options{In: in, Out: out, Plan: j.plan, Subject: j.env.Subject, Report: a.look(o.output)}, walk)
	return r, true, err
}

// terminals are stdin and stdout as files; nil where they are none.
func terminals(a *app) (in, out *os.File) {
	in, _ = a.stdin.(*os.File)
	out, _ = a.stdout.(*os.File)
	return in, out
}

// await walks, and returns the report; where the walk does not end soon after ctx, a report without facts, so that
// whoever pressed Ctrl-C gets an answer also where a vantage hangs.
func (j *job) await(ctx context.Context, v *vantages, walk func(context.Context) *diag.Report) *diag.Report {
	done := make(chan *diag.Report, 1)
	go func() { done <- walk(ctx) }()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r
	case <-time.After(interruptGrace):
		ended := diag.EndedInterrupted
		if ctx.Err() == context.DeadlineExceeded {
			ended = diag.EndedDeadline
		}
		return j.report(nil, v.infos(nil, hostname()), ended)
	}
}

// walk measures, and judges what it saw. observe, where not nil, is told of every step.
func (j *job) walk(ctx context.Context, v *vantages, observe func(preflight.Event)) *diag.Report {
	facts, ended := preflight.Walk(ctx, &j.env, j.plan, v.byName(), observe)
	var evidence []diag.EvidenceLine
	if ctx.Err() == nil {
		evidence = preflight.Evidence(ctx, &j.env, v.operator)
	}
	r := j.report(facts, v.infos(facts, hostname()), ended)
	r.Evidence = evidence
	return r
}

// hostname is this machine's name; "" where it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
