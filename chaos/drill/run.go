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

// Job is a run, ready to go.
type Job struct {
	Plan     chaos.Plan
	Machines map[string]Machine                            // of the plan's targets and looks, by id; "" is where the tool runs
	Walk     func(ctx context.Context) *diag.Report        // the whole chain once; ends within a second of ctx
	Ready    func(ctx context.Context) (chaos.Plan, error) // the plan with what is made for the run; nil where nothing is
	Decide   func(ctx context.Context, d chaos.Decision) error
	Write    func(e Event, walk *diag.Report) error // writes down, before anything else is done; walk is Sight's
	Observe  func(e Event, s *Story)                // of progress; s may be read until it returns; may be nil
	Abandon  <-chan struct{}                        // the machines are left to themselves when it is closed; may be nil
}

// Times of a run.
const (
	again     = 300 * time.Millisecond // between two walks or looks that did not give what is wanted
	lookMost  = 15 * time.Second       // of one try of a look
	reserve   = 5 * time.Second        // before the ttl ends, the run ends its part by itself
	restTime  = 15 * time.Second       // how long an interrupted run tries to put back and to clear up
	leaveTime = 10 * time.Second       // to take away what was pushed
)

// runner is one run. Its story is the fold of what it has told.
type runner struct {
	Job
	began time.Time

	mu    sync.Mutex
	seq   int
	story Story
	deaf  error // events cannot be written down any more
}

// Run carries out the plan, and gives its story. Whatever happens, and also when ctx ends, every machine that was touched
// is asked to put everything back before it returns, unless it is abandoned: then the machines do so by themselves.
func Run(ctx context.Context, j Job) *Story {
	r := &runner{Job: j, began: time.Now()}
	plan := j.Plan.Redacted()
	plan.Facts = nil
	r.tell(Event{Kind: Begun, Plan: &plan})
	switch {
	case r.deaf != nil: // nothing is touched that could not be told of
		r.tell(Event{Kind: Trouble, Text: r.deaf.Error()})
	case len(plan.Refused) > 0:
		r.tell(Event{Kind: Refused, Refused: plan.Refused})
	default:
		if r.prepare(ctx) {
			r.during(ctx)
		}
		if ctx.Err() != nil {
			r.tell(Event{Kind: Interrupt, Text: "interrupted by the operator"})
		}
		r.restore(ctx)
	}
	r.tell(Event{Kind: Ended})
	return &r.story
}

// tell adds an event to the story, once it is written down.
func (r *runner) tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e.Seq, e.At, e.MS = r.seq, diag.At(time.Now()), time.Since(r.began).Milliseconds()
	walk := e.walk
	e.walk = nil
	if r.deaf == nil {
		if err := r.Write(e, walk); err != nil {
			r.deaf = fmt.Errorf("the run's log cannot be written: %w", err)
			r.story.Trouble = append(r.story.Trouble, r.deaf.Error())
		}
	}
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

// refuse says why nothing may be touched.
func (r *runner) refuse(machine, code, text string) {
	r.tell(Event{Kind: Refused, Refused: []chaos.Refusal{{Machine: machine, Refusal: step.Refusal{Code: code, Text: text}}}})
}

// walk walks once, and tells. A walk that ctx has cut short says nothing, and is not told of.
func (r *runner) walk(ctx context.Context, stage Stage) Sight {
	began := time.Since(r.began).Milliseconds()
	report := r.Walk(ctx)
	s := See(report, stage)
	if ctx.Err() != nil {
		return s
	}
	r.mu.Lock()
	s.N = len(r.story.Walks) + 1
	r.mu.Unlock()
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

// prepare brings the run to where something may be broken: the chain is green, and every machine can put itself back.
func (r *runner) prepare(ctx context.Context) bool {
	if w := r.walk(ctx, Before); ctx.Err() != nil || !w.Green() {
		return false
	}
	if r.Ready != nil {
		plan, err := r.Ready(ctx)
		if err != nil {
			r.trouble("", fmt.Errorf("make what the run needs: %w", err))
			return false
		}
		if plan.Hash != r.Plan.Hash || len(plan.Refused) > 0 {
			r.trouble("", errors.New("the plan changed while it was made ready"))
			return false
		}
		r.Plan = plan
	}
	r.each(func(t chaos.PlannedMachine, m Machine) { r.arm(ctx, t, m) })
	return ctx.Err() == nil && read(r, func(s *Story) bool {
		return !slices.ContainsFunc(s.Machines, func(p Part) bool { return !p.Armed })
	})
}

// arm makes one machine ready, and wants it confirmed over a connection of its own: the one that armed it may be the last
// that ever comes through.
func (r *runner) arm(ctx context.Context, t chaos.PlannedMachine, m Machine) {
	r.tell(Event{Kind: Arming, Machine: t.ID})
	reply, err := m.Fault(ctx, t.Drill.Encode(), "arm")
	m.Anew()
	if err == nil && reply.Refused != nil {
		r.refuse(t.ID, reply.Refused.Code, reply.Refused.Text)
		return
	}
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	r.trouble(t.ID, err)
	now, err2 := m.Fault(ctx, nil, "status", "--run", r.Plan.Run)
	switch {
	case err2 != nil:
		r.trouble(t.ID, fmt.Errorf("confirm that it is armed: %w", err2))
	case now.Status == nil || now.Status.Phase != step.PhaseArmed || now.Status.Watchdog == 0:
		r.tell(Event{Kind: Trouble, Machine: t.ID, Text: "is not armed" + orNothing(": ", says(now)), Status: now.Status})
	default:
		r.tell(Event{Kind: Armed, Machine: t.ID, Status: now.Status, TookUS: reply.TookUS})
	}
}

// says is what a reply has against its command.
func says(r step.Reply) string {
	switch {
	case r.Refused != nil:
		return r.Refused.Error()
	case r.Error != "":
		return r.Error
	}
	return ""
}
