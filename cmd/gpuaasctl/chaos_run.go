package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// runOptions is what `chaos run` is told.
type runOptions struct {
	drills         drillOptions
	book           string
	seed           uint64
	output, report string
	quiet          bool
}

func newChaosRun(a *app) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run DRILL... | --book BOOK",
		Short: "Break something on real machines, see the chain name it, put it back, prove that nothing is left",
		Long: `Runs drills, one after the other. Each is refused before anything is touched while the chain is not green, or while a
machine's owner has not agreed. Machines put themselves back by a deadline of their own, whatever becomes of this
command, and a drill passes only when everything that it claims was seen: the fault by plain tools, the blame in time,
what had to stay green, the repair, and machines that are as they were.

Ctrl-C puts everything back at once; a second one leaves that to the machines (see "gpuaasctl chaos status").

Exit codes: 0 every drill passed, 2 a drill or the command line is wrong, 3 a drill did not (not_injected, not_detected,
wrong_hop, late, collateral, no_recovery, reverted_early), 5 nothing was decided (infra, conflict, aborted_guard), 7 a
machine is not as it was, which wins over all others, 130 interrupted, 1 internal error.`,
		Example: `  gpuaasctl chaos run api-egress-blocked --profile lab --node-id compute-node-01 --allocation-id alloc-01
  gpuaasctl chaos run our-egress.yaml disk-full --profile lab --node-id compute-node-01 -o json --report drill.json
  gpuaasctl chaos run --book everything --seed 7 --profile lab --node-id compute-node-01 --allocation-id alloc-01`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.chaosRun(cmd, o, args) },
	}
	o.drills.flags(a, cmd)
	cmd.ValidArgsFunction = completeDrills
	f := cmd.Flags()
	f.StringVar(&o.book, "book", "", "a game day: the drills of `BOOK` ("+oneOf(chaos.Books(scenarios.Files))+", or a file), in an order that is drawn")
	f.Uint64Var(&o.seed, "seed", 0, "draw the order from `N`, as an earlier run did (default: a new one, which is printed)")
	f.StringVar(&o.report, "report", "", "also write the JSON report to `FILE`")
	f.BoolVar(&o.quiet, "quiet", false, "no progress on stderr")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatWide, formatShort, formatJSON, formatJUnit, formatMarkdown)
	completeFunc(cmd, "book", func() []string { return chaos.Books(scenarios.Files) })
	return cmd
}

// completeDrills completes any number of drills.
func completeDrills(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	return completeDrill(cmd, nil, word)
}

// planned is a drill that could be run: everything that can be said without a machine has been checked.
type planned struct {
	scenario chaos.Scenario
	job      *job
	subject  chaos.Subject
}

// chaosRun checks everything, runs, and shows what came of it.
func (a *app) chaosRun(cmd *cobra.Command, o *runOptions, args []string) error {
	all, game, pause, err := o.choose(cmd, args)
	if err != nil {
		return err
	}
	if err := checkReportPath(o.report); err != nil {
		return &usageError{err: err, command: cmd.CommandPath()}
	}
	var runs []planned
	for i := range all {
		s := &all[i]
		j, on, err := a.drillJob(cmd, &o.drills, s)
		if err != nil {
			return err
		}
		if _, err := s.Machines(j.Env.Profile, on); err != nil {
			return &usageError{err: err}
		}
		runs = append(runs, planned{*s, j, on})
	}
	folder, err := a.drillsFolder()
	if err != nil {
		return &usageError{err: err}
	}
	day := &gameDay{app: a, options: o, runs: runs, pause: pause, folder: folder, report: &drill.Report{
		APIVersion: diag.APIVersion, Kind: drill.ReportKind, ToolVersion: toolVersion(), Profile: runs[0].job.Env.Profile.Name,
		Book: game, StartedAt: diag.At(time.Now()), Drills: []drill.Drill{},
	}}
	report, shown, err := a.runAndShow(cmd.Context(), day)
	if !shown {
		err = a.writeDrills(report, o.output)
	}
	if o.report != "" {
		err = errors.Join(err, writeDrillReport(o.report, report))
	}
	if err != nil {
		return err
	}
	if code := drillCode(report); code != exitPass {
		return &verdictError{code}
	}
	return nil
}

// choose reads the drills that are meant, in the order in which they are run.
func (o *runOptions) choose(cmd *cobra.Command, args []string) ([]chaos.Scenario, *drill.Game, chaos.Duration, error) {
	switch {
	case o.book == "" && len(args) == 0:
		return nil, nil, 0, usagef("which drill? Name one (gpuaasctl chaos list lists them), or give --book")
	case o.book != "" && len(args) > 0:
		return nil, nil, 0, usagef("give drills or --book, not both")
	case o.book == "" && cmd.Flags().Changed("seed"):
		return nil, nil, 0, usagef("--seed: draws the order of a --book")
	}
	if o.book == "" {
		var all []chaos.Scenario
		for _, name := range args {
			found, err := readDrills(name)
			if err != nil {
				return nil, nil, 0, err
			}
			all = append(all, found...)
		}
		return all, nil, 0, nil
	}
	b, found, err := chaos.FindBook(scenarios.Files, o.book)
	if err != nil {
		return nil, nil, 0, asUsage(err)
	}
	if !cmd.Flags().Changed("seed") {
		o.seed = rand.Uint64N(1_000_000)
	}
	game := &drill.Game{ID: b.Metadata.ID, Title: b.Metadata.Title, Seed: o.seed}
	var all []chaos.Scenario
	for _, i := range b.Order(len(found), o.seed) {
		all = append(all, found[i])
		game.Order = append(game.Order, found[i].Metadata.ID)
	}
	return all, game, b.Pause, nil
}

// gameDay is several drills, one after the other.
type gameDay struct {
	app     *app
	options *runOptions
	runs    []planned
	pause   chaos.Duration
	folder  string // of all runs' logs
	report  *drill.Report
}

// run runs them until one leaves something on a machine, or ctx ends.
func (d *gameDay) run(ctx context.Context, observe func(drillUpdate)) *drill.Report {
	abandon, stop := secondInterrupt(ctx)
	defer stop()
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
		r.Drills = append(r.Drills, d.one(ctx, i, p, observe, abandon))
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
	return d.Verdict.Word == drill.Residue || d.Verdict.Word == drill.Conflict ||
		slices.ContainsFunc(d.Machines, func(m drill.MachineResult) bool { return m.Armed && !m.Closed })
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// secondInterrupt closes abandon when the operator asks for the end a second time; a third one ends the process.
func secondInterrupt(ctx context.Context) (abandon <-chan struct{}, stop func()) {
	closed, again, ended := make(chan struct{}), make(chan os.Signal, 1), make(chan struct{})
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
			close(closed)
			signal.Stop(again)
			<-ended
		}
	})
	return closed, func() { close(ended); wg.Wait() }
}

// one plans and runs one drill.
func (d *gameDay) one(ctx context.Context, i int, p planned, observe func(drillUpdate), abandon <-chan struct{}) drill.Drill {
	o := d.options
	began := time.Now()
	run := newDrillID(began)
	machines, err := p.scenario.Machines(p.job.Env.Profile, p.subject)
	var facts chaos.Facts
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, o.drills.target.deadline)
		facts, err = p.job.survey(ctx, &p.scenario, p.subject, machines)
		cancel()
	}
	plan := chaos.Make(p.scenario, p.job.Env.Profile, p.subject, facts, run)
	if err != nil { // nothing is known well enough to be planned
		plan.Refused = append(plan.Refused, chaos.Refusal{Refusal: *unreachable(err)})
	}
	log, err := drill.CreateLog(d.folder + "/" + run)
	hands := p.job.hands(machines)
	defer hands.close()
	live := &liveWalk{update: func(u drillUpdate) { u.Index, u.Count = i, len(d.runs); observe(u) }}
	job := drill.Job{
		Plan: plan, Machines: hands.all(),
		Walk:   func(ctx context.Context) *diag.Report { return p.job.walk(ctx, o.drills.target.deadline, live.walk) },
		Decide: func(ctx context.Context, dec chaos.Decision) error { return p.job.decide(ctx, dec) },
		Write: func(e drill.Event, walk *diag.Report) error {
			if log == nil {
				return err
			}
			return log.Write(e, walk)
		},
		Observe: live.event, Abandon: abandon,
	}
	if len(plan.Material) > 0 {
		job.Ready = func(ctx context.Context) (chaos.Plan, error) { return p.ready(ctx, facts, run) }
	}
	story := drill.Run(ctx, job)
	result := story.Drill()
	if log != nil {
		result.Log = log.Dir()
		_ = log.Close() // every event of it was synced
	}
	return result
}

// walk walks the whole chain once, under an id of its own.
func (j *job) walk(ctx context.Context, deadline time.Duration, observe func(preflight.Event)) *diag.Report {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	w := *j
	w.RunID, w.Began, w.Observe = preflight.NewID("run"), time.Now(), observe
	w.Env.CorrelationID = preflight.NewID("drill")
	w.Plan = preflight.NewPlan(w.Env.Profile, w.Env.Subject, preflight.Options{Session: true, Token: !w.Env.Token.IsZero(), SSH: w.Env.Subject.NodeHost != ""})
	w.Vantages = w.vantages()
	defer closeAll(ctx, w.Vantages)
	return preflight.Run(ctx, &w.Job)
}

// drillUpdate is progress of a game day.
type drillUpdate struct {
	Index, Count int
	Event        drill.Event
	Story        *drill.Story
	Walk         *preflight.Event // of the walk that is under way; nil: Event is news
}

// liveWalk joins what a run tells with what the walk under way tells.
type liveWalk struct {
	update func(drillUpdate)
	mu     sync.Mutex
	story  *drill.Story
}

func (l *liveWalk) event(e drill.Event, s *drill.Story) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := *s
	l.story = &c
	l.update(drillUpdate{Event: e, Story: l.story})
}

func (l *liveWalk) walk(e preflight.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(drillUpdate{Story: l.story, Walk: &e})
}

// runAndShow runs, with progress on stderr.
func (a *app) runAndShow(ctx context.Context, d *gameDay) (*drill.Report, bool, error) {
	observe := func(drillUpdate) {}
	if !d.options.quiet {
		observe = func(u drillUpdate) {
			if u.Walk == nil {
				fmt.Fprintf(a.stderr, "%6d %s %s %s %s\n", u.Event.MS, u.Event.Kind, u.Event.Machine, u.Event.Step, u.Event.Text)
			}
		}
	}
	return d.run(ctx, observe), false, nil
}
