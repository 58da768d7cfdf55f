package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newRoot builds the command tree. begun becomes true when a command line was understood and its command runs.
func newRoot(a *app) (root *cobra.Command, begun *bool) {
	begun = new(bool)
	root = &cobra.Command{
		Use:   "gpuaasctl",
		Short: "Find the hop that failed between a control plane, a GPU node and a tenant's terminal",
		Long: `gpuaasctl walks the chain from the control plane to a tenant's shell, from here and from the node at once, and
names the first failed hop, its cause and its owner.

Start with:  gpuaasctl preflight --profile NAME --node-id NODE --allocation-id ALLOCATION`,
		Args:                       knownCommand,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRun:           func(*cobra.Command, []string) { *begun = true },
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetHelpFunc(help)
	root.AddCommand(newPreflight(a), newDiag(a), newNodeCommands(a), newChaos(a), newHistory(a), newProfile(a), newSSH(a), newLab(a), newVersion(a))
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	return root, begun
}

// knownCommand refuses a word that is no command of cmd, and suggests the one that was probably meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		meant = " (did you mean " + oneOf(names) + "?)"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), meant)
}
