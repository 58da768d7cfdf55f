// Package chaoscmd is "gpuaasctl chaos": it lists, plans, runs and reports drills, and reverts what is left of them.
package chaoscmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("chaos",
		"Drills: break something on purpose, check the verdict, revert it, prove that nothing is left",
		`A drill is a YAML file: one thing that is broken on a real machine, how independent probes see it, what the chain
must report by when, and what proves that it is over. The built-in ones are named by their id, your own by the path of
their file or folder.

Start with:  gpuaasctl chaos plan DRILL NODE, which writes nothing, then chaos run.`,
		newChaosList(a), newChaosShow(a), newChaosValidate(a), newChaosPlan(a), newChaosRun(a), newChaosReport(a),
		newChaosView(a), newChaosStatus(a), newChaosRevert(a), newChaosPanic(a), newChaosResidue(a), newChaosSchema(a))
}

// schemaOptions choose the kind of document.
type schemaOptions struct{ report, book bool }

func newChaosSchema(a *cmdutil.App) *cobra.Command {
	o := &schemaOptions{}
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a drill's file, for editors, of a game day's, or of the report",
		Long: `Print the JSON Schema of a drill's file. An editor with a YAML language server completes and checks a drill whose first
line is:

  # yaml-language-server: $schema=chaos-scenario.schema.json

--book prints that of a game day's file, which is a list of drills; --report that of what "run" and "report" write with
-o json.`,
		Example: `  gpuaasctl schema drill >chaos-scenario.schema.json
  gpuaasctl schema book >chaos-book.schema.json
  gpuaasctl schema drill-report >drill-report.schema.json`,
		Args: cmdutil.Args(0, 0),
		RunE: cmdutil.Run(a, o, writeSchema),
	}
	cmd.Flags().BoolVar(&o.book, "book", false, "of a game day's file instead")
	cmd.Flags().BoolVar(&o.report, "report", false, "of the report instead")
	return cmd
}

func writeSchema(a *cmdutil.App, _ *cobra.Command, o *schemaOptions, _ []string) error {
	switch {
	case o.report && o.book:
		return cmdutil.Usagef("--book or --report, not both")
	case o.report:
		return a.Write([]byte(schema.Report()))
	case o.book:
		return a.Write([]byte(schema.GameDay()))
	}
	return a.Write([]byte(schema.Scenario()))
}

// readDrills reads the drills that name selects; an error is a usage error, since no machine has been contacted yet.
func readDrills(name string) ([]chaos.Scenario, error) {
	all, err := chaos.Find(scenarios.Files, name)
	if err != nil {
		return nil, cmdutil.AsUsage(err)
	}
	return all, nil
}

// mayRunHere refuses drills that run programs on this machine and that another user may have written.
func mayRunHere(all []chaos.Scenario, trusted []string) error {
	var errs []error
	for _, t := range trusted {
		file, _, ok := strings.Cut(t, "@")
		named := func(s chaos.Scenario) bool { return filepath.Clean(s.File) == filepath.Clean(file) }
		if !ok || !slices.ContainsFunc(all, named) {
			errs = append(errs, fmt.Errorf("--trust %s: want FILE@SHA256 of a file of these drills", t))
		}
	}
	for _, s := range all {
		errs = append(errs, s.MayRunLocally(trusted))
	}
	return cmdutil.AsUsage(errors.Join(errs...))
}

// runsHere returns the programs that a custom drill runs on this machine; "" for none.
func runsHere(s chaos.Scenario) string {
	if s.Source.Builtin {
		return ""
	}
	var out strings.Builder
	for _, argv := range s.LocalPrograms() {
		fmt.Fprintf(&out, "%s: runs on this machine: %s\n", s.File, diag.Command(argv...))
	}
	return out.String()
}

// trustFlag adds the flag with which the operator vouches for the content of a drill's file.
func trustFlag(cmd *cobra.Command, trusted *[]string) {
	cmd.Flags().StringArrayVar(trusted, "trust", nil, "run the programs of this drill here though others can write it: "+
		"`FILE@SHA256`; may be given several times")
}

// oneDrill reads exactly one drill.
func oneDrill(name string) (chaos.Scenario, error) {
	all, err := readDrills(name)
	if err != nil {
		return chaos.Scenario{}, err
	}
	if len(all) != 1 {
		return chaos.Scenario{}, cmdutil.Usagef("%s holds %d drills: name one of them", name, len(all))
	}
	return all[0], nil
}

// builtinDrills returns the drills that are part of this program; a test ensures that they parse.
func builtinDrills() ([]chaos.Scenario, error) {
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		return nil, errors.Join(errors.New("a built-in drill does not read"), err)
	}
	return all, nil
}

func completeDrill(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := builtinDrills()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, s.Metadata.ID+"\t"+s.Metadata.Title)
	}
	return ids, cobra.ShellCompDirectiveDefault // or the path of a file
}
