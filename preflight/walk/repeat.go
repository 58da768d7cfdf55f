package walk

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	// repeatTimeout bounds a repeat of a failing request, repeatPassing a counter-probe of a silent one. The former is
	// shorter than a kernel's first retransmission, so one lost packet is one silent repeat. The first repeats, which
	// show whether there is silence, have firstRepeat and the time of an answer.
	repeatTimeout = 900 * time.Millisecond
	firstRepeat   = 300 * time.Millisecond
	repeatPassing = 1500 * time.Millisecond
	// silentBurst is how many copies of a silent request are sent at once, and burst how many of any other: of two
	// servers behind one name, one may work.
	silentBurst, burst = 4, 2
	// answerMargin is how much longer than the quickest answer a repeat waits.
	answerMargin = 500 * time.Millisecond
)

// repeater repeats a failing request in turn with those that differ from it in one input: failing, passing, failing,
// passing. The repeats of a silent request begin while it is still open, and run beside it.
type repeater struct {
	w       *walker
	h       *hop.Hop
	step    hop.Step
	req     diag.Request
	budget  *budgeted
	cancel  context.CancelFunc
	stopped chan struct{} // closed when no repeat runs beside the request any more

	mu    sync.Mutex // guards begun
	begun bool       // repeats have begun while the request was open

	// Used by the goroutine of the repeats until stopped is closed, then by the step's.
	counters []hop.Counter  // counter-probes that were sent
	failing  *diag.Fact     // the fact that they are compared with
	asked    map[string]int // runs by counter-probe; "" is the request itself
}

// startRepeats starts to repeat a request once it has been silent for SilentFor. The caller must call end or finish.
func (w *walker) startRepeats(walk, ctx context.Context, h *hop.Hop, s hop.Step, req diag.Request,
	budget *budgeted) *repeater {
	r := &repeater{w: w, h: h, step: s, req: req, budget: budget, stopped: make(chan struct{}), asked: map[string]int{}}
	ctx, r.cancel = context.WithCancel(ctx)
	if s.Policy.Turn == hop.AtEnd || !repeatable(s, req) || !req.Op.Row().Ladder { // a second look is itself a repeat
		close(r.stopped)
		return r
	}
	go func() {
		defer close(r.stopped)
		for _, need := range s.Needs.Hops {
			select {
			case <-w.hopDone[string(need)]:
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(h.PatienceFor(hop.Step{Timeout: SilentFor}, budget.total))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if _, gate := w.gate(h, s, false); ctx.Err() != nil || !gate.Open() {
			return
		}
		r.mu.Lock()
		r.begun = ctx.Err() == nil
		r.mu.Unlock()
		r.run(walk, ctx)
	}()
	return r
}

// repeatable reports whether a request has no effect and so may be sent again. A request that mints, claims, opens or
// waits for something is sent once.
func repeatable(s hop.Step, req diag.Request) bool {
	if (s.Policy.Once != nil && s.Policy.Once(req)) || req.Poll != nil || req.Op.Row().Once {
		return false
	}
	return req.Method == "" || req.Method == "GET"
}

// end stops the repeats that run beside the request; finish then begins with the first.
func (r *repeater) end() {
	r.cancel()
	<-r.stopped
	r.begun = false
}

// finish repeats a request that failed, or waits for the repeats that began while it was open.
func (r *repeater) finish(walk, ctx context.Context, f *diag.Fact) {
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
	if r.failing == nil || !reading.FailsAlike(r.failing, f) { // the request ended in another way than its repeats
		r.ask(walk, ctx, r.countersOf(f))
	}
}

// run makes the rounds. While the request itself is silent, its first failing repeat is what is compared.
func (r *repeater) run(walk, ctx context.Context) {
	open := r.failing == nil
	var compare []hop.Counter
	if !open {
		compare = r.countersOf(r.failing)
		if !r.worthwhile(compare) {
			r.ask(walk, ctx, compare)
			return
		}
	}
	var passed, compared []hop.Counter // of the counter-probes, by their first answers
	n, most := 0, r.rounds(compare)    // rounds of the counter-probes
	for round := 0; round <= most && n < most && r.hasTime() && ctx.Err() == nil; round++ {
		again := []hop.Counter{{From: r.step.From, Request: r.req}}
		for _, f := range r.ask(walk, ctx, r.burst(append(again, compared...))) {
			// Only the request itself was sent so far.
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
			if slices.ContainsFunc(found, func(f diag.Fact) bool { return hop.Reused(&f) }) {
				most++ // an answer over a reused connection does not count
			}
			passed, compared = r.sort(found)
		default:
			n++
			r.ask(walk, ctx, r.burst(passed))
		}
	}
}

// caseWith returns the case of the facts so far, with f as the request's own.
func (r *repeater) caseWith(f *diag.Fact) *hop.Case {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	c := r.w.snapshot()
	c.Put(f)
	return c
}

// countersOf returns the probes that differ from a failing one in one input, without those that were sent before. A
// fact for which the judge has no finding needs none.
func (r *repeater) countersOf(f *diag.Fact) []hop.Counter {
	if f.Failure == diag.HostExhausted {
		return nil // more probes would use up more
	}
	c := r.caseWith(f)
	if len(r.h.Judge(c)) == 0 {
		return nil
	}
	counters := reading.NetworkCounters(r.w.env, f)
	if r.h.Counter != nil {
		counters = append(counters, r.h.Counter(r.w.env, c, f)...)
	}
	counters = slices.DeleteFunc(counters, func(k hop.Counter) bool {
		return slices.ContainsFunc(r.counters, func(old hop.Counter) bool { return old.Name == k.Name })
	})
	r.counters = append(r.counters, counters...)
	return counters
}

// ask sends counter-probes, or the request itself again, all at once, if there is time. It records their facts, except
// those that were cancelled because the request itself was answered meanwhile.
func (r *repeater) ask(walk, ctx context.Context, counters []hop.Counter) []diag.Fact {
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
			req.ID = hop.RepeatID(req.ID, n)
		}
		// An older helper refuses Fresh, so the first run of a counter-probe goes without it.
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
		wg.Go(func() { // one call for each: a quick answer is recorded at once
			f := r.w.probeBeside(walk, ctx, from[i], reqs[i])
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

// patience returns how long one repeat or counter-probe may take.
func (r *repeater) patience(k hop.Counter) time.Duration {
	limit := time.Duration(k.Request.TimeoutMS) * time.Millisecond
	switch {
	case k.Name == "" && r.failing == nil:
		limit = min(repeatTimeout, firstRepeat+answerTrips*r.w.rtt())
	case k.Name == "":
		limit = repeatTimeout
	case r.failing != nil && reading.GotNoAnswer(r.failing):
		limit = min(limit, repeatPassing)
	}
	if seen := r.shortestAnswer(k); seen > limit { // a shorter wait hears nothing
		limit = seen + answerMargin
	}
	return r.h.PatienceFor(hop.Step{Timeout: limit}, r.budget.total)
}

// shortestAnswer returns how long the quickest answer took that this walk got from the endpoint of a probe.
func (r *repeater) shortestAnswer(k hop.Counter) (least time.Duration) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	at := hop.HostPortOf(k.Request.Target)
	if r.failing != nil && k.Request.Target == r.failing.Request.Target {
		at = hop.HostPortOf(reading.Target(r.failing))
	}
	for _, f := range r.w.facts {
		took := time.Duration(f.DurationMS) * time.Millisecond
		if reading.Status(f) != 0 && f.Request.Poll == nil && hop.HostPortOf(reading.Target(f)) == at &&
			(least == 0 || took < least) {
			least = took
		}
	}
	return least
}

// hasTime reports whether the hop's budget has time for another request.
func (r *repeater) hasTime() bool { return time.Until(r.budget.end()) >= counterLeast }
