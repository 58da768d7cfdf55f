package chaoscmd

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// revertOptions are the options of `chaos revert`.
type revertOptions struct {
	fleetOptions
	force bool
}

func newChaosRevert(a *cmdutil.App) *cobra.Command {
	o := &revertOptions{}
	cmd := &cobra.Command{
		Use:   "revert [RUN] [NODE...]",
		Short: "Revert what drills have changed, on every machine of the profile",
		Long: `Revert the changes of the drill RUN, or of every drill, on every machine of the profile, also of drills that others
started. Then compare each machine with its state before the drill, and remove the drill's own files.

What was changed from outside the drill is left alone and called a conflict: the drill's journal stays, so that it
can be looked at. --force removes it as well.

Exit codes: 0 nothing is left, 5 a machine was not reached, 7 something is left.`,
		Example: `  gpuaasctl chaos revert --profile lab
  gpuaasctl chaos revert 261121-091500-ab12 --profile lab
  gpuaasctl chaos revert 261121-091500-ab12 --profile lab --force`,
		RunE: cmdutil.Run(a, o, chaosRevert),
	}
	o.flags(a, cmd, 2*time.Minute)
	cmd.Flags().BoolVar(&o.force, "force", false, "remove the traces of drills with a conflict as well")
	return cmd
}

func chaosRevert(a *cmdutil.App, cmd *cobra.Command, o *revertOptions, args []string) error {
	run, nodes, err := o.split(a, cmd, args)
	if err != nil {
		return err
	}
	o.only = append(o.only, nodes...)
	if run != "" && !step.ValidName(run) {
		return cmdutil.Usagef("%q is not the run of a drill (gpuaasctl chaos status lists them)", run)
	}
	revert := func(site *ops.Site, ctx context.Context, of []chaos.Machine) *ops.Fleet {
		return site.Revert(ctx, of, run, o.force)
	}
	doc, err := fleetReport(a, cmd, &o.fleetOptions, revert)
	if err != nil {
		return err
	}
	if run != "" && doc.Drills() == 0 && fleetCode(cmd.Context(), doc) == cmdutil.ExitPass {
		return cmdutil.Usagef("no machine of the profile has a drill %s (gpuaasctl chaos status lists them)", run)
	}
	return finish(a, cmd, doc, o.output, revertPage)
}

// split separates RUN from the machines that follow: the first word is RUN unless it is a machine of the profile.
func (o *fleetOptions) split(a *cmdutil.App, cmd *cobra.Command,
	args []string) (run string, nodes []string, err error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	p, _, err := o.profile.Load(a, cmd)
	if _, node := p.Nodes[args[0]]; node || args[0] == chaos.Platform || err != nil {
		return "", args, err
	}
	return args[0], args[1:], nil
}

// revertPage is the table of what was reverted, and every line of what is left.
func revertPage(d *ops.Fleet) []page.Block {
	rows := [][]string{{"MACHINE", "DRILL", "STATE", "BY", "CLEAN", "CLOSED", "SCENARIO", "LEFT"}}
	var more []page.Block
	for _, m := range d.Machines {
		for _, x := range m.Drills {
			state, by, scenario := "unknown", "", ""
			if st := x.Status; st != nil {
				state, by, scenario = string(st.State), st.Reverter, st.Scenario
				for _, s := range st.Steps {
					if text := stepNote(s); text != "" {
						more = append(more, line("%s: %s: %s", m.ID, s.ID, text))
					}
				}
			}
			rows = append(rows, []string{m.ID, x.Run, state, by, cleanWord(x.Clean), yesNo(x.Closed), scenario, x.Left})
			if x.Error != "" {
				more = append(more, line("%s: %s: %s", m.ID, x.Run, x.Error))
			}
			for _, r := range x.Residue {
				more = append(more, line("%s: %s", m.ID, r))
			}
		}
	}
	blocks := []page.Block{line("there was no drill to revert")}
	if len(rows) > 1 {
		blocks[0] = cmdutil.Table(rows)
	}
	return slices.Concat(blocks, more, unreached(d))
}

// cleanWord is the result of a comparison.
func cleanWord(is *bool) string {
	if is == nil {
		return "-"
	}
	return yesNo(*is)
}
