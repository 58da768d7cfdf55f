package chaoscmd

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// runOptions are the options of `chaos run`.
type runOptions struct {
	drills         drillOptions
	book           string
	seed           uint64
	output, report string
}

func newChaosRun(a *cmdutil.App) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run (DRILL... | --book DAY) [NODE [ALLOCATION]]",
		Short: "Break something on real machines, check that the chain names it, revert it, prove that nothing is left",
		Long: `Runs drills, one after the other. Each is refused before anything is touched while the chain is not green, or while a
machine's owner has not agreed. Machines revert by a deadline of their own, even if this
command dies. A drill passes only when every claim was seen to hold: independent probes saw the fault, the blame came in
time, nothing else failed, the repair is proved, and the machines are identical to before.

Ctrl-C reverts everything at once; a second one leaves that to the machines (see "gpuaasctl chaos status").

Exit codes: 0 every drill passed, 2 a drill or the command line is wrong, 3 a drill did not (not_injected, not_detected,
wrong_hop, late, collateral, no_recovery, reverted_early), 5 nothing was decided (infra, conflict, aborted_guard), 7 a
machine is not as it was, which wins over all others, 130 interrupted, 1 internal error.`,
		Example: `  gpuaasctl chaos run api-egress-blocked compute-node-01 alloc-01
  gpuaasctl chaos run our-egress.yaml disk-full compute-node-01 --profile lab -o json --out drill.json
  gpuaasctl chaos run --book everything --seed 7 compute-node-01 alloc-01`,
		RunE: cmdutil.Run(a, o, chaosRun),
	}
	o.drills.flags(a, cmd)
	cmd.Flags().Lookup("deadline").Usage = "each walk ends after this `TIME`, and so does the reading of the machines " +
		"before a drill; the fault lasts as long as the drill's file says"
	trustFlag(cmd, &o.drills.trusted)
	cmd.ValidArgsFunction = completeDrills(a, &o.drills.target.Profile)
	f := cmd.Flags()
	f.StringVar(&o.book, "book", "", "a game day: the drills of `DAY` ("+cmdutil.OneOf(chaos.GameDays(scenarios.Files))+
		", or a file), in an order that is drawn")
	f.Uint64Var(&o.seed, "seed", 0,
		"draw the order from `N`, as an earlier run did (default: a new one, which is printed)")
	cmdutil.OutFlag(cmd, &o.report, "also write the JSON report to `FILE`")
	cmdutil.FormatFlag(cmd, &o.output, cmdutil.FormatTable, drillFormats()...)
	cmdutil.CompleteFunc(cmd, "book", func() []string { return chaos.GameDays(scenarios.Files) })
	return cmd
}

// split separates drills from NODE and ALLOCATION: the first word that is a node of the profile, and not a built-in
// drill, ends the drills.
func (o *drillOptions) split(a *cmdutil.App, cmd *cobra.Command, args []string,
	book string) (drills, about []string, err error) {
	p, _, err := o.target.Profile.Load(a, cmd)
	if err != nil {
		return nil, nil, err
	}
	builtin, err := builtinDrills()
	if err != nil {
		return nil, nil, err
	}
	isDrill := func(word string) bool {
		return slices.ContainsFunc(builtin, func(s chaos.Scenario) bool { return s.Metadata.ID == word })
	}
	at := slices.IndexFunc(args, func(word string) bool {
		_, node := p.Nodes[word]
		return word == "" || (node && !isDrill(word))
	})
	for i, word := range args { // the first word must be a drill; a later unknown word may be a drill or a node
		_, missing := os.Stat(word)
		if near := p.OtherNodes(word); at < 0 && (i > 0 || book != "") && !isDrill(word) && missing != nil && near != "" {
			return nil, nil, cmdutil.Usagef("%s is neither a drill nor a node of the profile %s (it has %s)", word, p.Name, near)
		}
	}
	if at < 0 {
		return args, nil, nil
	}
	if len(args) > at+2 {
		return nil, nil, cmdutil.Usagef("drills come before NODE and ALLOCATION, and %s behind them", args[at+2])
	}
	return args[:at], args[at:], nil
}

// completeDrills completes any number of drills, and the nodes after them.
func completeDrills(a *cmdutil.App, of *cmdutil.ProfileFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		words, directive := completeDrill(cmd, nil, word)
		if len(args) > 0 {
			words = append(words, a.NodeIDs(of.Name)...)
		}
		return words, directive
	}
}

// chaosRun checks everything, runs the drills, and shows the report.
func chaosRun(a *cmdutil.App, cmd *cobra.Command, o *runOptions, args []string) error {
	drills, about, err := o.drills.split(a, cmd, args, o.book)
	if err != nil {
		return err
	}
	all, game, pause, err := o.choose(cmd, drills)
	if err != nil {
		return err
	}
	if err := mayRunHere(all, o.drills.trusted); err != nil {
		return err
	}
	if err := o.checkOut(a, cmd, all); err != nil {
		return err
	}
	s, on, err := drillSession(a, cmd, &o.drills, about)
	if err != nil {
		return err
	}
	suite := ops.Suite{Game: game, Pause: pause.Std(), Deadline: o.drills.target.Deadline}
	for _, scenario := range all {
		d, err := drillOn(s, on, scenario)
		if err != nil {
			return err
		}
		suite.Drills = append(suite.Drills, d)
	}
	if suite.Folder, err = drillsFolder(a); err != nil {
		return &cmdutil.UsageError{Err: err}
	}
	if !a.Quiet {
		for _, s := range all {
			_, _ = io.WriteString(a.Stderr, runsHere(s)) // progress, which may have no reader
		}
	}
	cmdutil.IgnoreHangup()
	report, shown, err := runAndShow(a, cmd.Context(), s.Site(), suite, o)
	if !shown {
		err = writeDrills(a, report, o.output, "")
	}
	if o.report != "" {
		err = errors.Join(err, writeDrillReport(o.report, report))
	}
	publish(a, report)
	return a.ExitError(cmdutil.DrillCode(report), err)
}

// checkOut refuses a --out that cannot be written, or that this command reads: the files of its drills, its game day
// and its profile.
func (o *runOptions) checkOut(a *cmdutil.App, cmd *cobra.Command, all []chaos.Scenario) error {
	p, _, err := o.drills.target.Profile.Load(a, cmd)
	if err != nil {
		return err
	}
	read := append(p.Files(), o.book, profile.Path(o.drills.target.Profile.Name, profile.Dir(a.Env)))
	for _, s := range all {
		if !s.Source.Builtin {
			read = append(read, s.File)
		}
	}
	for _, t := range o.drills.trusted {
		file, _, _ := strings.Cut(t, "@")
		read = append(read, file)
	}
	if err := errors.Join(cmdutil.CheckReportPath(o.report), cmdutil.CheckNotInput(o.report, read...)); err != nil {
		return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	return nil
}

// choose reads the selected drills, in the order in which they run.
func (o *runOptions) choose(cmd *cobra.Command, args []string) ([]chaos.Scenario, *drill.Game, chaos.Duration, error) {
	switch {
	case o.book == "" && len(args) == 0:
		return nil, nil, 0, cmdutil.Usagef("which drill? Name one (gpuaasctl chaos list lists them), or give --book")
	case o.book != "" && len(args) > 0:
		return nil, nil, 0, cmdutil.Usagef("give drills or --book, not both")
	case o.book == "" && cmd.Flags().Changed("seed"):
		return nil, nil, 0, cmdutil.Usagef("--seed: draws the order of a --book")
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
	b, found, err := chaos.FindGameDay(scenarios.Files, o.book)
	if err != nil {
		return nil, nil, 0, cmdutil.AsUsage(err)
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

// runAndShow runs the drills, with a live view on a terminal, else with lines on stderr. shown means that the report is
// already on the screen.
func runAndShow(a *cmdutil.App, ctx context.Context, site *ops.Site, suite ops.Suite,
	o *runOptions) (r *drill.Report, shown bool, err error) {
	abandon := make(chan struct{})
	suite.Abandon = abandon
	leave := sync.OnceFunc(func() { close(abandon) })
	run := func(ctx context.Context, observe func(ops.Progress)) *drill.Report {
		defer cmdutil.OnSecondInterrupt(ctx, leave)()
		return site.Drill(ctx, suite, observe)
	}
	in, out := cmdutil.Terminals(a)
	if !cmdutil.IsPage(o.output) || a.Quiet || !tui.Possible(in, out) {
		observe := func(ops.Progress) {}
		if !a.Quiet {
			observe = newDrillProgress(a.Stderr)
		}
		return run(ctx, observe), false, nil
	}
	live := tui.DrillOptions{In: in, Out: out, Display: a.RenderOptions(o.output), Count: len(suite.Drills),
		Abandon: leave}
	r, err = tui.RunDrills(ctx, live, run, func(w io.Writer, width int, r *drill.Report) error {
		look := a.RenderOptions(o.output)
		look.Width = width
		return drillrender.Report(w, r, look)
	})
	return r, true, err
}
