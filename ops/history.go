package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/history"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// History is where finished walks are stored and found again for comparison.
type History struct {
	Path string
	Off  string // why the history is not used; "" if it is
	Err  error  // why Path is empty
	// Hops is the chain that judges kept walks again; nil: the built-in one.
	Hops *hop.Chain
}

// Baseline is what a walk is compared with.
type Baseline struct {
	Name string       // "" means no comparison; diag.LastGood is the newest good walk of the history
	File *diag.Report // the report of a baseline that is a file, named by Name
}

// Time limits for the history during a walk.
const (
	recallGrace  = 250 * time.Millisecond // after a walk, for a date that is only informative
	recallBudget = 3 * time.Second        // for the good walks, for comparing with a baseline and for storing
	keepBudget   = 3 * time.Second        // for writing, after the document is printed
)

// goodRuns is how many earlier good walks the comparison needs to recognize flapping values. A walk without a baseline
// is first compared with the newest one only: reading a report takes as long as a hop.
const goodRuns = 20

// Recent is what a walk needs of the history. It is read during the walk, so that it takes no extra time.
type Recent struct {
	from   History
	cancel context.CancelFunc

	opened chan struct{} // closed when store, err and last are set
	store  *history.Store
	err    error
	last   *diag.Report // the newest complete walk that passed; nil if there is none

	done    chan struct{} // closed when good and goodErr are also set
	good    []*diag.Report
	goodErr error // why the good walks could not be read although the history can
	of      history.Subject
	shape   string
}

// ReadGood begins to read the newest good walks of a subject: one, or goodRuns with compare. keep means that a report
// will be stored, so the database is created if missing. The caller closes the result.
func (h History) ReadGood(ctx context.Context, of diag.Subject, plan diag.Plan, compare, keep bool) *Recent {
	h.Hops = cmp.Or(h.Hops, hops.BuiltIn())
	m := &Recent{from: h, opened: make(chan struct{}), done: make(chan struct{}), cancel: func() {}, err: h.Err,
		of: history.SubjectOf(of), shape: history.Shape(plan)}
	if h.Off != "" || h.Err != nil {
		close(m.opened)
		close(m.done)
		return m
	}
	runs := 1
	if compare {
		runs = goodRuns
	}
	ctx, m.cancel = context.WithTimeout(ctx, recallBudget)
	go func() {
		defer close(m.done)
		if m.open(ctx, keep); m.store != nil && m.err == nil {
			m.read(ctx, runs)
		}
	}()
	return m
}

func (m *Recent) read(ctx context.Context, runs int) {
	m.good, m.goodErr = m.store.Good(ctx, m.of, m.shape, runs)
}

func (m *Recent) open(ctx context.Context, keep bool) {
	defer close(m.opened)
	var err error
	if keep {
		m.store, err = history.Open(ctx, m.from.Path)
	} else if m.store, err = history.OpenExisting(ctx, m.from.Path); errors.Is(err, history.ErrNone) {
		return
	}
	if err != nil {
		m.err = err
		return
	}
	m.last, m.err = m.store.LastGood(ctx, m.of)
}

// within waits at most d for a part of the history; it reports whether it has been read.
func within(d time.Duration, part <-chan struct{}) bool {
	select {
	case <-part:
		return true
	case <-time.After(d):
		return false
	}
}

// lastGoodAt returns when the subject of r last passed. It returns zero if that was not read in time, or if it was
// another machine of the same name, such as one of an earlier lab.
func (m *Recent) lastGoodAt(r *diag.Report) diag.Time {
	if !within(recallGrace, m.opened) || m.last == nil || !compare.SameEnvironment(m.last, r) {
		return diag.Time{}
	}
	return m.last.Run.EndedAt
}

// Compare sets r's diff. Without a baseline the diff has the reason.
func (m *Recent) Compare(b Baseline, r *diag.Report) {
	if b.Name == "" {
		return
	}
	var good []*diag.Report
	why := ""
	switch {
	case !within(recallBudget, m.done):
		why = "the history did not answer in time"
	case m.from.Off != "":
		why = m.from.Off
	case m.err != nil || m.goodErr != nil:
		why = "the history cannot be read: " + cmp.Or(m.err, m.goodErr).Error()
	default:
		good = m.before(r)
	}
	switch {
	case b.File != nil:
		r.Diff = compare.Diff(b.File, r, good)
	case len(good) > 0:
		r.Diff = compare.Diff(verdict.AsToday(m.from.Hops, good[0]), r, good)
	case why != "":
		r.Diff = compare.NoBaseline(b.Name, why)
	default:
		r.Diff = compare.NoBaseline(b.Name, "no earlier good walk of "+
			strings.TrimSpace(r.Subject.NodeID+" "+r.Subject.AllocationID)+" is kept")
	}
	r.Diff.Baseline.From = b.Name
}

// before returns the good walks of r's environment that began before r: a replay must not be compared with a later
// walk.
func (m *Recent) before(r *diag.Report) []*diag.Report {
	return slices.DeleteFunc(slices.Clone(m.good), func(g *diag.Report) bool {
		return !g.Run.StartedAt.Before(r.Run.StartedAt.Time) || !compare.SameEnvironment(g, r)
	})
}

// regressedFrom returns the last good walk if r is worse than it, whatever baseline r was compared with. Otherwise a
// walk without a gate, made while the gate is red, would become the baseline and turn it green. It returns nil if r is
// not worse, or if the good walks could not be read (m.goodErr). It reads the other good walks only if the newest does
// not decide.
func (m *Recent) regressedFrom(ctx context.Context, r *diag.Report) *diag.Report {
	good := m.before(r)
	if (len(good) == 1 && !compare.MayRegress(verdict.AsToday(m.from.Hops, good[0]), r)) || len(m.good) == 0 {
		return nil
	}
	if len(m.good) == 1 {
		if m.read(ctx, goodRuns); m.goodErr != nil {
			return nil
		}
		good = m.before(r)
	}
	if len(good) > 0 && compare.Diff(verdict.AsToday(m.from.Hops, good[0]), r, good).Regressions() > 0 {
		return good[0]
	}
	return nil
}

// Kept is the result of storing a report. The zero value: it is stored, and a baseline if it passed; or the walk was
// not worth storing.
type Kept struct {
	Err    error        // why it is not kept
	Unread bool         // not a baseline: the earlier good walks could not be read
	Better *diag.Report // not a baseline: it regressed from this walk
}

// Save stores a report. A failure to write the history does not change the verdict. A walk that could not be compared
// with the earlier good ones is stored, but not as a baseline.
func (m *Recent) Save(ctx context.Context, r *diag.Report) (k Kept) {
	if !within(recallBudget, m.opened) || m.from.Off != "" || (m.store == nil && m.err == nil) {
		return k
	}
	if m.err != nil {
		return Kept{Err: m.err}
	}
	if r.Run.EndedBy != diag.EndedCompleted && r.Run.EndedBy != diag.EndedDeadline {
		return k
	}
	ctx, cancel := context.WithTimeout(ctx, keepBudget)
	defer cancel()
	passed := r.Verdict.Outcome == diag.OutcomePass || r.Verdict.Outcome == diag.OutcomeWarn
	compared := within(recallBudget, m.done) && m.goodErr == nil
	if passed && compared {
		k.Better = m.regressedFrom(ctx, r)
		compared = m.goodErr == nil
	}
	k.Unread = passed && !compared
	if err := m.store.Save(ctx, r, passed && compared && k.Better == nil, verdict.Whole(r.Plan)); err != nil {
		return Kept{Err: err}
	}
	return k
}

// Close stops reading and closes the history.
func (m *Recent) Close() {
	m.cancel()
	<-m.done
	if m.store != nil {
		_ = m.store.Close() // all writes are committed
	}
}
