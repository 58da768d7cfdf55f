package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Headings of the root's help, by what somebody is there for.
const (
	groupAsk  = "ask"
	groupTend = "tend"
	groupTry  = "try"
)

// newRoot builds the command tree. begun becomes true when a command line was understood and its command runs.
func newRoot(a *app) (root *cobra.Command, begun *bool) {
	begun = new(bool)
	root = &cobra.Command{
		Use:   "gpuaasctl",
		Short: "Find the hop that failed between a control plane, a GPU node and a tenant's terminal",
		Long: `gpuaasctl walks the chain from the control plane to a tenant's shell, from here and from the node at once, and
names the first failed hop, its cause and its owner.

Start with:  gpuaasctl preflight --profile NAME --node-id NODE --allocation-id ALLOCATION

Exit codes mean the same everywhere: 0 nothing is wrong, 1 internal error, 2 usage or configuration, 3 a fault was found
or something was refused, 4 and 6 what --fail-on asked for, 5 not enough could be measured, 7 a drill has left something
on a machine, 130 interrupted.`,
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
	root.AddGroup(
		&cobra.Group{ID: groupAsk, Title: "Ask what is wrong"},
		&cobra.Group{ID: groupTend, Title: "Look after nodes and profiles"},
		&cobra.Group{ID: groupTry, Title: "Try things on"},
	)
	root.AddCommand(inGroup(groupAsk, newPreflight(a), newDiag(a), newHistory(a))...)
	root.AddCommand(inGroup(groupTend, newNodeCommands(a), newSSH(a), newProfile(a))...)
	root.AddCommand(inGroup(groupTry, newChaos(a), newLab(a))...)
	root.AddCommand(newVersion(a))
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	return root, begun
}

// inGroup files commands under a heading of the root's help.
func inGroup(id string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = id
	}
	return commands
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
