// Package walk runs a plan: it sends the requests of its steps from their vantages, repeats and varies what fails, and
// collects the facts.
package walk

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// Longer than 300 lines: the scheduling of steps is one state under one lock.

const (
	// SilentFor is how long a request may go without an answer before its repeats begin.
	SilentFor = time.Second
	// counterLeast is the least time for a counter-probe: one that is cut short proves nothing.
	counterLeast = 500 * time.Millisecond
	// endGrace is how long a walk waits for its vantages after its end: after Ctrl-C the whole must end within a
	// second.
	endGrace = 800 * time.Millisecond
	// pullGrace is how long it then waits for evidence that is being read.
	pullGrace = 100 * time.Millisecond
)

// errBudget ends a step whose hop has no time left.
var errBudget = errors.New("the hop's budget is used up")

// EventKind is what a walk just did.
type EventKind int

// The events, in the order in which one hop sends them.
const (
	HopStarted EventKind = iota
	StepDone
	CountersStarted // of a step that failed: its counter-probes are sent now
	CountersDone
	HopDone
	EvidenceAwaited // of no hop: all are done, and the platform's evidence is being read
	LikelySoFar     // of no hop: the provisional blame has changed
)

// Event is one line of progress. At counts from the start of the walk.
type Event struct {
	Kind   EventKind
	Hop    diag.HopID
	Step   diag.StepResult // of StepDone
	Count  int             // number of requests, of CountersStarted and CountersDone
	Result diag.HopResult  // of HopDone; provisional: the report is judged once more over all facts
	At     time.Duration

	Provisional *Provisional // of LikelySoFar
}

// Walk runs every step of the plan as soon as its needs have passed. It returns the facts in chain order, and how the
// walk ended: completed, by ctx's deadline, or interrupted. If observe is not nil, it is called from one goroutine at a
// time, and never after Walk has returned. Walk returns within a second of ctx's end, with what was measured by then,
// even if a vantage blocks past ctx; only then do goroutines outlive it, until that vantage returns.
func Walk(ctx context.Context, e *hop.Env, plan diag.Plan, vantages map[string]hop.Vantage,
	observe func(Event)) ([]diag.Fact, diag.EndedBy) {
	chain := chainOf(e).Of(&plan).List()
	w := &walker{
		env: e, chain: chain, plan: plan, vantages: vantages, observe: observe, start: time.Now(),
		secrets: cmp.Or(e.Known, e.Secrets()),
		facts:   map[string]*diag.Fact{}, status: map[diag.HopID]diag.Status{}, loads: map[string]endpointLoad{},
		hopDone: map[string]chan struct{}{}, factDone: map[string]chan struct{}{},
	}
	for i := range chain {
		w.hopDone[string(chain[i].ID)] = make(chan struct{})
		for _, s := range chain[i].Steps {
			w.factDone[hop.FactID(chain[i].ID, s.Name)] = make(chan struct{})
		}
	}
	w.openAhead(ctx)
	var wg sync.WaitGroup
	for i := range chain {
		wg.Go(func() { w.runHop(ctx, &chain[i]) })
	}
	telling, quiet := context.WithCancel(ctx)
	defer quiet()
	var teller sync.WaitGroup
	if observe != nil {
		teller.Go(func() { w.reportProvisional(telling) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
		w.endAhead()
		w.lookAgain(ctx)
		quiet()
		teller.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(endGrace):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observe = nil
	facts := w.inOrder(chain)
	for i := range facts { // also of a secret that the walk got later
		w.secrets.Clean(&facts[i])
	}
	return facts, endedByNow(ctx)
}

// runHop runs a hop's steps, then its counter-probes, then judges it.
func (w *walker) runHop(ctx context.Context, h *hop.Hop) {
	defer close(w.hopDone[string(h.ID)])
	planned := w.planned(h)
	if planned.Skip == "" {
		begun := sync.OnceFunc(func() { w.emit(Event{Kind: HopStarted, Hop: h.ID}) })
		total := time.Duration(planned.BudgetMS) * time.Millisecond
		hopBudget, behind := &budgeted{total: total}, &budgeted{total: total}
		var wg sync.WaitGroup
		for _, s := range h.Steps {
			if s.Policy.Turn == hop.AtEnd {
				continue
			}
			budget := hopBudget
			if w.opening(s) != "" && len(s.Needs.Facts) == 0 { // the hop's other steps need not wait for a login
				budget = behind
			}
			wg.Go(func() {
				defer close(w.factDone[hop.FactID(h.ID, s.Name)])
				if planned.Left[s.Name] == "" && !s.Pure() {
					w.runStep(ctx, h, s, begun, budget)
				}
			})
		}
		wg.Wait()
	} else {
		for _, s := range h.Steps {
			close(w.factDone[hop.FactID(h.ID, s.Name)])
		}
	}
	w.finishHop(ctx, h)
}

// lookAgain runs the steps AtEnd, when all hops are done.
func (w *walker) lookAgain(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range w.chain {
		h := &w.chain[i]
		planned := w.planned(h)
		for _, s := range h.Steps {
			if s.Policy.Turn == hop.AtEnd && planned.Skip == "" && planned.Left[s.Name] == "" {
				budget := &budgeted{total: time.Duration(planned.BudgetMS) * time.Millisecond}
				wg.Go(func() { w.runStep(ctx, h, s, func() {}, budget) })
			}
		}
	}
}

// budgeted is one hop's time budget, which begins with its first step. Steps that wait only for a login have a budget
// of the same size, which begins when the login is done.
type budgeted struct {
	once  sync.Once
	total time.Duration
	until time.Time
}

func (b *budgeted) end() time.Time {
	b.once.Do(func() { b.until = time.Now().Add(b.total) })
	return b.until
}

// runStep waits for what the step needs, sends its request, and records the fact; on a failure, or while there is no
// answer, it also sends repeats and counter-probes.
//
// A node's step does not wait for its needs: its request is sent behind the login, which saves a round trip for each
// need, and its answer is dropped if a need does not pass. So is an operator's read over connections that are open.
func (w *walker) runStep(walk context.Context, h *hop.Hop, s hop.Step, begun func(), budget *budgeted) {
	login := w.opening(s)
	early := w.sentEarly(h, s, login)
	if !waitFor(walk, s.Needs.Facts, w.factDone) || (!early && !waitFor(walk, hopNames(s.Needs.Hops), w.hopDone)) {
		return
	}
	c, gate := w.gate(h, s, early)
	if walk.Err() != nil || !gate.Open() {
		return
	}
	begun()
	if s.Uses != "" {
		return
	}
	ctx, cancel := w.within(walk, budget, login)
	defer cancel()
	req := s.Ask(w.env, c)
	if req.Op == "" { // this platform lacks what the step needs: nothing is sent
		return
	}
	req.ID = hop.FactID(h.ID, s.Name)
	req.TimeoutMS = h.PatienceFor(s, budget.total).Milliseconds()
	req.Fresh = req.Fresh || (w.env.ReusesVantage && s.From == hop.Node && req.Op.Row().Ladder)
	f, repeating := w.probeLimited(walk, ctx, h, s, req, budget)
	if !w.counts(walk, h, s, early, &f) {
		repeating.end()
		return
	}
	if f.Failure == diag.OK || f.Failure == diag.Cancelled {
		repeating.end()
	}
	w.record(f)
	if s.Policy.Turn != hop.AtEnd { // else its hop is done
		w.settle(walk, ctx, h, s, &f, repeating)
	}
}

// counts reports whether an answer counts: not if it was sent behind a login and a need did not pass, nor if it was
// sent in spite of a health page and does not show that the service works.
func (w *walker) counts(walk context.Context, h *hop.Hop, s hop.Step, early bool, f *diag.Fact) bool {
	if early {
		// also after the walk's end, at which the needed hops end as well: whether the answer counts is not left to which of
		// the two is noticed first
		waitFor(context.WithoutCancel(walk), hopNames(s.Needs.Hops), w.hopDone)
		if _, gate := w.gate(h, s, false); !gate.Open() {
			return false
		}
	}
	return !w.overruled(s) || s.Needs.Overrules.Works(f)
}

// settle reports a step that is done, and sends what its failure asks for.
func (w *walker) settle(walk, ctx context.Context, h *hop.Hop, s hop.Step, f *diag.Fact, repeating *repeater) {
	w.mu.Lock()
	c := w.snapshot()
	c.EndedBy = endedBy(walk)
	step := verdict.AssessStep(&s, c, w.planned(h), w.judged)
	w.mu.Unlock()
	w.emit(Event{Kind: StepDone, Hop: h.ID, Step: step})
	// A fact without a finding (the 400 of a listener that wants a certificate) needs no repeats, and a limiter that
	// refused the operator must not get more requests.
	if f.Failure == diag.OK || f.Failure == diag.Cancelled || (f.Vantage == hop.Operator && f.Throttled()) ||
		len(h.Judge(c)) == 0 {
		repeating.end()
	} else {
		repeating.finish(walk, ctx, f)
	}
	if others := reading.AddressCounters(s, f); len(others) > 0 {
		repeating.ask(walk, ctx, others)
	}
}

// planned returns the plan's row of a hop.
func (w *walker) planned(h *hop.Hop) *diag.PlannedHop { return (&hop.Case{Plan: w.plan}).Planned(h.ID) }

// sentEarly reports whether a step's request does not wait for its needs: behind a login, or a read of the operator's
// for which an earlier walk has left a connection open. A first walk would need more connections at once.
func (w *walker) sentEarly(h *hop.Hop, s hop.Step, login diag.HopID) bool {
	if login != "" {
		return true
	}
	if !w.env.ReusesVantage || !w.operatorSends(h, s) || s.Policy.Changes || s.Needs.Session ||
		s.Policy.Turn == hop.AtEnd || len(s.Needs.Facts) > 0 {
		return false
	}
	req := s.Ask(w.env, w.lockedSnapshot())
	return repeatable(s, req) && !reading.HasEffect(&req)
}

// lockedSnapshot is snapshot for a caller that does not hold mu.
func (w *walker) lockedSnapshot() *hop.Case {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot()
}

// judged returns the status of a hop that has ended.
func (w *walker) judged(id diag.HopID) diag.Status { return w.status[id] }

// opening returns the needed hop that opens the vantage of a step; "" if the step is not sent behind a login.
func (w *walker) opening(s hop.Step) diag.HopID {
	for _, id := range s.Needs.Hops {
		if hop.In(w.chain, id).Opens == s.From {
			return id
		}
	}
	return ""
}

// within bounds a step by its hop's budget, which begins with the hop's first step or, for a request behind a login,
// when the login is done.
func (w *walker) within(walk context.Context, budget *budgeted, login diag.HopID) (
	context.Context, context.CancelFunc) {
	if login == "" {
		return context.WithDeadline(walk, budget.end())
	}
	ctx, cancel := context.WithCancelCause(walk)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-w.hopDone[string(login)]:
		case <-ctx.Done():
			return
		}
		if w.failed(login) { // without a login, the request cannot be sent
			cancel(errBudget)
			return
		}
		timer := time.NewTimer(time.Until(budget.end()))
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errBudget)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// failed reports whether a hop that is done blocks those that need it.
func (w *walker) failed(id diag.HopID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	needs := hop.Needs{Hops: []diag.HopID{id}}
	return !needs.Gate(&hop.Case{Plan: w.plan}, w.judged).Open()
}

// gate returns the case of the facts so far, and what the step's gate says by them, with or without what it needs of
// hops. A hop whose health page alone failed does not hold up a step with Overrules.
func (w *walker) gate(h *hop.Hop, s hop.Step, early bool) (*hop.Case, hop.Gate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.snapshot()
	if o := s.Needs.Overrules; o != nil && reading.WorthATry(o, c) {
		s.Needs.Hops = world.Without(s.Needs.Hops, []diag.HopID{o.Hop()})
	}
	if early { // they are still open
		s.Needs.Hops = nil
	}
	return c, s.Gate(c, w.planned(h), w.judged)
}

// overruled reports whether a hop that the step needs did not pass. A step that has run nevertheless did so by its
// Overrules.
func (w *walker) overruled(s hop.Step) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.Needs.Overrules != nil && !s.Needs.Gate(&hop.Case{Plan: w.plan}, w.judged).Open()
}

// waitFor blocks until all named hops or facts are done, and reports whether the walk still goes on.
func waitFor(walk context.Context, names []string, done map[string]chan struct{}) bool {
	for _, name := range names {
		select {
		case <-done[name]:
		case <-walk.Done():
			return false
		}
	}
	return true
}

// probe sends requests to a vantage. A time-out after the walk has ended is not evidence about the far side, and is
// recorded as cancelled. A request that the end of its hop's budget cancelled is recorded as a time-out.
func (w *walker) probe(walk, ctx context.Context, from string, reqs []diag.Request) []diag.Fact {
	place := w.vantages[from]
	if place == nil { // the caller has no such vantage
		place = nowhere(from)
	}
	for i := range reqs {
		w.secrets.Add(reqs[i].Secrets()...)
	}
	facts := place.Probe(ctx, reqs)
	for i := range facts {
		w.secrets.Clean(&facts[i])
		cut := facts[i].Failure == diag.Cancelled && !hop.Lost(&facts[i])
		if cut && context.Cause(ctx) == errBudget { //nolint:errorlint // set by us, never wrapped
			facts[i].Failure = diag.Timeout
		}
	}
	if ended := endedByNow(walk); ended != diag.EndedCompleted {
		for i := range facts {
			if facts[i].Failure.Silent() {
				facts[i].Failure = diag.Cancelled
				facts[i].Detail = "the walk ended by " + string(ended)
			}
		}
	}
	return facts
}

// finishHop judges the hop by the facts so far, for the hops that need it and for the live view.
func (w *walker) finishHop(walk context.Context, h *hop.Hop) {
	w.mu.Lock()
	c := w.snapshot()
	c.EndedBy = endedBy(walk)
	r := verdict.AssessHop(h, c, w.judged)
	w.status[h.ID] = r.Status
	w.mu.Unlock()
	w.emit(Event{Kind: HopDone, Hop: h.ID, Result: r})
}

func hopNames(ids []diag.HopID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return names
}

// chainOf returns the chain to walk.
func chainOf(e *hop.Env) *hop.Chain { return cmp.Or(e.Hops, hops.BuiltIn()) }
