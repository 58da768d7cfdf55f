package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/history"
	"github.com/gpuaas/gpuaasctl/preflight"
)

func newHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List, show and compare kept reports",
		Long: fmt.Sprintf(`Every finished preflight is kept on this machine, so that a later one can say what changed: the newest %d of each node
and allocation, %d MiB in all, and always the last good one. %s=off or --no-save keeps nothing.

RUN is a run id, or its end (the last eight letters).`, history.PerSubject, history.TotalBytes>>20, envHistory),
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHistoryList(a), newHistoryShow(a), newHistoryDiff(a), newHistoryAccept(a), newHistoryPrune(a), newHistoryPath(a))
	return cmd
}

func newHistoryList(a *app) *cobra.Command {
	var output string
	var f history.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List kept reports, the newest first",
		Example: `  gpuaasctl history list --node-id compute-node-01
  gpuaasctl history list -o json | jq '.[] | select(.good) | .run_id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usagef("--limit: want 0 (all) or more, not %d", f.Limit)
			}
			list := []history.Entry{}
			err := a.withHistory(cmd.Context(), func(ctx context.Context, s *history.Store) (err error) {
				list, err = s.List(ctx, f)
				return err
			})
			if err != nil && !errors.Is(err, history.ErrNone) { // nothing kept is an empty list
				return err
			}
			return a.printHistory(list, output)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.Environment, "profile", "", "only of the profile `NAME`")
	fl.StringVar(&f.Node, "node-id", "", "only of the node `ID`")
	fl.StringVar(&f.Allocation, "allocation-id", "", "only of the allocation `ID`")
	fl.IntVar(&f.Limit, "limit", 20, "at most `N`; 0: all")
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	complete(cmd, "profile", a.profileNames()...)
	return cmd
}

func (a *app) printHistory(list []history.Entry, output string) error {
	if output == formatJSON {
		return a.writeJSON(list)
	}
	rows := [][]string{{"ended", "run", "profile", "node", "allocation", "outcome", "took", "baseline", "blame"}}
	for _, e := range list {
		rows = append(rows, []string{
			e.EndedAt.UTC().Format("2006-01-02 15:04:05Z"), e.RunID, orDash(e.Environment), orDash(e.NodeID), orDash(e.AllocationID),
			string(e.Outcome), e.DurationMS.Words(), orDash(baselineWord(e)), strings.TrimSpace(string(e.BlameHop) + " " + string(e.BlameSignal)),
		})
	}
	for _, row := range rows {
		for i := range row {
			row[i] = render.Clean(row[i])
		}
	}
	return a.write(columnsIn(rows, width(a.stdout)))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// baselineWord says whether a report may be a baseline, and of what.
func baselineWord(e history.Entry) string {
	switch {
	case e.Good && e.Whole:
		return "good"
	case e.Good:
		return "good, in part"
	}
	return ""
}

func newHistoryShow(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Print a kept report as it was",
		Example: `  gpuaasctl history show 4ede6c6e -o wide
  gpuaasctl history show run-20261121T044638Z-4ede6c6e -o json >report.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRuns(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.kept(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.render(r, output, "")
		},
	}
	formatFlag(cmd, &output, formatTable, formats[:]...)
	return cmd
}

// kept is one kept report. One that is not there is the caller's mistake.
func (a *app) kept(ctx context.Context, id string) (r *diag.Report, err error) {
	err = a.withHistory(ctx, func(ctx context.Context, s *history.Store) error {
		r, err = s.Get(ctx, id)
		return err
	})
	if errors.Is(err, history.ErrNone) {
		err = &usageError{err: fmt.Errorf("%s: %w", id, err), command: "gpuaasctl history list"}
	}
	return r, err
}

// keptOrFile is a report by its file, else by its run id.
func (a *app) keptOrFile(ctx context.Context, arg string) (*diag.Report, error) {
	if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) && arg != "-" {
		return a.kept(ctx, arg)
	}
	data, err := a.readAll(ctx, arg)
	if err != nil {
		return nil, &usageError{err: err}
	}
	r, err := parseReport(data)
	if err == nil {
		r, err = preflight.Replay(r)
	}
	if err != nil {
		return nil, usagef("%s: %w", arg, err)
	}
	return r, nil
}

func newHistoryDiff(a *app) *cobra.Command {
	var output, fail string
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Say what changed between two reports",
		Long: `Says what is otherwise in the report AFTER than in BEFORE, each a kept RUN or a FILE. Kept good walks of the same
subject tell noise from news.

Exit codes: 0 compared, 2 usage, or a report that cannot be read, 5 the two do not compare and 6 a regression, both under
--fail-on regression.`,
		Example: `  gpuaasctl history diff 4ede6c6e 91b0aa57
  gpuaasctl history diff golden/reports/healthy.json golden/reports/stale-ca-bundle.json -o json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeRuns(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.diffKept(cmd.Context(), args[0], args[1], output, fail)
		},
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatWide, formatJSON)
	choiceFlag(cmd, &fail, "fail-on", "", "", "exit 6 on `WHAT`: "+failOnRegression, failOnRegression)
	return cmd
}

func (a *app) diffKept(ctx context.Context, before, after, output, fail string) error {
	if before == "-" && after == "-" {
		return usagef("only one report can come from stdin")
	}
	base, err := a.keptOrFile(ctx, before)
	if err != nil {
		return err
	}
	now, err := a.keptOrFile(ctx, after)
	if err != nil {
		return err
	}
	m := a.recall(ctx, now.Subject, now.Plan, false)
	defer m.close()
	m.compare(&baselineFlag{name: before, file: base}, now)
	var b bytes.Buffer
	if err := render.Diff(&b, now.Diff, a.lookAtList(output)); err != nil {
		return fmt.Errorf("render diff: %w", err)
	}
	if err := a.write(b.Bytes()); err != nil {
		return err
	}
	if code := regressed(now.Diff); fail == failOnRegression && code != exitPass {
		return &verdictError{code}
	}
	return nil
}

func newHistoryAccept(a *app) *cobra.Command {
	var not bool
	cmd := &cobra.Command{
		Use:   "accept RUN",
		Short: "Make a kept walk that passed a baseline, though it regressed",
		Long: `A walk that passed, and regressed against the last good one, is kept and is no baseline: a gate stays red until
somebody looks. This is how to say that the change was meant. --not takes a walk out of the baselines.`,
		Example:           `  gpuaasctl history accept 4ede6c6e`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRuns(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHistory(cmd.Context(), func(ctx context.Context, s *history.Store) error {
				run, err := s.Accept(ctx, args[0], !not)
				if err != nil {
					return &usageError{err: err, command: "gpuaasctl history list"}
				}
				said := "is a baseline"
				if not {
					said = "is no baseline"
				}
				return a.write(fmt.Appendf(nil, "%s %s\n", render.Clean(run), said))
			})
		},
	}
	cmd.Flags().BoolVar(&not, "not", false, "take it out of the baselines")
	return cmd
}

func newHistoryPrune(a *app) *cobra.Command {
	var keep int
	var older time.Duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Forget reports, but for the last good one of each subject",
		Example: `  gpuaasctl history prune --older-than 720h
  gpuaasctl history prune --keep 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 0 || older < 0 {
				return usagef("--keep and --older-than: want no negative values")
			}
			l := history.DefaultLimits()
			l.PerSubject = keep
			if older > 0 {
				l.Before = diag.At(time.Now().Add(-older))
			}
			n, size := 0, int64(0)
			err := a.withHistory(cmd.Context(), func(ctx context.Context, s *history.Store) (err error) {
				n, size, err = s.Prune(ctx, l)
				return err
			})
			if err != nil && !errors.Is(err, history.ErrNone) {
				return err
			}
			return a.write(fmt.Appendf(nil, "forgot %d reports, %d KiB\n", n, (size+1023)/1024))
		},
	}
	cmd.Flags().IntVar(&keep, "keep", history.PerSubject, "reports of each node and allocation that stay: `N`")
	cmd.Flags().DurationVar(&older, "older-than", 0, "also forget what ended longer ago than this `TIME`")
	return cmd
}

func newHistoryPath(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where the history is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := a.historyPath()
			if err != nil {
				return &usageError{err: err}
			}
			return a.write([]byte(path + "\n"))
		},
	}
}

// completeRuns offers kept runs for up to n arguments.
func (a *app) completeRuns(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []string
		_ = a.withHistory(cmd.Context(), func(ctx context.Context, s *history.Store) error { // nothing to offer is no mistake
			list, err := s.List(ctx, history.Filter{Limit: 50})
			for _, e := range list {
				words = append(words, e.RunID+"\t"+e.NodeID+" "+string(e.Outcome))
			}
			return err
		})
		return words, cobra.ShellCompDirectiveDefault
	}
}
