package preflightcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
)

const (
	// A walk makes some twenty requests to node and platform: at shorter intervals it would be load, not monitoring.
	watchShortest, watchLongest = 5 * time.Second, 24 * time.Hour
	// watchPause is the minimum time between two walks, even if a walk takes longer than the interval.
	watchPause = time.Second
)

// watchOptions are the flags of a watch.
type watchOptions struct {
	every      time.Duration // 0: one walk
	full, bell bool
}

func (o *watchOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&o.every, "watch", 0, "walk again every `TIME` (at least 5s) and write only what changes, until Ctrl-C")
	f.BoolVar(&o.full, "full", false,
		"with --watch: also what changes something there: task, terminal session, disk write")
	f.BoolVar(&o.bell, "bell", false, "with --watch: ring the terminal's bell at a change")
	cmdutil.Group(f, cmdutil.HeadWalk, "watch", "full", "bell")
}

// checkWatch refuses conflicting options, before anything is read.
func (o *preflightOptions) checkWatch(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if !given("watch") {
		refuse(given("full"), "--full is about --watch, which is not given: one walk is full")
		refuse(given("bell"), "--bell is about --watch, which is not given")
		return wrongUse(cmd, errors.Join(errs...))
	}
	refuse(o.watch.every < watchShortest || o.watch.every > watchLongest,
		"--watch: want between %s and %s, not %s", "5s", "24h", o.watch.every)
	refuse(given("compare"), "--watch and --compare: a watch compares each walk with the one before it")
	refuse(given("baseline") || o.failOn == cmdutil.FailOnRegression,
		"--watch and a baseline (--baseline, --fail-on regression): a watch compares each walk with the one before it")
	refuse(given("run-ws-smoke") && o.session && !o.watch.full, "--watch opens no terminal session; with --full it does")
	if o.output != cmdutil.FormatTable && o.output != cmdutil.FormatNDJSON && !o.dryRun {
		errs = append(errs, cmdutil.BadFormat(o.output+" --watch", cmdutil.FormatTable, cmdutil.FormatNDJSON))
	}
	return wrongUse(cmd, errors.Join(errs...))
}

func wrongUse(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
}

// watchWalks walks repeatedly, and returns the exit code of the last complete walk.
func (o *preflightOptions) watchWalks(a *cmdutil.App, cmd *cobra.Command, s *ops.Session, walk ops.WalkOptions) error {
	w := s.Watch(o.Deadline)
	defer func() { w.Close(cmd.Context()) }()
	show := newWatchShow(a, o.output, o.watch.bell)
	view := &watch{
		every: o.watch.every, show: show, walk: func(ctx context.Context) *diag.Report { return w.Walk(ctx, walk) },
		each: func(r *diag.Report) error {
			if o.report == "" {
				return nil
			}
			return cmdutil.WriteReport(o.report, r)
		},
	}
	what := compare.NewWatched(s.Site().Hops, s.Plan(walk), s.Subject().NodeID, o.watch.every.Milliseconds(), o.watch.full)
	last, err := view.run(cmd.Context(), what)
	if last == nil {
		return err
	}
	code := cmdutil.CodeOf(cmdutil.Judged(last, o.failOn))
	if err != nil && !errors.Is(err, context.Canceled) {
		return a.ExitError(code, err)
	}
	return a.ExitError(code, nil)
}

// watch is the loop: walk, show what changed, wait.
type watch struct {
	every time.Duration
	walk  func(context.Context) *diag.Report
	show  *watchShow
	each  func(*diag.Report) error // also called with each report
}

// run walks until ctx ends or the output is closed, and returns the last report of a complete walk, or nil.
func (w *watch) run(ctx context.Context, what *compare.Watched) (last *diag.Report, err error) {
	defer w.show.end()
	if err := w.show.begin(what); err != nil {
		return nil, err
	}
	for {
		began := time.Now()
		walking := make(chan *diag.Report, 1)
		go func() { walking <- w.walk(ctx) }()
		r := w.await(began, walking)
		if ctx.Err() != nil {
			return last, context.Cause(ctx)
		}
		if err := errors.Join(w.show.walked(last, r, time.Since(began)), w.each(r)); err != nil {
			return r, err
		}
		last = r
		if !w.pause(ctx, max(time.Until(began.Add(w.every)), watchPause)) {
			return last, context.Cause(ctx)
		}
	}
}

// await waits for a walk, which ends soon after its context.
func (w *watch) await(began time.Time, walking <-chan *diag.Report) *diag.Report {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case r := <-walking:
			return r
		case <-tick.C:
			w.show.beat("walking for " + seconds(time.Since(began)))
		}
	}
}

// pause waits until the next walk; false if ctx ended first.
func (w *watch) pause(ctx context.Context, d time.Duration) bool {
	next := time.Now().Add(d)
	over := time.NewTimer(d)
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.show.beat("next in " + seconds(time.Until(next)))
		select {
		case <-over.C:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
