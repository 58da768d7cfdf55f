package main

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func newChaosList(a *app) *cobra.Command {
	var output string
	var kinds bool
	cmd := &cobra.Command{
		Use:   "list [FILE|FOLDER]",
		Short: "List drills, or the kinds of faults that they are made of",
		Example: `  gpuaasctl chaos list
  gpuaasctl chaos list --kinds
  gpuaasctl chaos list ./our-drills -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if kinds {
				return a.listKinds(output)
			}
			all, err := builtinDrills()
			if len(args) == 1 {
				all, err = readDrills(args[0])
			}
			if err != nil {
				return err
			}
			return a.listDrills(all, output)
		},
	}
	cmd.Flags().BoolVar(&kinds, "kinds", false, "list the kinds of faults, with what takes each away when nobody does")
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

func (a *app) listDrills(all []chaos.Scenario, output string) error {
	if output == formatJSON {
		return a.writeJSON(all)
	}
	rows := [][]string{{"DRILL", "SEVERITY", "FAULTS", "BLAME", "WITHIN", "TITLE"}}
	for _, s := range all {
		var kinds []string
		for _, f := range s.Faults {
			if !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
		blame := "none"
		if !s.Expect.Blame.None {
			blame = string(s.Expect.Blame.Hop[0])
		}
		rows = append(rows, []string{s.Metadata.ID, s.Metadata.Severity, strings.Join(kinds, ","), blame, s.Expect.DetectWithin.String(), s.Metadata.Title})
	}
	return a.write(columnsIn(rows, width(a.stdout)))
}

func (a *app) listKinds(output string) error {
	type row struct {
		Kind  string       `json:"kind"`
		Tier  string       `json:"tier"`
		On    []chaos.Role `json:"on"`
		Title string       `json:"title"`
		About string       `json:"about"`
	}
	var all []row
	table := [][]string{{"KIND", "TIER", "ON", "WHAT"}}
	for _, k := range chaos.Kinds() {
		all = append(all, row{k.Name, k.Tier, k.On, k.Title, k.About})
		table = append(table, []string{k.Name, k.Tier, strings.Join(words(k.On), ","), k.Title})
	}
	if output == formatJSON {
		return a.writeJSON(all)
	}
	return a.write(append(columnsIn(table, width(a.stdout)), []byte("\nT0 ends by the kernel at the ttl, T1 with the watchdog, T2 with a reboot, T3 only by an undo.\n")...))
}

func words[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = string(w)
	}
	return out
}

func newChaosShow(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show DRILL",
		Short: "Print a drill's file, as a pattern for your own",
		Example: `  gpuaasctl chaos show api-egress-blocked
  gpuaasctl chaos show api-egress-blocked >our-egress.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeDrill,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := oneDrill(args[0])
			if err != nil {
				return err
			}
			if output == formatJSON {
				return a.writeJSON(s)
			}
			text, err := fs.ReadFile(scenarios.Files, args[0]+".yaml")
			if err != nil { // of somebody's own
				if text, err = os.ReadFile(s.File); err != nil {
					return err
				}
			}
			return a.write(text)
		},
	}
	formatFlag(cmd, &output, "yaml", "yaml", formatJSON)
	return cmd
}

func newChaosValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|FOLDER|DRILL...",
		Short: "Check drills, without any machine",
		Long: `Check drills, without any machine. Every mistake is reported with file, line and field, and the exit code is 2.

What only a machine can say (no consent, no such unit, a rule that would cut the operator off) is said by
"gpuaasctl chaos plan".`,
		Example: `  gpuaasctl chaos validate our-egress.yaml
  gpuaasctl chaos validate ./our-drills`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeDrill,
		RunE: func(_ *cobra.Command, args []string) error {
			var out strings.Builder
			for _, name := range args {
				all, err := readDrills(name)
				if err != nil {
					return err
				}
				for _, s := range all {
					fmt.Fprintf(&out, "%s: ok\n", s.File)
				}
			}
			return a.write([]byte(out.String()))
		},
	}
}
