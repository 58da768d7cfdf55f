package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

func newChaosReport(a *app) *cobra.Command {
	var output string
	var list bool
	var journals []string
	cmd := &cobra.Command{
		Use:   "report [RUN|FILE...]",
		Short: "Say again what came of a drill, also of one that was killed",
		Long: `Writes the report of kept runs, the newest one where none is named. Nothing is asked of any machine.

RUN is a run's id, or its end. FILE is a report in JSON, a run's folder or its events.ndjson, or what --from-journal
takes. A run that was killed is told as far as it was written down: what nobody saw is "not seen", and no pass.

--from-journal adds what a machine wrote down by itself: its file /var/lib/gpuaasctl/drill/RUN/journal, or a copy of it,
from a dead disk for example. Without the log of the tool nothing is known of walks, and the verdict is no better than
infra.

Exit codes are those of "gpuaasctl chaos run"; 2 for what cannot be read.`,
		Example: `  gpuaasctl chaos report
  gpuaasctl chaos report --list
  gpuaasctl chaos report 261121-090312-ab12 -o markdown >drill.md
  gpuaasctl chaos report drill.json -o junit
  gpuaasctl chaos report 261121-090312-ab12 --from-journal ./journal
  gpuaasctl chaos report --from-journal /mnt/var/lib/gpuaasctl/drill/261121-090312-ab12/journal`,
		ValidArgsFunction: a.completeDrillRuns,
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return a.listDrillRuns(args, journals, output)
			}
			r, err := a.drillReport(args, journals)
			if err != nil {
				return err
			}
			outlive()
			return a.ended(drillCode(r), a.writeDrills(r, output))
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the kept runs, the newest first")
	cmd.Flags().StringArrayVar(&journals, "from-journal", nil, "also read the machine's journal at `PATH`; may be given several times")
	formatFlag(cmd, &output, formatTable, drillFormats()...)
	return cmd
}

// drillReport puts together what names and journals say.
func (a *app) drillReport(names, journals []string) (*drill.Report, error) {
	if len(names)+len(journals) == 0 {
		kept, err := a.keptRuns()
		if err != nil {
			return nil, err
		}
		if len(kept) == 0 {
			return nil, usagef("no drill was run yet by this user on this machine; name a file, or a --from-journal")
		}
		names = []string{kept[0].Run}
	}
	var all sources
	for _, name := range names {
		path := name
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			if path, err = a.runFolder(name); err != nil {
				return nil, err
			}
		}
		if err := all.add(path, false); err != nil {
			return nil, usagef("%s: %w", name, err)
		}
	}
	for _, path := range journals {
		if err := all.add(path, true); err != nil {
			return nil, usagef("--from-journal: %s: %w", path, err)
		}
	}
	r, err := all.report()
	if err != nil {
		return nil, &usageError{err: err}
	}
	return r, nil
}

// listDrillRuns lists the kept runs.
func (a *app) listDrillRuns(args, journals []string, output string) error {
	switch {
	case len(args)+len(journals) > 0:
		return usagef("--list: lists all kept runs, and takes none")
	case output != formatTable && output != formatJSON:
		return badFormat(output, formatTable, formatJSON)
	}
	kept, err := a.keptRuns()
	if err != nil {
		return err
	}
	if output == formatJSON {
		return a.writeJSON(kept)
	}
	rows := [][]string{{"BEGAN", "RUN", "DRILL", "NODE", "TOOK", "VERDICT", "WHY"}}
	for _, k := range kept {
		began := "-"
		if !k.Began.IsZero() {
			began = k.Began.UTC().Format("2006-01-02 15:04:05Z")
		}
		rows = append(rows, []string{began, k.Run, orDash(k.Scenario), orDash(k.Node), diag.Millis(k.TookMS).Words(), orDash(string(k.Verdict.Word)), k.Verdict.Text})
	}
	for _, row := range rows {
		for i := range row {
			row[i] = render.Clean(row[i])
		}
	}
	return a.write(columnsIn(rows, width(a.stdout)))
}
