package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Longer than 300 lines: one run in order, from arming to the last probe; what may end it early is beside what it ends.

// Job is a run, ready to go.
type Job struct {
	Plan  chaos.Plan
	Tool  string // version of the tool that runs it
	Rules string // version of the rules by which Walk judges
	Game  *Game  // the game day that the run is of; nil: none
	// of the plan's targets and looks, by id; "" is where the tool runs
	Machines map[string]Machine
	Walk     func(ctx context.Context) *diag.Report        // the whole chain once; ends within a second of ctx
	Ready    func(ctx context.Context) (chaos.Plan, error) // the plan with what is made for the run; nil where nothing is
	Terminal OpenTerminal                                  // nil: none can be opened
	Decide   func(ctx context.Context, d chaos.Decision) error
	Write    func(e Event, walk *diag.Report) error // writes down, before anything else is done; walk is Sight's
	Observe  func(e Event, s *Story)                // of progress; s may be read until it returns; may be nil
	Abandon  <-chan struct{}                        // the machines are left to themselves when it is closed; may be nil
}

// Times of a run.
const (
	again      = 300 * time.Millisecond // between two walks, looks or questions that did not give what is wanted
	settle     = 15 * time.Second       // for the chain to be green before anything is touched
	lookMost   = 15 * time.Second       // of one try of a probe
	reserve    = 5 * time.Second        // before the ttl ends, the run ends its part by itself
	restTime   = 15 * time.Second       // how long an interrupted run tries to revert and to clear up
	leaveTime  = 10 * time.Second       // to remove what was pushed
	doMost     = 35 * time.Second       // of one try of a step, of two: a machine gives up a step after 65 s
	askMost    = 10 * time.Second       // of one try of a question that only reads
	revertMost = 10 * time.Second       // of one try of a revert: over a connection that is frozen, nothing else ends it
	clearMost  = 30 * time.Second       // of one try of a comparison: it reads many files
	clearTime  = 60 * time.Second       // to compare and to clear up
	armMost    = 10 * time.Second       // an arming whose answer was lost may come to its end as late as this
	decideMost = 30 * time.Second       // for sending a decision to the platform
)

// runner is one run. Its story is the fold of what it has recorded.
type runner struct {
	Job
	began time.Time

	mu             sync.Mutex // guards what follows
	seq            int
	story          Story
	logFailed      bool                 // events cannot be written down any more
	quiet          func()               // ends what breaks things, when they cannot
	kept           map[string]time.Time // when a machine was asked what it last answered with being armed
	armUnconfirmed map[string]bool      // machines whose answer to arming was lost
}

// Run carries out the plan, and gives its story. Whatever happens, and also when ctx ends, every machine that was
// touched is asked to revert everything before it returns, unless it is abandoned: then the machines do so by
// themselves.
func Run(ctx context.Context, j Job) *Story {
	r := &runner{Job: j, began: time.Now(), quiet: func() {}, kept: map[string]time.Time{},
		armUnconfirmed: map[string]bool{}}
	plan := j.Plan.Redacted()
	plan.Facts = nil
	r.tell(Event{Kind: Begun, Plan: &plan, Tool: j.Tool, Rules: j.Rules, Game: j.Game})
	switch {
	case r.logFailed: // nothing is touched that could not be recorded
	case len(plan.Refused) > 0:
		r.tell(Event{Kind: Refused, Refused: plan.Refused})
	default:
		h := r.watchInterrupts(ctx)
		r.harm(r.heard(h.asked))
		r.restore(h)
		h.stop()
	}
	r.tell(Event{Kind: Ended})
	return &r.story
}

// heard is ctx for as long as events can be written down: what could not be recorded any more is not begun.
func (r *runner) heard(ctx context.Context) context.Context {
	ctx, quiet := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quiet = quiet; r.logFailed {
		quiet()
	}
	return ctx
}

// tell adds an event to the story after writing it to the log. If writing fails, nothing more is broken: the story
// goes on without a log, and reports that.
func (r *runner) tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	walk := e.walk
	e.walk = nil
	r.seq++
	e.Seq, e.At, e.MS = r.seq, diag.At(time.Now()), time.Since(r.began).Milliseconds()
	if !r.logFailed {
		failed = r.Write(e, walk)
	}
	r.take(e)
	if failed != nil {
		r.logFailed = true
		r.quiet()
		r.seq++
		r.take(Event{Seq: r.seq, At: e.At, MS: e.MS, Kind: Stopped,
			Text: fmt.Sprintf("the run's log cannot be written: %v", failed)})
	}
}

// take takes an event into the story; the caller holds mu.
func (r *runner) take(e Event) {
	r.story.Add(e)
	if r.Observe != nil {
		r.Observe(e, &r.story)
	}
}

func (r *runner) trouble(machine string, err error) {
	if err != nil {
		r.tell(Event{Kind: Trouble, Machine: machine, Text: err.Error()})
	}
}

// refuse returns why nothing may be touched.
func (r *runner) refuse(machine, code, text string) {
	r.tell(Event{Kind: Refused,
		Refused: []chaos.Refusal{{Machine: machine, Refusal: step.Refusal{Code: code, Text: text}}}})
}

// walk walks once, and records it. A walk that ctx has cut short shows nothing, and is not recorded.
func (r *runner) walk(ctx context.Context, stage Stage) Sight {
	began := time.Since(r.began).Milliseconds()
	report := r.Walk(ctx)
	if report == nil {
		report = &diag.Report{Run: diag.Run{EndedBy: diag.EndedError},
			Verdict: diag.Verdict{Outcome: diag.OutcomeInconclusive}}
	}
	s := See(report, stage)
	if ctx.Err() != nil {
		return s
	}
	walks := read(r, func(s *Story) []Sight { return s.Walks })
	s.N = len(walks) + 1
	s.owned(walks)
	s.BeganMS, s.EndedMS = began, time.Since(r.began).Milliseconds()
	r.tell(Event{Kind: Walked, Sight: &s, walk: report})
	return s
}

// each does the same on every machine of the plan at once.
func (r *runner) each(f func(t chaos.PlannedMachine, m Machine)) {
	var wg sync.WaitGroup
	for _, t := range r.Plan.Targets {
		wg.Go(func() { f(t, r.Machines[t.ID]) })
	}
	wg.Wait()
}

// read reads the story.
func read[T any](r *runner, f func(s *Story) T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(&r.story)
}

// harm is all that is done until the revert: it checks whether anything may be broken, makes the machines
// ready, and breaks it. From when a machine is ready its lease is renewed.
func (r *runner) harm(ctx context.Context) {
	if !r.prepare(ctx) {
		return
	}
	ctx, end := context.WithCancelCause(ctx)
	ttl := time.Now().Add(r.Plan.Budgets.TTL.Std())
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer end(errEnough)
	r.each(func(t chaos.PlannedMachine, m Machine) {
		if r.arm(ctx, t, m) {
			renewing.Go(func() { r.renew(ctx, t, m, end) })
		}
	})
	if ctx.Err() != nil || !read(r, (*Story).ready) {
		return
	}
	terminal, ok := r.hold(ctx)
	defer terminal.leave()
	if ok {
		r.during(ctx, ttl.Add(-reserve), end, terminal)
	}
}

// green walks until the chain is green. It may need a moment: of an earlier drill something may still be on its way.
func (r *runner) green(ctx context.Context) bool {
	for until := time.Now().Add(settle); ; pause(ctx, again) {
		w := r.walk(ctx, Before)
		if ctx.Err() != nil || w.Green() || time.Now().After(until) {
			return ctx.Err() == nil && w.Green()
		}
	}
}

// prepare brings the run to where machines may be made ready: the chain is green, and independent probes can
// distinguish the fault from its absence.
func (r *runner) prepare(ctx context.Context) bool {
	for _, t := range r.Plan.Targets {
		if r.Machines[t.ID] == nil {
			r.trouble(t.ID, errors.New("there is no way to reach it"))
			return false
		}
	}
	if !r.green(ctx) || !r.tellApart(ctx) {
		return false
	}
	if r.Ready == nil {
		return true
	}
	plan, err := r.Ready(ctx)
	if err == nil && (plan.Hash != r.Plan.Hash || plan.Run != r.Plan.Run || len(plan.Refused) > 0) {
		err = errors.New("the plan changed meanwhile")
	}
	if err != nil {
		r.trouble("", fmt.Errorf("make what the run needs: %w", err))
		return false
	}
	r.Plan = plan
	return ctx.Err() == nil
}

// tellApart looks before anything is touched. A look that shows the fault already would show nothing later on, and what
// must still work has to work now.
func (r *runner) tellApart(ctx context.Context) bool {
	var wg sync.WaitGroup
	wg.Go(func() { r.look(ctx, r.Plan.Injected, Before, false) })
	wg.Go(func() { r.look(ctx, r.Plan.Control, Before, true) })
	wg.Wait()
	return read(r, (*Story).claimProbes).state == Held
}

// arm makes one machine ready, and wants it confirmed over a connection of its own: the one that armed it may be the
// last that ever comes through.
func (r *runner) arm(ctx context.Context, t chaos.PlannedMachine, m Machine) bool {
	if r.tell(Event{Kind: Arming, Machine: t.ID}); ctx.Err() != nil {
		return false
	}
	// the machine compares the clocks: since the survey, walks and looks have taken their time
	t.Drill.At = time.Now().UTC()
	reply, err := m.Fault(ctx, t.Drill.Encode(), "arm")
	m.Reconnect()
	if err == nil && reply.Refused != nil {
		r.refuse(t.ID, reply.Refused.Code, reply.Refused.Text)
		return false
	}
	if err != nil {
		r.mu.Lock()
		r.armUnconfirmed[t.ID] = true
		r.mu.Unlock()
	} else if reply.Error != "" {
		err = errors.New(reply.Error)
	}
	r.trouble(t.ID, err)
	asked := time.Now()
	now, err := try(ctx, m, askMost, "status", "--run", r.Plan.Run)
	switch {
	case err != nil:
		r.trouble(t.ID, fmt.Errorf("confirm that it is armed: %w", err))
	case now.Status == nil || now.Status.Phase != step.PhaseArmed || now.Status.Watchdog == 0:
		r.tell(Event{Kind: Trouble, Machine: t.ID, Text: "is not armed" + orNothing(": ", says(now)), Status: now.Status})
	default:
		r.keep(t.ID, asked)
		r.tell(Event{Kind: Armed, Machine: t.ID, Status: now.Status, TookUS: reply.TookUS})
		return true
	}
	return false
}

// keep notes that a machine was armed when it was asked.
func (r *runner) keep(id string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[id] = asked
}

// ready reports whether every machine can revert itself.
func (s *Story) ready() bool {
	return len(s.Machines) > 0 && !slices.ContainsFunc(s.Machines, func(p Part) bool { return !p.Armed })
}

// says is the error in a command's reply, or "".
func says(r step.Reply) string {
	switch {
	case r.Refused != nil:
		return r.Refused.Error()
	case r.Error != "":
		return r.Error
	}
	return ""
}
