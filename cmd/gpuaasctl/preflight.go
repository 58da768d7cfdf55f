package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag/render"
)

// defaultDeadline bounds a whole walk: long enough for every hop's budget on a slow path, short enough for somebody
// who waits.
const defaultDeadline = 60 * time.Second

// Formats of a report.
const (
	formatTable    = "table"
	formatWide     = "wide"
	formatShort    = "short"
	formatJSON     = "json"
	formatJUnit    = "junit"
	formatNDJSON   = "ndjson"
	formatMarkdown = "markdown"
)

// formats lists them, the default first.
var formats = [...]string{formatTable, formatWide, formatShort, formatJSON, formatJUnit, formatNDJSON, formatMarkdown}

// What --fail-on takes beside nothing.
const (
	failOnWarn       = render.FailOnWarn
	failOnRegression = render.FailOnRegression
)

// preflightOptions is what one walk is asked for.
type preflightOptions struct {
	profile profileFlags

	nodeID, nodeHost, allocationID, sessionID, correlationID string

	session    bool
	deadline   time.Duration
	only, skip []string
	dryRun     bool
	libexec    string

	output, report, failOn string

	baseline baselineFlag
	noSave   bool
}

func newPreflight(a *app) *cobra.Command {
	o := &preflightOptions{}
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Walk the hop chain and name the first failed hop",
		Long: `Walks every hop from the control plane to a tenant's shell, from here and from the node at once, and names the
first failed hop, what is to blame for it, who owns that, and what to do.

With --allocation-id a terminal token is minted and one real terminal session is opened, used and closed again;
--run-ws-smoke=false leaves the session out. A no-op task is enqueued, 8 KiB are written on the node and removed, and a
node without this agent gets one into a tmpfs. Nothing else is changed.

The report is kept on this machine (gpuaasctl history), and --baseline says what changed since a walk that went well.

Exit codes: 0 pass, 2 usage or configuration, 3 a hop failed, 4 warnings under --fail-on warn, 5 inconclusive, or
nothing to compare with under --fail-on regression, 6 a regression under --fail-on regression, 130 interrupted (with a
partial report), 1 internal error. 3 and 5 go before 4 and 6.`,
		Example: `  gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01
  gpuaasctl preflight --profile demo --node-id NODE -o json --report preflight.json
  gpuaasctl preflight --api-base https://api.example --terminal-base https://term.example \
      --node-id NODE --node-host 10.0.0.5 --node-user ubuntu`,
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return a.preflight(cmd, o) },
	}
	o.flags(a, cmd)
	cmd.AddCommand(newReplay(a), newSchema(a), newHops(a))
	return cmd
}

// flags declares the command's flags, in the order and under the headings of its help.
func (o *preflightOptions) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.nodeID, "node-id", "", "the node, by its platform `ID`")
	f.StringVar(&o.nodeHost, "node-host", "", "where it is reached by SSH: `HOST` name or address")
	f.StringVar(&o.allocationID, "allocation-id", "", "an allocation on it, by `ID`; without one, the terminal is not walked")
	f.StringVar(&o.sessionID, "session-id", "", "terminal session `ID` of the failing request")
	f.StringVar(&o.correlationID, "correlation-id", "", "correlation `ID` of the failing request, whose evidence is pulled in")
	group(f, headSubject, "node-id", "node-host", "allocation-id", "session-id", "correlation-id")
	completeFunc(cmd, "node-id", func() []string { return a.nodeIDs(o.profile.name) })

	o.profile.add(a, cmd)
	group(f, headSubject, "profile")

	f.BoolVar(&o.session, "run-ws-smoke", true, "open one real terminal session (=false: leave it out)")
	f.DurationVar(&o.deadline, "deadline", defaultDeadline, "end the walk after this `TIME`")
	f.StringSliceVar(&o.only, "only", nil, "walk only these `HOPS` (comma-separated), and what they need")
	f.StringSliceVar(&o.skip, "skip", nil, "leave these `HOPS` out, and what needs them")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan and touch nothing")
	f.StringVar(&o.libexec, "libexec", "", "`FOLDER` of gpuaas-agent, which is put on nodes that lack it (default: beside this program)")
	group(f, headWalk, "run-ws-smoke", "deadline", "only", "skip", "dry-run", "libexec")
	complete(cmd, "only", hopNames()...)
	complete(cmd, "skip", hopNames()...)

	outputFlags(cmd, &o.output, &o.failOn)
	f.StringVar(&o.report, "report", "", "also write the JSON report to `FILE`")
	o.baseline.add(cmd)
	f.BoolVar(&o.noSave, "no-save", false, "do not keep this report in the history")
	group(f, headOutput, "report", "baseline", "no-save")
}

// outputFlags declares -o and --fail-on.
func outputFlags(cmd *cobra.Command, output, fail *string) {
	formatFlag(cmd, output, formatTable, formats[:]...)
	choiceFlag(cmd, fail, "fail-on", "", "", "exit 4 or 6 on `WHAT`: "+oneOf([]string{failOnWarn, failOnRegression}), failOnWarn, failOnRegression)
	group(cmd.Flags(), headOutput, "output", "fail-on")
}

// preflight walks, or with --dry-run says what it would walk.
func (a *app) preflight(cmd *cobra.Command, o *preflightOptions) error {
	job, err := a.prepare(cmd, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printPlan(job, o.output)
	}
	memory := a.recall(cmd.Context(), job.Env.Subject, job.Plan, !o.noSave)
	defer memory.close()
	report, shown, err := a.walkAndShow(cmd.Context(), job, o, memory)
	if report == nil {
		return err
	}
	if !shown {
		err = a.render(report, o.output, o.failOn)
	}
	if o.report != "" { // also when nobody could see it
		err = errors.Join(err, writeReport(o.report, report))
	}
	if !o.noSave {
		memory.keep(cmd.Context(), a, report)
	}
	if err != nil {
		return err
	}
	return judged(report, o.failOn)
}

// checkSubject says what is missing to look at anything at all.
func checkSubject(o *preflightOptions, nodes []string) error {
	if o.nodeID != "" {
		return nil
	}
	known := ""
	if len(nodes) > 0 {
		known = " The profile has " + oneOf(nodes)
	}
	return usagef("--node-id is missing: which node is to be looked at?%s", known)
}
