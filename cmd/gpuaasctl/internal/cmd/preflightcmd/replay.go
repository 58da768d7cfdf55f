package preflightcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

func newReplay(a *cmdutil.App) *cobra.Command {
	o := &preflightOptions{facts: factsAll}
	cmd := &cobra.Command{
		Use:   "replay REPORT",
		Short: "Judge the facts of a recorded report again",
		Long: `Judges the facts of a recorded report (FILE, or - for stdin) again. Nothing is measured: the same facts and the same
rules give the same verdict. Where other rules made the file's verdict and today's differ, one line on stderr and the
field "replayed" of the JSON name both; a second line explains why a proof in the file no longer holds. Its list of changes
stays as it was, unless --baseline compares it again. Exit codes are those of preflight; a file that is not a valid
report is 2.`,
		Example: `  gpuaasctl preflight preflight.json
  gpuaasctl preflight - -o json <preflight.json
  gpuaasctl preflight after.json --baseline before.json --fail-on regression`,
		Args: cmdutil.Args(1, 1),
		RunE: cmdutil.Run(a, o, replay),
	}
	cmdutil.OutputFlags(cmd, &o.output, &o.failOn)
	o.baseline.Add(cmd)
	worldFlag(cmd.Flags(), o)
	cmdutil.Group(cmd.Flags(), cmdutil.HeadOutput, "baseline", "world")
	return cmd
}

// replay judges the facts of a recorded report again. It refuses flags that only apply to a walk.
func (o *preflightOptions) replay(a *cmdutil.App, cmd *cobra.Command, path string) (err error) {
	about := []string{"output", "fail-on", "baseline", "out", "report", "compare", "quiet", "color", "facts", "world"}
	if o.compare != "" && !isReportFile(o.compare) { // the other walk is made now
		about = append(about, "deadline", "libexec", "run-ws-smoke")
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(about, f.Name) {
			err = errors.Join(err, cmdutil.Usagef(
				"--%s is about a walk, and %s is a recorded report, of which nothing is measured (--node-id names a node that is "+
					"called so)", f.Name, path))
		}
	})
	if err == nil {
		err = errors.Join(cmdutil.CheckReportPath(o.report, ".html"), cmdutil.CheckDeadline(o.Deadline),
			cmdutil.CheckNotInput(o.report, path, o.baseline.Name, o.compare))
	}
	if err != nil {
		return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	if o.compare != "" {
		return o.compareRecorded(a, cmd, path)
	}
	return replay(a, cmd, o, []string{path})
}

// replay reads, judges and renders a report. An invalid file is a usage error: exit 2.
func replay(a *cmdutil.App, cmd *cobra.Command, o *preflightOptions, args []string) error {
	if err := o.checkWorld(); err != nil {
		return wrongUse(cmd, err)
	}
	ctx, path := cmd.Context(), args[0]
	recorded, err := cmdutil.Read(ctx, a, path, a.ParseReport)
	if err != nil {
		return err
	}
	report, err := verdict.Replay(a.Chain(), recorded)
	if err != nil {
		return &cmdutil.UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	if o.world {
		if why := verdict.Reduced(report); why != "" {
			a.Note("%s: %s: what they would show is not measured here", path, why)
		}
		return o.showWorld(a, report)
	}
	if why := verdict.Reduced(report); why != "" {
		a.Note("%s: %s, so it is shown as rules %s judged it", path, why, cmp.Or(report.Run.RulesVersion, "unknown"))
	} else {
		verdict.Compared(recorded, report)
	}
	noteOtherVerdict(a, path, recorded, report)
	if report.Diff == nil || o.baseline.Name != "" {
		if err := o.compareReplay(a, ctx, report); err != nil {
			return err
		}
	}
	err = a.ShowReport(kept(report, o.output, o.facts), o.output, o.failOn)
	if o.report != "" {
		err = errors.Join(err, cmdutil.WriteReport(o.report, kept(report, formatOf(o.report), o.facts)))
	}
	if err != nil {
		return err
	}
	publish(a, report, o.failOn)
	return cmdutil.Judged(report, o.failOn)
}

// noteOtherVerdict notes on stderr that the verdict in the file differs from the verdict by the current rules.
func noteOtherVerdict(a *cmdutil.App, path string, recorded, replayed *diag.Report) {
	file, now := verdict.Stated(recorded), verdict.Stated(replayed)
	if !verdict.SameVerdict(file, now) {
		a.Note("%s states %s (rules %s); the same facts by rules %s: %s", path, statedWords(file),
			cmp.Or(file.RulesVersion, "unknown"), now.RulesVersion, statedWords(now))
	}
	if file.Confidence == diag.Proven && now.Confidence != diag.Proven && replayed.Verdict.Unproven != "" {
		a.Note("%s: %s", path, replayed.Verdict.Unproven)
	}
}

// statedWords is a verdict in one line.
func statedWords(s diag.StatedVerdict) string {
	failure, first := "", ""
	if s.Failure != "" {
		failure = "(" + string(s.Failure) + ")"
	}
	if s.FirstFailedHop != s.Hop {
		first = "first failed " + cmp.Or(string(s.FirstFailedHop), "none")
	}
	return strings.Join(page.NonEmpty(cmp.Or(string(s.Outcome), "no outcome"), string(s.Hop), string(s.Signal), failure,
		first, string(s.Confidence), "reason "+cmp.Or(string(s.Reason), "none")), " ")
}

// compareReplay adds a diff to a replayed report if requested.
func (o *preflightOptions) compareReplay(a *cmdutil.App, ctx context.Context, r *diag.Report) error {
	if err := o.baseline.Read(ctx, a, o.failOn); err != nil || o.baseline.Name == "" {
		return err
	}
	m := a.History().ReadGood(ctx, r.Subject, r.Plan, true, false)
	defer m.Close()
	m.Compare(o.baseline.Baseline, r)
	return nil
}
