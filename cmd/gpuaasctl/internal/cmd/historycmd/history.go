// Package historycmd is "gpuaasctl history": it lists, shows, compares and accepts stored reports.
package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/history"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("history", "List, show and compare kept reports",
		fmt.Sprintf(
			`Every finished preflight is kept on this machine, so that a later one can say what changed: the newest %d of each node
and allocation, %d MiB in all, and always the last good one. %s=off or --no-save keeps nothing.

RUN is a run id, or its end (the last eight letters).`, history.PerSubject, history.TotalBytes>>20, cmdutil.EnvHistory),
		newHistoryList(a), newHistoryShow(a), newHistoryDiff(a), newHistoryAccept(a), newHistoryPrune(a), newHistoryPath(a))
}

// listOptions choose the reports.
type listOptions struct {
	history.Filter
	output string
}

func newHistoryList(a *cmdutil.App) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list [NODE [ALLOCATION]]",
		Short: "List kept reports, the newest first",
		Example: `  gpuaasctl history list compute-node-01
  gpuaasctl history list -o json | jq '.[] | select(.good) | .run_id'`,
		Args: cmdutil.Args(0, 2),
		RunE: cmdutil.Run(a, o, list),
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&o.Environment, "profile", "", "only of the profile `NAME`")
	fl.StringVar(&o.Node, "node-id", "", "the same as `NODE`, whatever it is called")
	fl.StringVar(&o.Allocation, "allocation-id", "", "only of the allocation `ID`")
	fl.IntVar(&o.Limit, "limit", 20, "at most `N`; 0: all")
	cmdutil.PageFlag(cmd, &o.output)
	cmdutil.CompleteFunc(cmd, "profile", a.ProfileNames)
	cmd.ValidArgsFunction = a.CompleteNode(&cmdutil.ProfileFlags{}, false)
	return cmd
}

func list(a *cmdutil.App, cmd *cobra.Command, o *listOptions, args []string) error {
	var err error
	if len(args) > 0 {
		o.Node, err = a.Node(cmd, args, o.Node, &profile.Profile{})
	}
	if err == nil {
		o.Allocation, err = cmdutil.Allocation(cmd, args, o.Allocation)
	}
	if err != nil {
		return err
	}
	if o.Limit < 0 {
		return cmdutil.Usagef("--limit: want 0 (all) or more, not %d", o.Limit)
	}
	kept := diag.Documents[history.Entry]{}
	err = a.WithHistory(cmd.Context(), func(ctx context.Context, s *history.Store) (err error) {
		kept, err = s.List(ctx, o.Filter)
		return err
	})
	if err != nil && !errors.Is(err, history.ErrNone) { // an empty history is an empty list
		return err
	}
	return printHistory(a, kept, o.output)
}

func printHistory(a *cmdutil.App, list diag.Documents[history.Entry], output string) error {
	rows := [][]string{{"ended", "run", "profile", "node", "allocation", "outcome", "took", "baseline", "blame"}}
	for _, e := range list {
		rows = append(rows, []string{
			e.EndedAt.UTC().Format("2006-01-02 15:04:05Z"), e.RunID, e.Environment, e.NodeID,
			e.AllocationID, string(e.Outcome), e.DurationMS.Words(), baselineWord(e),
			strings.TrimSpace(string(e.BlameHop) + " " + string(e.BlameSignal)),
		})
	}
	return a.ShowPage(list, output, cmdutil.Table(rows))
}

// baselineWord describes whether a report may be a baseline, and of what.
func baselineWord(e history.Entry) string {
	switch {
	case e.Good && e.Whole:
		return "good"
	case e.Good:
		return "good, in part"
	}
	return ""
}

func newHistoryShow(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, show, &cobra.Command{
		Use:   "show RUN",
		Short: "Print a kept report as it was",
		Example: `  gpuaasctl history show 4ede6c6e -o full
  gpuaasctl history show run-20261121T044638Z-4ede6c6e -o json >report.json`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeRuns(a, 1),
	}, cmdutil.Formats...)
}

func show(a *cmdutil.App, cmd *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	r, err := kept(a, cmd.Context(), args[0])
	if err != nil {
		return err
	}
	return a.ShowReport(r, o.Output, "")
}

// kept returns one stored report. An unknown id is a usage error.
func kept(a *cmdutil.App, ctx context.Context, id string) (r *diag.Report, err error) {
	err = a.WithHistory(ctx, func(ctx context.Context, s *history.Store) error {
		r, err = s.Get(ctx, id)
		return err
	})
	if errors.Is(err, history.ErrNone) {
		err = &cmdutil.UsageError{Err: fmt.Errorf("%s: %w", id, err), Command: "gpuaasctl history list"}
	}
	return r, err
}

// keptOrFile returns a report by its file, else by its run id.
func keptOrFile(a *cmdutil.App, ctx context.Context, arg string) (*diag.Report, error) {
	if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) && arg != "-" {
		r, err := kept(a, ctx, arg)
		if err != nil {
			return nil, err
		}
		return verdict.AsToday(a.Chain(), r), nil
	}
	return cmdutil.Read(ctx, a, arg, a.Rejudge)
}

// pruneOptions choose what stays.
type pruneOptions struct {
	keep  int
	older time.Duration
}

func newHistoryPrune(a *cmdutil.App) *cobra.Command {
	o := &pruneOptions{}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete reports, except the last good one of each subject",
		Example: `  gpuaasctl history prune --older-than 720h
  gpuaasctl history prune --keep 0`,
		Args: cmdutil.Args(0, 0),
		RunE: cmdutil.Run(a, o, prune),
	}
	cmd.Flags().IntVar(&o.keep, "keep", history.PerSubject, "reports of each node and allocation that stay: `N`")
	cmd.Flags().DurationVar(&o.older, "older-than", 0, "also forget what ended longer ago than this `TIME`")
	return cmd
}

func prune(a *cmdutil.App, cmd *cobra.Command, o *pruneOptions, _ []string) error {
	if o.keep < 0 || o.older < 0 {
		return cmdutil.Usagef("--keep and --older-than: want no negative values")
	}
	l := history.DefaultLimits()
	l.PerSubject = o.keep
	if o.older > 0 {
		l.Before = diag.At(time.Now().Add(-o.older))
	}
	n, size := 0, int64(0)
	err := a.WithHistory(cmd.Context(), func(ctx context.Context, s *history.Store) (err error) {
		n, size, err = s.Prune(ctx, l)
		return err
	})
	if err != nil && !errors.Is(err, history.ErrNone) {
		return err
	}
	return a.Write(fmt.Appendf(nil, "forgot %d reports, %d KiB\n", n, (size+1023)/1024))
}

func newHistoryPath(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print where the history is",
		Example: `  gpuaasctl history path`,
		Args:    cmdutil.Args(0, 0),
		RunE:    cmdutil.Run(a, struct{}{}, historyPath),
	}
}

func historyPath(a *cmdutil.App, _ *cobra.Command, _ struct{}, _ []string) error {
	path, err := a.HistoryPath()
	if err != nil {
		return &cmdutil.UsageError{Err: err}
	}
	return a.Write([]byte(path + "\n"))
}

// completeRuns completes stored runs for up to n arguments.
func completeRuns(a *cmdutil.App, n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []string
		_ = a.WithHistory(cmd.Context(), func(ctx context.Context, s *history.Store) error { // an empty completion
			list, err := s.List(ctx, history.Filter{Limit: 50})
			for _, e := range list {
				words = append(words, e.RunID+"\t"+e.NodeID+" "+string(e.Outcome))
			}
			return err
		})
		return words, cobra.ShellCompDirectiveDefault
	}
}
