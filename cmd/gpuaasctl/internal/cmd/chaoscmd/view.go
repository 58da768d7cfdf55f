package chaoscmd

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui/explorer"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

func newChaosView(a *cmdutil.App) *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		Use:   "view [RUN|FILE...]",
		Short: "Move through a drill claim by claim, on a terminal",
		Long: `Shows the claims of a drill on the left, its machines with their steps, its walks and the events of its log; and on the
right the details of the selected one. A walk opens hop by hop, as gpuaasctl preflight view shows it, where the run's
folder is on this machine. RUN, FILE and --from-journal are those of "gpuaasctl chaos report"; without one it is the
newest kept run. It contacts no machine.

Keys: ? help, arrows or hjkl move, enter opens a walk, esc or q goes back, / searches, e explains a word, 1-9 copy a
command (OSC 52), q quits.

Exit codes: 0 shown, 2 usage, no such report, or no terminal.`,
		Example: `  gpuaasctl chaos view
  gpuaasctl chaos view 261121-090312-ab12
  gpuaasctl chaos view drill.json`,
		ValidArgsFunction: completeDrillRuns(a),
		RunE:              cmdutil.Run(a, o, chaosView),
	}
	o.journalFlag(cmd)
	return cmd
}

// chaosView shows the report of runs.
func chaosView(a *cmdutil.App, cmd *cobra.Command, o *reportOptions, args []string) error {
	in, out := cmdutil.Terminals(a)
	if !tui.Possible(in, out) {
		without := append([]string{"gpuaasctl", "chaos", "report"}, args...)
		for _, j := range o.journals {
			without = append(without, "--from-journal", j)
		}
		return &cmdutil.UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf(
			"chaos view needs a terminal on stdin and stdout; without one: %s", diag.Command(append(without, "-o", "full")...))}
	}
	r, of, err := drillReport(a, args, o.journals)
	if err != nil {
		return err
	}
	return explorer.Run(cmd.Context(), explorer.Drills(r, func(d *drill.Drill) explorer.DrillSource {
		return beside(a, of, d, fileOf(args))
	}), explorer.Options{In: in, Out: out, Display: a.RenderOptions(cmdutil.FormatFull), Explain: cmdutil.Explainer()})
}

// beside returns a drill's data that is not in its report: the events of its log, and the reports of its walks. A
// report from another machine may name a folder that does not exist here, or that belongs to another run.
func beside(a *cmdutil.App, of *drill.Sources, d *drill.Drill, from string) explorer.DrillSource {
	src := explorer.DrillSource{From: from, NoWalk: "the report names no folder of its run", Events: of.Events(d)}
	if d.Log == "" {
		return src
	}
	walks := filepath.Join(d.Log, drill.WalksFolder)
	if info, err := os.Stat(walks); err != nil || !info.IsDir() {
		src.NoWalk = "there is no folder " + walks
		return src
	}
	src.Walk = func(w *drill.WalkView) (*diag.Report, error) { return walkOf(a, d, w) }
	return src
}

// walkOf returns the report of a walk, as the drill stored it.
func walkOf(a *cmdutil.App, d *drill.Drill, w *drill.WalkView) (*diag.Report, error) {
	path := filepath.Join(d.Log, drill.WalksFolder, drill.WalkFile(w.N))
	data, err := bounded.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := a.ParseReport(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Run.ID != w.Walk {
		return nil, fmt.Errorf("%s is another walk, %s", path, r.Run.ID)
	}
	return r, nil
}
