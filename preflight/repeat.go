package preflight

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// repeatTimeout bounds one repeat of a failing question, and repeatPassing one of its counter-probes, while the
	// question itself is silent: the first is shorter than a kernel's patience with its first segment, so that one loss
	// is one silence. The first repeats, which show what is silent there, have firstRepeat and the time of an answer.
	repeatTimeout = 900 * time.Millisecond
	firstRepeat   = 300 * time.Millisecond
	repeatPassing = 1500 * time.Millisecond
	// silentVolley is how many of a silent question are asked at once, and volley how many of another: of two servers
	// behind one name one may be well.
	silentVolley, volley = 4, 2
)

// rounds asks a failing question again, in turn with those that differ from it in one input: failing, passing, failing,
// passing. Those of a silent question begin while it is still open, and run beside it.
type rounds struct {
	w      *walker
	h      *Hop
	step   Step
	req    diag.Request
	budget *budgeted

	cancel  context.CancelFunc
	stopped chan struct{} // closed when nothing runs beside the question any more

	mu    sync.Mutex // guards begun
	begun bool       // beside the question

	// Of the goroutine that asks beside the question, and then of the step's.
	counters []Counter      // that were asked
	failing  *diag.Fact     // with what they are compared
	asked    map[string]int // how often, by counter-probe; "" is the question itself, again
}

// beside begins to ask a question again once it has been silent for a while. The caller ends it, or finishes it.
func (w *walker) beside(walk, ctx context.Context, h *Hop, s Step, req diag.Request, budget *budgeted) *rounds {
	r := &rounds{w: w, h: h, step: s, req: req, budget: budget, stopped: make(chan struct{}), asked: map[string]int{}}
	ctx, r.cancel = context.WithCancel(ctx)
	if s.Last || !repeatable(s, req) || !req.Op.Row().Ladder { // a second look is itself a repeat
		close(r.stopped)
		return r
	}
	go func() {
		defer close(r.stopped)
		for _, need := range s.Needs {
			select {
			case <-w.hopDone[string(need)]:
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(h.patience(Step{Timeout: silentFor}, budget.total))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if _, stop := w.mayRun(ctx, s, false); stop {
			return
		}
		r.mu.Lock()
		r.begun = ctx.Err() == nil
		r.mu.Unlock()
		r.run(walk, ctx)
	}()
	return r
}

// repeatable reports whether a request may be asked again: it does nothing where it is asked. What mints, claims, opens
// or waits for something is asked once.
func repeatable(s Step, req diag.Request) bool {
	if (s.Once != nil && s.Once(req)) || req.Poll != nil || req.Op.Row().Once {
		return false
	}
	return req.Method == "" || req.Method == "GET"
}

// end stops what runs beside the question.
func (r *rounds) end() {
	r.cancel()
	<-r.stopped
}

// finish asks again a question that failed, or waits until that is done where it began beside it.
func (r *rounds) finish(walk, ctx context.Context, f *diag.Fact) {
	r.mu.Lock()
	begun := r.begun
	r.mu.Unlock()
	if !begun {
		r.end()
		r.failing = f
		r.run(walk, ctx)
		return
	}
	<-r.stopped
	r.cancel()
	if r.failing == nil || !failsAlike(r.failing, f) { // the question itself ended in another way than its repeats
		r.ask(walk, ctx, r.countersOf(f))
	}
}

// run makes the rounds. While the question itself is silent, its first repeat that fails shows what to compare it with.
func (r *rounds) run(walk, ctx context.Context) {
	open := r.failing == nil
	var compare []Counter
	if !open {
		compare = r.countersOf(r.failing)
		if !r.worthwhile(compare) {
			r.ask(walk, ctx, compare)
			return
		}
	}
	var passed, compared []Counter // of the counter-probes, by their first answers
	n, most := 0, repeats          // rounds of the counter-probes
	for round := 0; round <= most && n < most && r.hasTime() && ctx.Err() == nil; round++ {
		again := []Counter{{From: r.step.From, Request: r.req}}
		for _, f := range r.ask(walk, ctx, r.volley(append(again, compared...))) {
			// Only the question itself was asked so far.
			if r.failing == nil && f.Failure != diag.OK && f.Failure != diag.Unsupported {
				f.ID = r.req.ID
				r.failing, compare = &f, r.countersOf(&f)
			}
		}
		switch {
		case r.failing == nil:
		case n == 0:
			n = 1
			found := r.ask(walk, ctx, compare)
			if slices.ContainsFunc(found, func(f diag.Fact) bool { return reused(&f) }) {
				most++ // that one does not count
			}
			passed, compared = r.sort(found)
		default:
			n++
			r.ask(walk, ctx, r.volley(passed))
		}
	}
}

// volley is each question several times at once: a network that loses packets makes any single one come out either way.
func (r *rounds) volley(questions []Counter) []Counter {
	if r.failing != nil && !gotNoAnswer(r.failing) && !unreached(r.failing) {
		return slices.Repeat(questions, volley)
	}
	return slices.Repeat(questions, silentVolley)
}

// worthwhile reports whether a failing request is repeated: not where it has an effect, where a refusal would only
// repeat, nor on a host without anything to compare.
func (r *rounds) worthwhile(compare []Counter) bool {
	s := status(r.failing)
	switch {
	case !repeatable(r.step, r.req), r.failing.Throttled(), r.failing.Failure == diag.HostExhausted:
		return false
	case len(compare) == 0:
		return r.req.Op.Row().Ladder && (s == 0 || s >= 500)
	}
	return true
}

// sort selects the counter-probes that are worth repeating by their first answers: those that passed, and failed ones
// that are compared with one that passed. The operator's are repeated in any case.
func (r *rounds) sort(found []diag.Fact) (passed, compared []Counter) {
	c := r.caseWith(r.failing)
	var pass, fail []diag.Fact
	for i := range found {
		if passes(c, r.req.ID, &found[i]) {
			pass = append(pass, found[i])
		} else {
			fail = append(fail, found[i])
		}
	}
	of := func(facts []diag.Fact, k Counter) bool {
		return slices.ContainsFunc(facts, func(f diag.Fact) bool { return f.ID == r.req.ID+"~"+k.Name })
	}
	for _, k := range r.counters {
		differs := func(f diag.Fact) bool { return len(diag.Changed(&f.Request, &k.Request)) == 1 }
		switch {
		case of(pass, k):
			passed = append(passed, k)
		case of(fail, k) && (k.From != r.step.From || slices.ContainsFunc(pass, differs)):
			compared = append(compared, k)
		}
	}
	return passed, compared
}

// caseWith is what is known, with f as the question's own fact.
func (r *rounds) caseWith(f *diag.Fact) *Case {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	c := r.w.snapshot()
	c.put(f)
	return c
}

// countersOf lists the probes that differ in one input from a failing one, without those that were asked before. What
// the judge holds against no hop needs no counter-probe.
func (r *rounds) countersOf(f *diag.Fact) []Counter {
	if f.Failure == diag.HostExhausted {
		return nil // more probes would use up more
	}
	c := r.caseWith(f)
	if len(r.h.Judge(c)) == 0 {
		return nil
	}
	counters := ladderCounters(r.w.env, f)
	if r.h.Counter != nil {
		counters = append(counters, r.h.Counter(r.w.env, c, f)...)
	}
	counters = slices.DeleteFunc(counters, func(k Counter) bool {
		return slices.ContainsFunc(r.counters, func(old Counter) bool { return old.Name == k.Name })
	})
	r.counters = append(r.counters, counters...)
	return counters
}

// ask asks counter-probes, and the question itself once more, all at once, where there is time for them. It records
// what came of them: not what was cut short, since the question itself was answered meanwhile.
func (r *rounds) ask(walk, ctx context.Context, counters []Counter) []diag.Fact {
	if !r.hasTime() {
		return nil
	}
	left := time.Until(r.budget.end())
	var from []string // of each request
	var reqs []diag.Request
	for _, k := range counters {
		req := k.Request
		if req.Op == "" {
			continue
		}
		r.asked[k.Name]++
		n := r.asked[k.Name]
		again := k.Name == "" || n > 1
		if req.ID = r.req.ID; k.Name != "" {
			req.ID += "~" + k.Name
		}
		if again {
			req.ID = repeatID(req.ID, n)
		}
		// A helper of an older release refuses a fresh one, and answers the first.
		req.Fresh, req.TimeoutMS = again && req.Op.Row().Ladder, min(r.patience(k).Milliseconds(), left.Milliseconds()-50)
		from, reqs = append(from, k.From), append(reqs, req)
	}
	if len(reqs) == 0 {
		return nil
	}
	r.w.expect(reqs)
	r.w.emit(Event{Kind: CountersStarted, Hop: r.h.ID, Count: len(reqs)})
	defer r.w.emit(Event{Kind: CountersDone, Hop: r.h.ID, Count: len(reqs)})
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards facts
		facts []diag.Fact
	)
	for i := range reqs {
		wg.Go(func() { // each by itself: what is answered at once is known at once
			f := r.w.probe(walk, ctx, from[i], reqs[i:i+1])[0]
			if f.Failure == diag.Cancelled {
				return
			}
			r.w.record(f)
			mu.Lock()
			defer mu.Unlock()
			facts = append(facts, f)
		})
	}
	wg.Wait()
	slices.SortFunc(facts, func(a, b diag.Fact) int { return strings.Compare(a.ID, b.ID) })
	return facts
}

// patience is how long one repeat or counter-probe may take.
func (r *rounds) patience(k Counter) time.Duration {
	limit := time.Duration(k.Request.TimeoutMS) * time.Millisecond
	switch {
	case k.Name == "" && r.failing == nil:
		limit = min(repeatTimeout, firstRepeat+answerTrips*r.w.rtt())
	case k.Name == "":
		limit = repeatTimeout
	case r.failing != nil && gotNoAnswer(r.failing):
		limit = min(limit, repeatPassing)
	}
	return r.h.patience(Step{Timeout: limit}, r.budget.total)
}

// hasTime reports whether the hop's budget has room for another question.
func (r *rounds) hasTime() bool { return time.Until(r.budget.end()) >= counterLeast }
