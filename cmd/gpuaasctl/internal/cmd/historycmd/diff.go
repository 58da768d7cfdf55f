package historycmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/history"
)

// diffOptions are the options of `history diff`.
type diffOptions struct{ output, fail string }

func newHistoryDiff(a *cmdutil.App) *cobra.Command {
	o := &diffOptions{}
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show what changed between two reports",
		Long: `Shows what changed from report BEFORE to report AFTER, each a kept RUN or a FILE. Values that also varied between kept
good walks of the same subject are marked as noise.

Exit codes: 0 compared, 2 usage, or a report that cannot be read, 5 the two do not compare and 6 a regression, both under
--fail-on regression.`,
		Example: `  gpuaasctl history diff 4ede6c6e 91b0aa57
  gpuaasctl history diff golden/reports/healthy.json golden/reports/stale-ca-bundle.json -o json`,
		Args:              cmdutil.Args(2, 2),
		ValidArgsFunction: completeRuns(a, 2),
		RunE:              cmdutil.Run(a, o, diffKept),
	}
	cmdutil.FormatFlag(cmd, &o.output, cmdutil.FormatTable, cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatJSON)
	cmdutil.ChoiceFlag(cmd, &o.fail, "fail-on", "", "", "exit 6 on `WHAT`: "+cmdutil.FailOnRegression,
		cmdutil.FailOnRegression)
	return cmd
}

func diffKept(a *cmdutil.App, cmd *cobra.Command, o *diffOptions, args []string) error {
	ctx, before, after := cmd.Context(), args[0], args[1]
	if before == "-" && after == "-" {
		return cmdutil.Usagef("only one report can come from stdin")
	}
	base, err := keptOrFile(a, ctx, before)
	if err != nil {
		return err
	}
	now, err := keptOrFile(a, ctx, after)
	if err != nil {
		return err
	}
	m := a.History().ReadGood(ctx, now.Subject, now.Plan, true, false)
	defer m.Close()
	m.Compare(ops.Baseline{Name: before, File: base}, now)
	doc := struct {
		diag.Head
		*diag.Diff
	}{diag.NewHead("PreflightDiff"), now.Diff}
	err = a.Show(doc, a.RenderOptions(o.output), func(w io.Writer, o render.Options) error {
		return render.Diff(w, now.Diff, o)
	})
	if err != nil {
		return err
	}
	if code := cmdutil.Regressed(now.Diff); o.fail == cmdutil.FailOnRegression && code != cmdutil.ExitPass {
		return &cmdutil.VerdictError{Code: code}
	}
	return nil
}

// acceptOptions are the options of `history accept`.
type acceptOptions struct{ not bool }

func newHistoryAccept(a *cmdutil.App) *cobra.Command {
	o := &acceptOptions{}
	cmd := &cobra.Command{
		Use:   "accept RUN",
		Short: "Accept a kept walk as a baseline although it regressed",
		Long: `A walk that passed, but regressed against the last good one, is kept and not used as a baseline: a gate stays red until
an operator accepts it. This command confirms that the change was intended. --not excludes a walk from the baselines.`,
		Example:           `  gpuaasctl history accept 4ede6c6e`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeRuns(a, 1),
		RunE:              cmdutil.Run(a, o, accept),
	}
	cmd.Flags().BoolVar(&o.not, "not", false, "take it out of the baselines")
	return cmd
}

func accept(a *cmdutil.App, cmd *cobra.Command, o *acceptOptions, args []string) error {
	return a.WithHistory(cmd.Context(), func(ctx context.Context, s *history.Store) error {
		run, err := s.Accept(ctx, args[0], !o.not)
		if err != nil {
			return &cmdutil.UsageError{Err: err, Command: "gpuaasctl history list"}
		}
		said := "is a baseline"
		if o.not {
			said = "is no baseline"
		}
		return a.Write(fmt.Appendf(nil, "%s %s\n", page.Clean(run), said))
	})
}
