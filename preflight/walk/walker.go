package walk

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// walker is the state of one walk.
type walker struct {
	env      *hop.Env
	secrets  *diag.Secrets // which every answer is cleaned of
	chain    []hop.Hop
	plan     diag.Plan
	vantages map[string]hop.Vantage
	start    time.Time

	hopDone  map[string]chan struct{} // by hop id
	factDone map[string]chan struct{} // by fact id
	ahead    aheads

	mu      sync.Mutex // guards what follows, and calls of observe
	facts   map[string]*diag.Fact
	order   []string // counter-probes, in the order in which they were asked
	status  map[diag.HopID]diag.Status
	loads   map[string]endpointLoad // by vantage and endpoint
	observe func(Event)
}

// nowhere is a vantage that the caller did not provide.
type nowhere string

func (n nowhere) Name() string { return string(n) }
func (n nowhere) Close() error { return nil }

func (n nowhere) Probe(_ context.Context, reqs []diag.Request) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	for i, req := range reqs {
		facts[i] = diag.Fact{ID: req.ID, Vantage: string(n), Request: req, DurationMS: 1, Failure: diag.Unsupported,
			Phase: "ssh", Detail: "this walk has no way to the " + string(n) + "'s host"}
	}
	return facts
}

// endedByNow is endedBy by the clock: a socket may notice the walk's deadline before its context does.
func endedByNow(walk context.Context) diag.EndedBy {
	if deadline, ok := walk.Deadline(); ok && walk.Err() == nil && !time.Now().Before(deadline) {
		return diag.EndedDeadline
	}
	return endedBy(walk)
}

func (w *walker) record(f diag.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts[f.ID] = &f
}

// expect records the order of counter-probes in the report.
func (w *walker) expect(reqs []diag.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range reqs {
		w.order = append(w.order, reqs[i].ID)
	}
}

// snapshot returns the case of a walk that still runs, with the facts so far; the caller holds mu. Facts are immutable,
// so only the index is copied.
func (w *walker) snapshot() *hop.Case {
	c := chainOf(w.env).NewCase(w.env.Subject, w.plan, diag.EndedCompleted, nil)
	for _, f := range w.facts {
		c.Put(f)
	}
	return c
}

func (w *walker) emit(ev Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.observe == nil {
		return
	}
	ev.At = time.Since(w.start)
	w.observe(ev)
}

// inOrder lists the facts in chain order, each followed by its counter-probes; the caller holds mu.
func (w *walker) inOrder(chain []hop.Hop) []diag.Fact {
	facts := []diag.Fact{}
	for i := range chain {
		for _, s := range chain[i].Steps {
			id := hop.FactID(chain[i].ID, s.Name)
			if f := w.facts[id]; f != nil {
				facts = append(facts, *f)
			}
			for _, k := range w.order {
				if w.facts[k] != nil && strings.HasPrefix(k, id+"~") {
					facts = append(facts, *w.facts[k])
				}
			}
		}
	}
	return facts
}

// endedBy returns how the walk with this context ended, EndedCompleted while it still runs.
func endedBy(walk context.Context) diag.EndedBy {
	switch err := context.Cause(walk); {
	case err == nil:
		return diag.EndedCompleted
	case errors.Is(err, context.DeadlineExceeded):
		return diag.EndedDeadline
	default:
		return diag.EndedInterrupted
	}
}
