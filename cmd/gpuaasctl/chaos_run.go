package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
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
	trustFlag(cmd, &o.drills.trusted)
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
	machines []chaos.Machine
}

// chaosRun checks everything, runs, and shows what came of it.
func (a *app) chaosRun(cmd *cobra.Command, o *runOptions, args []string) error {
	all, game, pause, err := o.choose(cmd, args)
	if err != nil {
		return err
	}
	if err := mayRunHere(all, o.drills.trusted); err != nil {
		return err
	}
	if err := checkReportPath(o.report); err != nil {
		return &usageError{err: err, command: cmd.CommandPath()}
	}
	j, on, err := a.drillJob(cmd, &o.drills)
	if err != nil {
		return err
	}
	var runs []planned
	for _, s := range all {
		machines, err := j.drillMachines(&s, on)
		if err != nil {
			return err
		}
		runs = append(runs, planned{s, j, on, machines})
	}
	folder, err := a.drillsFolder()
	if err != nil {
		return &usageError{err: err}
	}
	day := &gameDay{app: a, options: o, runs: runs, pause: pause, folder: folder, abandon: make(chan struct{}), report: &drill.Report{
		APIVersion: diag.APIVersion, Kind: drill.ReportKind, ToolVersion: toolVersion(), Profile: j.Env.Profile.Name,
		Book: game, StartedAt: diag.At(time.Now()), Drills: []drill.Drill{},
	}}
	if !o.quiet {
		for _, s := range all {
			_, _ = io.WriteString(a.stderr, runsHere(s)) // progress: nobody may be reading
		}
	}
	outlive()
	report, shown, err := a.runAndShow(cmd.Context(), day)
	if !shown {
		err = a.writeDrills(report, o.output)
	}
	if o.report != "" {
		err = errors.Join(err, writeDrillReport(o.report, report))
	}
	return a.ended(drillCode(report), err)
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

// runAndShow runs, with a live view on a terminal, else with lines on stderr. shown says that the report is on the screen
// already.
func (a *app) runAndShow(ctx context.Context, d *gameDay) (r *drill.Report, shown bool, err error) {
	format := d.options.output
	in, out := terminals(a)
	if format != formatTable && format != formatWide || d.options.quiet || !tui.Possible(in, out) {
		observe := func(tui.DrillUpdate) {}
		if !d.options.quiet {
			observe = newDrillProgress(a.stderr)
		}
		return d.run(ctx, observe), false, nil
	}
	o := tui.DrillOptions{In: in, Out: out, Look: a.look(format), Count: len(d.runs), Abandon: d.leave}
	r, err = tui.RunDrills(ctx, o, d.run, func(w io.Writer, width int, r *drill.Report) error {
		look := a.look(format)
		look.Width = width
		return drillrender.Report(w, r, look)
	})
	return r, true, err
}
