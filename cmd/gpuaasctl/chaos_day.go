package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// gameDay is several drills, one after the other.
type gameDay struct {
	app     *app
	options *runOptions
	runs    []planned
	pause   chaos.Duration
	folder  string // of all runs' logs
	report  *drill.Report
	abandon chan struct{} // closed by leave
	once    sync.Once
}

// run runs them until one leaves something on a machine, or ctx ends.
func (d *gameDay) run(ctx context.Context, observe func(tui.DrillUpdate)) *drill.Report {
	defer d.hearSecond(ctx)()
	r := d.report
	r.EndedBy = diag.EndedCompleted
	for i, p := range d.runs {
		if ctx.Err() != nil || i > 0 && !wait(ctx, d.pause.Std()) {
			r.NotRun = append(r.NotRun, p.scenario.Metadata.ID)
			continue
		}
		if i > 0 && mustStop(r.Drills[len(r.Drills)-1]) {
			for _, rest := range d.runs[i:] {
				r.NotRun = append(r.NotRun, rest.scenario.Metadata.ID)
			}
			break
		}
		r.Drills = append(r.Drills, d.one(ctx, i, p, observe))
	}
	if ctx.Err() != nil {
		r.EndedBy = diag.EndedInterrupted
	}
	r.EndedAt = diag.At(time.Now())
	r.Settle()
	return r
}

// mustStop says that a machine must be looked at before anything else is broken.
func mustStop(d drill.Drill) bool {
	return d.Verdict.Word == drill.Residue || d.Verdict.Word == drill.Conflict || d.Open()
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// leave leaves the machines to themselves.
func (d *gameDay) leave() { d.once.Do(func() { close(d.abandon) }) }

// outlive keeps this process from being ended by what a terminal does that is closed, which may come more than once, and
// by a reader who has read enough: something may be broken that is to be put back, and a report and an exit code are owed
// after that.
func outlive() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE) }

// hearSecond leaves the machines to themselves when the operator asks for the end a second time; a third time ends the
// process. It hears until stop is called.
func (d *gameDay) hearSecond(ctx context.Context) (stop func()) {
	again, ended := make(chan os.Signal, 1), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		select {
		case <-ended:
		case <-again:
			d.leave()
			signal.Stop(again)
			<-ended
		}
	})
	return func() { close(ended); wg.Wait() }
}

// one plans and runs one drill.
func (d *gameDay) one(ctx context.Context, i int, p planned, observe func(tui.DrillUpdate)) drill.Drill {
	deadline := d.options.drills.target.deadline
	p.job = p.job.fresh("diag")
	run := newDrillID(p.job.Began)
	plan, facts := p.plan(ctx, run, deadline)
	log, unwritten := drill.CreateLog(filepath.Join(d.folder, run))
	hands := p.job.hands(p.machines)
	defer hands.close()
	var mu sync.Mutex // a run tells of itself, and of the walk that is under way
	tell := func(e drill.Event, walk *preflight.Event) {
		mu.Lock()
		defer mu.Unlock()
		observe(tui.DrillUpdate{Index: i, Count: len(d.runs), Event: e, Walk: walk})
	}
	story := drill.Run(ctx, drill.Job{
		Plan: plan, Tool: d.report.ToolVersion, Rules: preflight.RulesVersion, Book: d.report.Book, Machines: hands.all(),
		Walk: func(ctx context.Context) *diag.Report {
			return p.job.walk(ctx, deadline, func(e preflight.Event) { tell(drill.Event{}, &e) })
		},
		Ready:  p.ready(plan, facts),
		Decide: p.job.decide,
		Write: func(e drill.Event, walk *diag.Report) error {
			if log == nil {
				return unwritten
			}
			return log.Write(e, walk)
		},
		Observe: func(e drill.Event, _ *drill.Story) { tell(e, nil) }, Abandon: d.abandon,
	})
	result := story.Drill()
	if log != nil {
		result.Log = log.Dir()
		// Every event was synced, and a folder too many harms nobody.
		_ = log.Close()
		_ = drill.Prune(d.folder)
	}
	return result
}

// plan reads the machines and plans. What cannot be read is a reason not to touch anything.
func (p planned) plan(ctx context.Context, run string, deadline time.Duration) (chaos.Plan, chaos.Facts) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	facts, err := p.job.survey(ctx, &p.scenario, p.subject, p.machines)
	plan := chaos.Make(p.scenario, p.job.Env.Profile, p.subject, facts, run)
	if err != nil {
		plan.Refused = unasked(err)
	}
	return plan, facts
}

// fresh is the same job, begun now and under an id of its own.
func (j *job) fresh(what string) *job {
	f := *j
	f.RunID, f.Began, f.Env.CorrelationID = preflight.NewID("run"), time.Now(), preflight.NewID(what)
	return &f
}

// walk walks the whole chain once, under an id of its own.
func (j *job) walk(ctx context.Context, deadline time.Duration, observe func(preflight.Event)) *diag.Report {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	w := j.fresh("drill")
	w.Observe = observe
	w.Plan = preflight.NewPlan(w.Env.Profile, w.Env.Subject, preflight.Options{Session: true, Token: !w.Env.Token.IsZero(), SSH: w.Env.Subject.NodeHost != ""})
	w.Vantages = w.vantages()
	defer closeAll(ctx, w.Vantages)
	return preflight.Run(ctx, &w.Job)
}
