// Package preflightcmd is "gpuaasctl preflight": one walk of the chain, its plan, and the replay of a recorded walk.
package preflightcmd

import (
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// preflightOptions are the options of one walk.
type preflightOptions struct {
	cmdutil.TargetOptions

	allocationID, sessionID, correlationID string

	session    bool
	only, skip []string
	dryRun     bool
	watch      watchOptions

	output, report, failOn, facts string

	compare  string
	world    bool
	baseline cmdutil.BaselineFlag
	noSave   bool
}

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	o := &preflightOptions{}
	cmd := &cobra.Command{
		Use:   "preflight [NODE [ALLOCATION] | REPORT]",
		Short: "Walk the hop chain and name the first failed hop",
		Long: `Walks every hop from the control plane to a tenant's shell, from here and from the node at once, and names the
first failed hop, what is to blame for it, who owns that, and what to do.

NODE is the only one of the profile, or that of GPUAASCTL_NODE_ID, where it is not given. REPORT is a recorded report
(- is stdin), whose facts are judged again: nothing is measured, and the same facts and rules give the same verdict.

With ALLOCATION a terminal token is minted and one real terminal session is opened, used and closed again;
--run-ws-smoke=false leaves the session out. A no-op task is enqueued, 8 KiB are written on the node and removed, and a
node without this agent gets one into a tmpfs. Nothing else is changed.

On a terminal the key v, pressed while it walks, opens the report at the end as gpuaasctl preflight view does.

The report is kept on this machine (gpuaasctl history), and --baseline says what changed since a walk that went well.
--compare walks in another environment at the same time, and names the first hop that passes there and fails here, with
the inputs that differ; nothing is kept then. REPORT is compared with a walk there now, too.

--watch walks again and again over one login, and writes only what changes: a verdict, its blame, a hop's status or
signal. It enqueues no task, opens no terminal session and writes nothing on the node, unless --full is given, and
its first lines name what it does not ask. Nothing is kept; --out has the last report. Ctrl-C ends it with the exit
code of the last walk.

Exit codes: 0 pass, 2 usage or configuration, or no such node or allocation (the platform knows none, or the profile has
no such node and no platform is asked), 3 a hop failed, 4 warnings under --fail-on warn, 5 inconclusive (also where this
operator lacks an SSH key or a known host key, or nothing of the node itself was measured), or nothing to compare with
under --fail-on regression, 6 a regression under --fail-on regression, 130 interrupted (with a partial report),
1 internal error. 3 and 5 go before 4 and 6.`,
		Example: `  gpuaasctl preflight compute-node-01
  gpuaasctl preflight compute-node-01 alloc-01 --profile lab --out preflight.json
  gpuaasctl preflight preflight.json -o html >preflight.html
  gpuaasctl preflight compute-node-01 --profile demo --compare kind
  gpuaasctl preflight compute-node-01 alloc-01 --watch 30s --bell
  gpuaasctl preflight compute-node-01 --api-base https://api.example --terminal-base https://term.example \
      --node-host 10.0.0.5 --node-user ubuntu`,
		Args:                       cmdutil.Args(0, 2),
		SuggestionsMinimumDistance: 2,
		RunE:                       cmdutil.Run(a, o, runPreflight),
	}
	o.flags(a, cmd)
	cmd.AddCommand(newReplay(a), newView(a), newSchema(a), newHops(a))
	return cmd
}

// flags declares the command's flags, in the order and under the headings of its help.
func (o *preflightOptions) flags(a *cmdutil.App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	a.NodeFlag(cmd, &o.NodeID, &o.Profile)
	cmd.ValidArgsFunction = a.CompleteNode(&o.Profile, true)
	f.StringVar(&o.NodeHost, "node-host", "", "where it is reached by SSH: `HOST` name or address")
	f.StringVar(&o.allocationID, "allocation-id", "", "the same as `ALLOCATION`; without one, the terminal is not walked")
	f.StringVar(&o.sessionID, "session-id", "", "terminal session `ID` of the failing request")
	f.StringVar(&o.correlationID, "correlation-id", "",
		"correlation `ID` of the failing request, to include its evidence")
	cmdutil.Group(f, cmdutil.HeadSubject, "node-id", "node-host", "allocation-id", "session-id", "correlation-id")

	o.Profile.Add(a, cmd)
	cmdutil.Group(f, cmdutil.HeadSubject, "profile")

	f.BoolVar(&o.session, "run-ws-smoke", true, "open one real terminal session (=false: leave it out)")
	f.DurationVar(&o.Deadline, "deadline", cmdutil.DefaultDeadline, "end the walk after this `TIME`")
	f.StringSliceVar(&o.only, "only", nil,
		"walk only these `HOPS` (comma-separated), what they need, and what may explain a failure of theirs")
	f.StringSliceVar(&o.skip, "skip", nil, "leave these `HOPS` out, and what needs them")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan and touch nothing")
	f.StringVar(&o.Libexec, "libexec", "",
		"`FOLDER` of gpuaas-agent, which is put on nodes that lack it (default: beside this program)")
	cmdutil.Group(f, cmdutil.HeadWalk, "run-ws-smoke", "deadline", "only", "skip", "dry-run", "libexec")
	o.watch.flags(cmd)
	names := func() (names []string) {
		for _, id := range hopIDs(a.Chain()) {
			names = append(names, string(id))
		}
		return names
	}
	cmdutil.CompleteFunc(cmd, "only", names)
	cmdutil.CompleteFunc(cmd, "skip", names)

	cmdutil.OutputFlags(cmd, &o.output, &o.failOn)
	cmdutil.OutFlag(cmd, &o.report, "also write the report to `FILE`: a page for a browser if it ends in .html, else JSON")
	cmdutil.ChoiceFlag(cmd, &o.facts, "facts", "", factsAll,
		"`WHICH` facts JSON has: all, or blame for those that the verdict rests on", factsAll, diag.FactsBlame)
	o.baseline.Add(cmd)
	f.StringVar(&o.compare, "compare", "",
		"show what differs from the same walk in another environment: `PROFILE[,NODE[,ALLOCATION]]`, or a recorded report")
	worldFlag(f, o)
	f.BoolVar(&o.noSave, "no-save", false, "do not keep this report in the history")
	cmdutil.Group(f, cmdutil.HeadOutput, "out", "facts", "baseline", "compare", "world", "no-save")
}

// runPreflight judges a recorded report again, walks, or with --dry-run prints the plan.
func runPreflight(a *cmdutil.App, cmd *cobra.Command, o *preflightOptions, args []string) error {
	if o.compare == "" && cmd.Flags().Changed("compare") {
		return cmdutil.Usagef("--compare: it is empty; %s", a.NoProfile())
	}
	if o.compare != "" && (o.baseline.Name != "" || o.failOn == cmdutil.FailOnRegression) {
		return wrongUse(cmd, errors.New("--compare and a baseline (--baseline, --fail-on regression): a walk is compared "+
			"with one thing; replay --baseline compares its report (--out) afterwards"))
	}
	if err := o.checkWorld(); err != nil {
		return wrongUse(cmd, err)
	}
	if err := cmdutil.CheckNotEmpty(cmd, "out", "baseline", "token-file", "edge-cookie-file"); err != nil {
		return err
	}
	if len(args) == 1 && o.NodeID == "" && cmdutil.IsRecording(args[0]) {
		return o.replay(a, cmd, args[0])
	}
	if err := cmdutil.NoRecording(args...); err != nil {
		return wrongUse(cmd, err)
	}
	if o.world {
		return wrongUse(cmd, errors.New("--world is about a recorded report: walk with --out FILE.json, then "+
			"preflight FILE.json --world"))
	}
	if err := o.checkWatch(cmd); err != nil {
		return err
	}
	return o.walk(a, cmd, args)
}

// walk walks, or with --dry-run prints the plan.
func (o *preflightOptions) walk(a *cmdutil.App, cmd *cobra.Command, args []string) error {
	s, walk, err := prepare(a, cmd, o, args)
	if err != nil {
		return err
	}
	plan := s.Plan(walk)
	if o.dryRun {
		return printPlan(a, plan, s.Subject(), o.output)
	}
	if o.watch.every > 0 {
		return o.watchWalks(a, cmd, s, walk)
	}
	if o.compare != "" {
		return o.compareWalk(a, cmd, s, walk)
	}
	walk.Memory = a.History().ReadGood(cmd.Context(), s.Subject(), plan, o.baseline.Name != "", !o.noSave)
	defer walk.Memory.Close()
	report, shown, explore, err := walkAndShow(a, cmd.Context(), s, walk, o)
	if report == nil {
		return err
	}
	if !shown {
		err = a.ShowReport(kept(report, o.output, o.facts), o.output, o.failOn)
	}
	if report.Run.EndedBy == diag.EndedInterrupted && errors.Is(err, syscall.EIO) {
		err = nil // the interrupt came from the end of the terminal
	}
	if o.report != "" { // even if it was not displayed
		err = errors.Join(err, cmdutil.WriteReport(o.report, kept(report, formatOf(o.report), o.facts)))
	}
	if !o.noSave {
		a.NoteNotSaved(report.Run.ID, walk.Memory.Save(cmd.Context(), report))
	}
	publish(a, report, o.failOn)
	if err != nil {
		return err
	}
	if explore && cmd.Context().Err() == nil { // after the report is written and stored
		if err := o.explore(a, cmd, report, ""); err != nil {
			a.Note("%v", err)
		}
	}
	return cmdutil.Judged(report, o.failOn)
}

// factsAll is the value of --facts that keeps every fact.
const factsAll = "all"

// kept returns r with only the facts that --facts keeps, for formats that contain facts.
func kept(r *diag.Report, format, facts string) *diag.Report {
	if format != cmdutil.FormatJSON || facts != diag.FactsBlame || r.FactsKept != "" {
		return r
	}
	return verdict.Reduce(r)
}

// formatOf returns the format of a report file: JSON, which --facts affects, or a page, which has every fact.
func formatOf(path string) string {
	if strings.HasSuffix(path, ".html") {
		return ""
	}
	return cmdutil.FormatJSON
}

// printPlan prints the plan of a walk: which hops, from where, with which budgets, and what is left out and why.
func printPlan(a *cmdutil.App, plan diag.Plan, of diag.Subject, format string) error {
	switch format {
	case cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatFull, cmdutil.FormatShort, cmdutil.FormatJSON:
	default:
		return cmdutil.BadFormat(format, cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatFull, cmdutil.FormatShort,
			cmdutil.FormatJSON)
	}
	doc := struct {
		diag.Head
		diag.Plan
	}{diag.NewHead("PreflightPlan"), plan}
	return a.Show(doc, a.RenderOptions(format), func(w io.Writer, o render.Options) error {
		return render.Plan(w, plan, of, o)
	})
}
