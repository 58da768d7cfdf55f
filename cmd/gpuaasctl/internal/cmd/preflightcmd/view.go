package preflightcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui/explorer"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/history"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

func newView(a *cmdutil.App) *cobra.Command {
	o := &preflightOptions{session: true}
	cmd := &cobra.Command{
		Use:   "view [REPORT]",
		Short: "Move through a report hop by hop, on a terminal",
		Long: `Shows the hops of a report on the left, and for the chosen one what was asked, what was seen, when each probe ran, the
proof as two columns, what changed since the last good walk, and the next commands. REPORT is a file or the id of a kept
walk; without one it is the newest kept walk. The facts are judged again, as by preflight REPORT.

Keys: ? help, arrows or hjkl move, / searches, e explains a word, 1-9 copy a command (OSC 52), r walks the hop again,
q quits. r measures, by the profile that is chosen here; it is refused where that is not the report's.

Exit codes: 0 shown, 2 usage, no such report, or no terminal.`,
		Example: `  gpuaasctl preflight view preflight.json
  gpuaasctl preflight view 4ede6c6e --profile lab
  gpuaasctl preflight view preflight.json --baseline before.json`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE:              cmdutil.Run(a, o, view),
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.Profile.AddName(a, cmd)
	f.DurationVar(&o.Deadline, "deadline", cmdutil.DefaultDeadline, "end a walk again after this `TIME`")
	f.StringVar(&o.Libexec, "libexec", "",
		"`FOLDER` of gpuaas-agent, which is put on nodes that lack it (default: beside this program)")
	cmdutil.Group(f, cmdutil.HeadWalk, "profile", "deadline", "libexec")
	o.baseline.Add(cmd)
	return cmd
}

// view shows a recorded or stored report.
func view(a *cmdutil.App, cmd *cobra.Command, o *preflightOptions, args []string) error {
	name := "REPORT"
	if len(args) > 0 {
		name = args[0]
	}
	if in, out := cmdutil.Terminals(a); !tui.Possible(in, out) {
		err := fmt.Errorf("preflight view needs a terminal on stdin and stdout; without one: gpuaasctl preflight %s",
			diag.Quote(name))
		return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	ctx := cmd.Context()
	recorded, err := viewed(a, ctx, args)
	if err != nil {
		return err
	}
	r, err := verdict.Replay(a.Chain(), recorded)
	if err != nil {
		return &cmdutil.UsageError{Err: fmt.Errorf("%s: %w", name, err)}
	}
	verdict.Compared(recorded, r)
	noteOtherVerdict(a, name, recorded, r)
	return o.explore(a, cmd, r, o.notAgain(a, cmd, r))
}

// viewed returns the report that args select.
func viewed(a *cmdutil.App, ctx context.Context, args []string) (r *diag.Report, err error) {
	if len(args) > 0 && cmdutil.IsRecording(args[0]) {
		return cmdutil.Read(ctx, a, args[0], a.ParseReport)
	}
	err = a.WithHistory(ctx, func(ctx context.Context, s *history.Store) error {
		id := ""
		if len(args) > 0 {
			id = args[0]
		} else if newest, err := s.List(ctx, history.Filter{Limit: 1}); err != nil || len(newest) == 0 {
			return errors.Join(err, history.ErrNone)
		} else {
			id = newest[0].RunID
		}
		r, err = s.Get(ctx, id)
		return err
	})
	if errors.Is(err, history.ErrNone) {
		err = &cmdutil.UsageError{Err: err, Command: "gpuaasctl history list"}
	}
	return r, err
}

// notAgain returns why a hop of a report cannot be walked again, or "". The operator's own profile is used: a report
// from another machine must not choose which commands run here, nor where they log in.
func (o *preflightOptions) notAgain(a *cmdutil.App, cmd *cobra.Command, r *diag.Report) string {
	p, _, err := o.Profile.Load(a, cmd)
	switch of := r.Subject; {
	case err != nil:
		return err.Error()
	case o.Profile.Name == "":
		return a.NoProfile()
	case !cmd.Flags().Changed("profile") && p.Name != of.EnvironmentProfile:
		return fmt.Sprintf("the report is of the profile %q, and %s is chosen: give --profile", of.EnvironmentProfile, p.Name)
	case of.NodeID == "":
		return "the report names no node"
	}
	o.NodeID, o.allocationID = r.Subject.NodeID, r.Subject.AllocationID
	return ""
}

// explore shows a report. not is why its hops cannot be walked again with these options, or "".
func (o *preflightOptions) explore(a *cmdutil.App, cmd *cobra.Command, r *diag.Report, not string) error {
	shown := *r
	if shown.Diff == nil || cmd.Flags().Changed("baseline") {
		o.baseline.Name = cmp.Or(o.baseline.Name, diag.LastGood)
		if err := o.compareReplay(a, cmd.Context(), &shown); err != nil {
			return err
		}
	}
	in, out := cmdutil.Terminals(a)
	options := explorer.Options{
		In: in, Out: out, Display: a.RenderOptions(cmdutil.FormatFull), Explain: cmdutil.Explainer(), NoAgain: not,
	}
	if not == "" {
		options.Again = func(ctx context.Context, hop string) (*explorer.Item, error) {
			return o.walkHop(ctx, a, cmd, hop)
		}
	}
	return explorer.Run(cmd.Context(), explorer.Walk(&shown), options)
}

// walkHop walks one hop once more, with the hops that it needs.
func (o *preflightOptions) walkHop(
	ctx context.Context, a *cmdutil.App, cmd *cobra.Command, hop string,
) (*explorer.Item, error) {
	one, quiet := *o, *a
	one.only, one.skip, one.report, one.baseline = []string{hop}, nil, "", cmdutil.BaselineFlag{}
	quiet.Quiet = true // the screen has no room for notes
	s, walk, err := prepare(&quiet, cmd, &one, nil)
	if err != nil {
		return nil, a.WithHint(err)
	}
	ctx, cancel := context.WithTimeout(ctx, one.Deadline)
	defer cancel()
	r := s.Walk(ctx, walk, nil)
	for i := range r.Hops {
		if string(r.Hops[i].ID) == hop {
			return new(explorer.Hop(r, i)), nil
		}
	}
	return nil, fmt.Errorf("%s was not walked", hop)
}
