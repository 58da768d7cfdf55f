package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/history"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// envHistory switches the history off: nothing is read, nothing is kept.
const envHistory = "GPUAASCTL_HISTORY"

// Times that the history may take of a walk.
const (
	recallGrace   = 250 * time.Millisecond // after a walk, for a date that is nice to have
	recallBudget  = 3 * time.Second        // for the good walks: what a baseline and what is kept are compared with
	keepBudget    = 3 * time.Second        // for writing, after the document is out
	historyBudget = 10 * time.Second       // of a history command
)

// goodRuns is how many kept good walks tell noise from news.
const goodRuns = 20

// baselineFlag is --baseline and what it means.
type baselineFlag struct {
	name string
	file *diag.Report // of a baseline that is a file
}

// add declares --baseline.
func (b *baselineFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.name, "baseline", "", "say what changed since `FILE` (a report) or "+diag.LastGood)
	err := cmd.RegisterFlagCompletionFunc("baseline", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{diag.LastGood}, cobra.ShellCompDirectiveDefault
	})
	if err != nil {
		panic(err) // a flag that was just declared
	}
}

// read reads a baseline that is a file. Under --fail-on regression the last good walk is the one that is meant.
func (b *baselineFlag) read(ctx context.Context, a *app, failOn string) error {
	if b.name == "" && failOn == failOnRegression {
		b.name = diag.LastGood
	}
	if b.name == "" || b.name == diag.LastGood {
		return nil
	}
	if b.name == "-" {
		return usagef("--baseline: want a file or %s", diag.LastGood)
	}
	data, err := a.readAll(ctx, b.name)
	if err == nil {
		b.file, err = parseReport(data)
	}
	if err == nil {
		b.file, err = preflight.Replay(b.file)
	}
	if err != nil {
		return usagef("--baseline %s: %w", b.name, err)
	}
	return nil
}

// recall is what a walk needs of the history. It is fetched beside the walk, so that it costs the walk no time.
type recall struct {
	off    string // why there is no history
	cancel context.CancelFunc

	opened chan struct{} // closed when store, err and at are set
	store  *history.Store
	err    error
	at     diag.Time

	done    chan struct{} // closed when good and goodErr are set, too
	good    []*diag.Report
	goodErr error // why the good walks could not be read; the history itself can
}

// historyOff says why the history is not used, "" where it is.
func (a *app) historyOff() (string, error) {
	switch v := a.env(envHistory); v {
	case "", "on":
		return "", nil
	case "off":
		return envHistory + "=off", nil
	default:
		return "", usagef("%s: want on or off, not %q", envHistory, v)
	}
}

func (a *app) historyPath() (string, error) { return history.Path(a.env, os.Geteuid() == 0) }

// recall begins to fetch. keep says that a report will be kept, so that the file is made.
func (a *app) recall(ctx context.Context, of diag.Subject, plan diag.Plan, keep bool) *recall {
	m := &recall{opened: make(chan struct{}), done: make(chan struct{}), cancel: func() {}}
	if m.off, m.err = a.historyOff(); m.off != "" || m.err != nil {
		close(m.opened)
		close(m.done)
		return m
	}
	ctx, m.cancel = context.WithTimeout(ctx, recallBudget)
	go func() {
		defer close(m.done)
		subject := history.SubjectOf(of)
		if m.open(ctx, a, subject, keep); m.store != nil && m.err == nil {
			m.good, m.goodErr = m.store.Good(ctx, subject, history.Shape(plan), goodRuns)
		}
	}()
	return m
}

func (m *recall) open(ctx context.Context, a *app, subject history.Subject, keep bool) {
	defer close(m.opened)
	path, err := a.historyPath()
	if err == nil {
		if keep {
			m.store, err = history.Open(ctx, path)
		} else if m.store, err = history.OpenExisting(ctx, path); errors.Is(err, history.ErrNone) {
			return
		}
	}
	if err != nil {
		m.err = err
		return
	}
	m.at, m.err = m.store.LastGoodAt(ctx, subject)
}

// within waits for a part of the history, at most d; it reports whether it is there.
func within(d time.Duration, part <-chan struct{}) bool {
	select {
	case <-part:
		return true
	case <-time.After(d):
		return false
	}
}

// lastGoodAt is when the subject last passed; zero where that is not known in time.
func (m *recall) lastGoodAt() diag.Time {
	if !within(recallGrace, m.opened) {
		return diag.Time{}
	}
	return m.at
}

// compare gives r its diff. Where there is nothing to compare with, the diff says why.
func (m *recall) compare(b *baselineFlag, r *diag.Report) {
	if b.name == "" {
		return
	}
	var good []*diag.Report
	why := ""
	switch {
	case !within(recallBudget, m.done):
		why = "the history did not answer in time"
	case m.off != "":
		why = m.off
	case m.err != nil || m.goodErr != nil:
		why = "the history cannot be read: " + cmp.Or(m.err, m.goodErr).Error()
	default:
		good = m.before(r)
	}
	switch {
	case b.file != nil:
		r.Diff = preflight.Diff(b.file, r, good)
	case len(good) > 0:
		r.Diff = preflight.Diff(good[0], r, good)
	case why != "":
		r.Diff = preflight.NoBaseline(b.name, why)
	default:
		r.Diff = preflight.NoBaseline(b.name, "no earlier good walk of "+strings.TrimSpace(r.Subject.NodeID+" "+r.Subject.AllocationID)+" is kept")
	}
	r.Diff.Baseline.From = b.name
}

// before are the good walks that began before r did: what came later is no baseline of a replay.
func (m *recall) before(r *diag.Report) []*diag.Report {
	return slices.DeleteFunc(slices.Clone(m.good), func(g *diag.Report) bool { return !g.Run.StartedAt.Before(r.Run.StartedAt.Time) })
}

// regressedFrom is the last good walk if r is worse than it, whatever r was told to compare with: else whoever looks without
// a gate, while the gate is red, would turn it green. nil if r is not.
func (m *recall) regressedFrom(r *diag.Report) *diag.Report {
	good := m.before(r)
	if len(good) == 0 || preflight.Diff(good[0], r, good).Regressions() == 0 {
		return nil
	}
	return good[0]
}

// keep keeps the report, once its document is out. A history that cannot be written is a note, never a verdict. A walk
// that could not be compared with the good ones before it is kept, and is no baseline.
func (m *recall) keep(ctx context.Context, a *app, r *diag.Report) {
	if !within(recallBudget, m.opened) || m.off != "" || m.store == nil && m.err == nil {
		return
	}
	if m.err != nil {
		note(a.stderr, "this walk is not kept: %v", m.err)
		a.noteDamaged(m.err)
		return
	}
	if r.Run.EndedBy != diag.EndedCompleted && r.Run.EndedBy != diag.EndedDeadline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepBudget)
	defer cancel()
	passed := r.Verdict.Outcome == diag.OutcomePass || r.Verdict.Outcome == diag.OutcomeWarn
	compared := within(recallBudget, m.done) && m.goodErr == nil
	var better *diag.Report
	if passed && compared {
		better = m.regressedFrom(r)
	}
	if err := m.store.Save(ctx, r, passed && compared && better == nil, preflight.Whole(r.Plan)); err != nil {
		note(a.stderr, "this walk is not kept: %v", err)
		return
	}
	if passed && !compared {
		note(a.stderr, "this walk is kept, and is no baseline: the good ones before it could not be read; to accept it: gpuaasctl history accept %s", r.Run.ID)
	}
	if better != nil {
		note(a.stderr, "this walk regressed, and the last good one stays the baseline; what changed: gpuaasctl history diff %s %s; to accept it: gpuaasctl history accept %s",
			better.Run.ID, r.Run.ID, r.Run.ID)
	}
}

// noteDamaged says how to go on where the file is no history any more.
func (a *app) noteDamaged(err error) {
	if path, none := a.historyPath(); none == nil && history.Damaged(err) {
		note(a.stderr, "to begin a new history: mv %s %s", diag.Quote(path), diag.Quote(path+".bad"))
	}
}

// close ends the fetching and gives the history back.
func (m *recall) close() {
	m.cancel()
	<-m.done
	if m.store != nil {
		_ = m.store.Close() // what was written is committed
	}
}

// withHistory opens the history for a command that is about it. One that is not there, or is none, is no fault of this
// program.
func (a *app) withHistory(ctx context.Context, do func(context.Context, *history.Store) error) error {
	path, err := a.historyPath()
	if err != nil {
		return &usageError{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, historyBudget)
	defer cancel()
	store, err := history.OpenExisting(ctx, path)
	if errors.Is(err, history.ErrNone) {
		return &usageError{err: fmt.Errorf("%w: no walk was kept yet in %s", history.ErrNone, path)}
	}
	if err != nil {
		a.noteDamaged(err)
		return &usageError{err: err}
	}
	return errors.Join(do(ctx, store), store.Close())
}
