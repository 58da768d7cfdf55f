package chaoscmd

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
)

// reportOptions choose the runs, and how their report is shown.
type reportOptions struct {
	output   string
	list     bool
	journals []string
}

func newChaosReport(a *cmdutil.App) *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		Use:   "report [RUN|FILE...]",
		Short: "Show the report of a run, also of one that was killed",
		Long: `Writes the report of kept runs, by default of the newest one. It contacts no machine.

RUN is a run's id, or its end. FILE is a report in JSON, a run's folder or its events.ndjson, or what --from-journal
takes. The report of a killed run has what was recorded: what was not measured is "not seen", which is not a pass.

--from-journal adds what a machine wrote down by itself: its file /var/lib/gpuaasctl/drill/RUN/journal, or a copy of it,
from a dead disk for example. Without the tool's log nothing is known about walks, and the verdict is infra at best.

Exit codes are those of "gpuaasctl chaos run"; 2 for input that cannot be read.`,
		Example: `  gpuaasctl chaos report
  gpuaasctl chaos report --list
  gpuaasctl chaos report 261121-090312-ab12 -o markdown >drill.md
  gpuaasctl chaos report drill.json -o junit
  gpuaasctl chaos report 261121-090312-ab12 --from-journal ./journal
  gpuaasctl chaos report --from-journal /mnt/var/lib/gpuaasctl/drill/261121-090312-ab12/journal`,
		ValidArgsFunction: completeDrillRuns(a),
		RunE:              cmdutil.Run(a, o, chaosReport),
	}
	cmd.Flags().BoolVar(&o.list, "list", false, "list the kept runs, the newest first")
	o.journalFlag(cmd)
	cmdutil.FormatFlag(cmd, &o.output, cmdutil.FormatTable, drillFormats()...)
	return cmd
}

func chaosReport(a *cmdutil.App, _ *cobra.Command, o *reportOptions, args []string) error {
	if o.list {
		return listDrillRuns(a, o, args)
	}
	r, _, err := drillReport(a, args, o.journals)
	if err != nil {
		return err
	}
	cmdutil.IgnoreHangup()
	err = writeDrills(a, r, o.output, fileOf(args))
	if err == nil {
		publish(a, r)
	}
	return a.ExitError(cmdutil.DrillCode(r), err)
}

// journalFlag adds --from-journal.
func (o *reportOptions) journalFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.journals, "from-journal", nil,
		"also read the machine's journal at `PATH`; may be given several times")
}

// fileOf returns the only file in names, "" for a run or several names.
func fileOf(names []string) string {
	if len(names) == 1 {
		if _, err := os.Stat(names[0]); err == nil {
			return names[0]
		}
	}
	return ""
}

// drillReport builds the report from runs and journals by name, and returns their sources with it.
func drillReport(a *cmdutil.App, names, journals []string) (*drill.Report, *drill.Sources, error) {
	if len(names)+len(journals) == 0 {
		kept, err := keptRuns(a)
		if err != nil {
			return nil, nil, err
		}
		if len(kept) == 0 {
			return nil, nil, cmdutil.Usagef(
				"no drill was run yet by this user on this machine; name a file, or a --from-journal")
		}
		names = []string{kept[0].Run}
	}
	all := &drill.Sources{Tool: a.ToolVersion(),
		Parse: func(data []byte) (*drill.Report, error) { return parseDrillReport(a, data) }}
	for _, name := range names {
		path := name
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			if path, err = runFolder(a, name); err != nil {
				return nil, nil, err
			}
		}
		if err := all.Add(path, false); err != nil {
			return nil, nil, cmdutil.Usagef("%s: %w", name, err)
		}
	}
	for _, path := range journals {
		if err := all.Add(path, true); err != nil {
			return nil, nil, cmdutil.Usagef("--from-journal: %s: %w", path, err)
		}
	}
	r, err := all.Report()
	if err != nil {
		return nil, nil, &cmdutil.UsageError{Err: err}
	}
	return r, all, nil
}

// listDrillRuns lists the kept runs.
func listDrillRuns(a *cmdutil.App, o *reportOptions, args []string) error {
	switch {
	case len(args)+len(o.journals) > 0:
		return cmdutil.Usagef("--list: lists all kept runs, and takes none")
	case o.output != cmdutil.FormatTable && o.output != cmdutil.FormatJSON:
		return cmdutil.BadFormat(o.output, cmdutil.FormatTable, cmdutil.FormatJSON)
	}
	kept, err := keptRuns(a)
	if err != nil {
		return err
	}
	rows := [][]string{{"BEGAN", "RUN", "DRILL", "NODE", "TOOK", "VERDICT", "WHY"}}
	for _, k := range kept {
		began := "-"
		if !k.Began.IsZero() {
			began = k.Began.UTC().Format("2006-01-02 15:04:05Z")
		}
		rows = append(rows, []string{began, k.Run, k.Scenario, k.Node,
			diag.Millis(k.TookMS).Words(), string(k.Verdict.Word), k.Verdict.Text})
	}
	return a.ShowPage(kept, o.output, cmdutil.Table(rows))
}
