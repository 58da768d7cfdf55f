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
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// Longer than 300 lines: one run in order, from arming to the last probe, with each early end next to what it
// ends.

// Job is a run that is ready to start.
type Job struct {
	Plan  chaos.Plan
	Tool  string // version of the tool that runs it
	Rules string // version of the rules by which Walk judges
	Game  *Game  // the game day that the run belongs to; nil: none
	// of the plan's targets and probes, by id; "" is the operator's machine
	Machines map[string]Machine
	Walk     func(ctx context.Context) *diag.Report // walks the whole chain once; ends within a second of ctx
	// returns the plan with the run's material; nil if there is none
	Ready    func(ctx context.Context) (chaos.Plan, error)
	Terminal OpenTerminal // nil: none can be opened
	Decide   func(ctx context.Context, d chaos.Decision) error
	// logs the event before anything else is done; walk is the report of WalkView
	Write   func(e Event, walk *diag.Report) error
	Observe func(e Event, s *Story) // called on progress; s may be read until it returns; may be nil
	Abandon <-chan struct{}         // closed to leave the machines to themselves; may be nil
}

// Time limits of a run.
const (
	retryPause     = 300 * time.Millisecond // between two walks, probes or requests without the wanted result
	settle         = 15 * time.Second       // for the chain to become green before the drill starts
	probeTimeout   = 15 * time.Second       // of one try of a probe
	reserve        = 5 * time.Second        // the run ends its own part this long before the TTL
	restTime       = 15 * time.Second       // how long an interrupted run tries to revert and to clean up
	leaveTime      = 10 * time.Second       // to remove what was pushed
	stepTimeout    = 35 * time.Second       // per attempt of a step, of two: a machine gives up a step after 65 s
	readTimeout    = 10 * time.Second       // per attempt of a read-only request
	revertTimeout  = 10 * time.Second       // of an attempt of a revert; nothing else ends it on a frozen connection
	compareTimeout = 30 * time.Second       // per attempt of a comparison, which reads many files
	clearTime      = 60 * time.Second       // to compare and to clear up
	armTimeout     = 10 * time.Second       // an arming whose response was lost may end this late
	decideTimeout  = 30 * time.Second       // for sending a decision to the platform
)

// runner executes one run. Its story is the fold of its recorded events.
type runner struct {
	Job
	began time.Time

	mu             sync.Mutex // guards what follows
	seq            int
	story          Story
	logFailed      bool                 // the log can no longer be written
	stopInjecting  func()               // stops the injection in that case
	kept           map[string]time.Time // time of the last request whose response showed the machine armed
	armUnconfirmed map[string]bool      // machines whose response to arming was lost
}

// Run executes the plan and returns its story. In every case, even if ctx ends, it asks each machine that was
// touched to revert everything before it returns. If the run is abandoned, it does not ask: the machines then
// revert themselves.
func Run(ctx context.Context, j Job) *Story {
	r := &runner{Job: j, began: time.Now(), stopInjecting: func() {}, kept: map[string]time.Time{},
		armUnconfirmed: map[string]bool{}}
	plan := j.Plan.Redacted()
	plan.Facts = nil
	r.record(Event{Kind: Begun, Plan: &plan, Tool: j.Tool, Rules: j.Rules, Game: j.Game})
	switch {
	case r.logFailed: // touch nothing that could not be recorded
	case len(plan.Refused) > 0:
		r.record(Event{Kind: Refused, Refused: plan.Refused})
	default:
		h := r.watchInterrupts(ctx)
		r.inject(r.whileLogged(h.asked))
		r.restore(h)
		h.stop()
	}
	r.record(Event{Kind: Ended})
	return &r.story
}

// whileLogged returns a context that ends when the log can no longer be written: an action that cannot be recorded must
// not begin.
func (r *runner) whileLogged(ctx context.Context) context.Context {
	ctx, stopInjecting := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopInjecting = stopInjecting; r.logFailed {
		stopInjecting()
	}
	return ctx
}

// record writes an event to the log and then adds it to the story. If the log cannot be written, nothing more is
// broken; the story continues without a log and reports that.
func (r *runner) record(e Event) {
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
	r.addEvent(e)
	if failed != nil {
		r.logFailed = true
		r.stopInjecting()
		r.seq++
		r.addEvent(Event{Seq: r.seq, At: e.At, MS: e.MS, Kind: Stopped,
			Text: fmt.Sprintf("the run's log cannot be written: %v", failed)})
	}
}

// addEvent adds an event to the story; the caller holds mu.
func (r *runner) addEvent(e Event) {
	r.story.Add(e)
	if r.Observe != nil {
		r.Observe(e, &r.story)
	}
}

func (r *runner) trouble(machine string, err error) {
	if err != nil {
		r.record(Event{Kind: Trouble, Machine: machine, Text: err.Error()})
	}
}

// refuse records why no machine may be touched.
func (r *runner) refuse(machine, code, text string) {
	r.record(Event{Kind: Refused,
		Refused: []chaos.Refusal{{Machine: machine, Refusal: step.Refusal{Code: code, Text: text}}}})
}

// walk walks once and records the result. A walk that ctx interrupted proves nothing and is not recorded.
func (r *runner) walk(ctx context.Context, stage Stage) WalkView {
	began := time.Since(r.began).Milliseconds()
	report := r.Walk(ctx)
	if report == nil {
		report = &diag.Report{Run: diag.Run{EndedBy: diag.EndedError},
			Verdict: diag.Verdict{Outcome: diag.OutcomeInconclusive}}
	}
	s := NewWalkView(report, stage)
	if ctx.Err() != nil {
		return s
	}
	walks := read(r, func(s *Story) []WalkView { return s.Walks })
	s.N = len(walks) + 1
	s.owned(walks)
	s.BeganMS, s.EndedMS = began, time.Since(r.began).Milliseconds()
	r.record(Event{Kind: Walked, WalkView: &s, walk: report})
	return s
}

// each calls f for every machine of the plan concurrently.
func (r *runner) each(f func(t chaos.PlannedMachine, m Machine)) {
	var wg sync.WaitGroup
	for _, t := range r.Plan.Targets {
		wg.Go(func() { f(t, r.Machines[t.ID]) })
	}
	wg.Wait()
}

// read reads the story under the lock.
func read[T any](r *runner, f func(s *Story) T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(&r.story)
}

// inject does everything up to the revert: it checks the preconditions, arms the machines and injects the faults. A
// machine's lease is renewed from its arming on.
func (r *runner) inject(ctx context.Context) {
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
	defer terminal.hangUp()
	if ok {
		r.during(ctx, ttl.Add(-reserve), end, terminal)
	}
}

// green walks until the chain is green. That may take a moment: effects of an earlier drill may still be in
// flight.
func (r *runner) green(ctx context.Context) bool {
	for until := time.Now().Add(settle); ; sleep.For(ctx, retryPause) {
		w := r.walk(ctx, Before)
		if ctx.Err() != nil || w.Green() || time.Now().After(until) {
			return ctx.Err() == nil && w.Green()
		}
	}
}

// prepare checks the preconditions for arming: the chain is green, and the independent probes can distinguish the
// fault from its absence.
func (r *runner) prepare(ctx context.Context) bool {
	for _, t := range r.Plan.Targets {
		if r.Machines[t.ID] == nil {
			r.trouble(t.ID, errors.New("there is no way to reach it"))
			return false
		}
	}
	if !r.green(ctx) || read(r, (*Story).uncontrolled) || !r.tellApart(ctx) {
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

// tellApart runs the probes before any machine is touched. A probe that already shows the fault would prove
// nothing later, and the control probe must pass now.
func (r *runner) tellApart(ctx context.Context) bool {
	var wg sync.WaitGroup
	wg.Go(func() { r.runProbe(ctx, r.Plan.Injected, Before, false) })
	wg.Go(func() { r.runProbe(ctx, r.Plan.Control, Before, true) })
	wg.Wait()
	return read(r, (*Story).claimProbes).state == Held
}

// arm arms one machine, and confirms it over a second connection: the one that armed it may be the last that the
// machine accepts.
func (r *runner) arm(ctx context.Context, t chaos.PlannedMachine, m Machine) bool {
	if r.record(Event{Kind: Arming, Machine: t.ID}); ctx.Err() != nil {
		return false
	}
	// the machine compares clocks, and walks and probes have taken time since the survey
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
	now, err := try(ctx, m, readTimeout, "status", "--run", r.Plan.Run)
	switch {
	case err != nil:
		r.trouble(t.ID, fmt.Errorf("confirm that it is armed: %w", err))
	case now.Status == nil || now.Status.Phase != step.PhaseArmed || now.Status.Watchdog == 0:
		r.record(Event{Kind: Trouble, Machine: t.ID, Text: "is not armed" + orNothing(": ", errorIn(now)),
			Status: now.Status})
	default:
		r.keep(t.ID, asked)
		r.record(Event{Kind: Armed, Machine: t.ID, Status: now.Status, TookUS: reply.TookUS})
		return true
	}
	return false
}

// keep notes the time of a request whose response showed the machine armed.
func (r *runner) keep(id string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[id] = asked
}

// ready reports whether every machine is armed, so that it can revert itself.
func (s *Story) ready() bool {
	return len(s.Machines) > 0 && !slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return !p.Armed })
}

// errorIn returns the error in a command's reply, or "".
func errorIn(r step.Reply) string {
	switch {
	case r.Refused != nil:
		return r.Refused.Error()
	case r.Error != "":
		return r.Error
	}
	return ""
}
