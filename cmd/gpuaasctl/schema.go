package main

import (
	"strings"

	"github.com/spf13/cobra"

	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/schema"
	gpuschema "github.com/gpuaas/gpuaasctl/gpu/policy/schema"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// published are the kinds of documents with a JSON Schema.
var published = [...]struct {
	kind, what string
	text       func() string
}{
	{"preflight-report", "what preflight writes with -o json", schema.PreflightReport},
	{"drill-report", "what chaos run and chaos report write with -o json", chaosschema.Report},
	{"drill", "a drill's file, for editors", chaosschema.Scenario},
	{"book", "a game day's file: a list of drills", chaosschema.GameDay},
	{"gpu-policy", "a GPU policy's file, for editors", gpuschema.Policy},
	{"gpu-judgement", "what gpu policy explain writes with -o json", gpuschema.Judgement},
}

func newSchema(a *cmdutil.App) *cobra.Command {
	long := "Prints the JSON Schema of a kind of document, or lists the kinds:\n"
	for _, p := range published {
		long += "\n  " + p.kind + strings.Repeat(" ", 18-len(p.kind)) + p.what
	}
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON Schema of a kind of document",
		Long: long + `

An editor with a YAML language server completes and checks a drill whose first line is:

  # yaml-language-server: $schema=drill.schema.json`,
		Example: `  gpuaasctl schema
  gpuaasctl schema preflight-report
  gpuaasctl schema drill >drill.schema.json`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: cobra.FixedCompletions(kinds(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              cmdutil.Run(a, struct{}{}, writeSchema),
	}
}

// kinds lists the kinds of documents, each with its description.
func kinds() (all []string) {
	for _, p := range published {
		all = append(all, p.kind+"\t"+p.what)
	}
	return all
}

func writeSchema(a *cmdutil.App, _ *cobra.Command, _ struct{}, args []string) error {
	if len(args) == 0 {
		return a.Write([]byte(strings.ReplaceAll(strings.Join(kinds(), "\n"), "\t", ": ") + "\n"))
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	var known []string
	for _, p := range published {
		if plain(p.kind) == plain(args[0]) { // DrillReport is the kind in its document
			return a.Write([]byte(p.text()))
		}
		known = append(known, p.kind)
	}
	return cmdutil.Usagef("KIND: want %s, not %q%s", cmdutil.OneOf(known), args[0], strictyaml.Nearest(args[0], known))
}
