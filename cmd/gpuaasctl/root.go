package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/chaoscmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/checkcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/diagcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/explaincmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/gpucmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/historycmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/labcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/nodecmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/preflightcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/profilecmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/sshcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// Headings of the root's help, by task.
const (
	groupAsk  = "ask"
	groupTend = "tend"
	groupTry  = "try"
)

// noun is a command below the root, under a heading of the root's help.
type noun struct {
	name, group string
	build       func(*cmdutil.App) *cobra.Command
}

// nouns are all of them except help and completion.
var nouns = [...]noun{
	{"preflight", groupAsk, preflightcmd.New}, {"check", groupAsk, checkcmd.New},
	{"diag", groupAsk, diagcmd.New}, {"explain", groupAsk, explaincmd.New},
	{"gpu", groupAsk, gpucmd.New}, {"history", groupAsk, historycmd.New},
	{"node", groupTend, nodecmd.New}, {"ssh", groupTend, sshcmd.New}, {"profile", groupTend, profilecmd.New},
	{"chaos", groupTry, chaoscmd.New}, {"lab", groupTry, labcmd.New},
	{"schema", "", newSchema}, {"version", "", newVersion},
}

// newRoot builds the command tree that args need: building all of it takes a tenth of a short command's time, so if
// args begin with a noun, only that one is built. begun becomes true when a command line was valid and its command
// runs.
func newRoot(a *cmdutil.App, args []string) (root *cobra.Command, begun *bool) {
	begun = new(bool)
	var version bool
	root = &cobra.Command{
		Use:   "gpuaasctl",
		Short: "Find the hop that failed between a control plane, a GPU node and a tenant's terminal",
		Long: `gpuaasctl walks the chain from the control plane to a tenant's shell, from here and from the node at once, and
names the first failed hop, its cause and its owner.

Start with:  gpuaasctl preflight NODE [ALLOCATION]

Exit codes mean the same everywhere: 0 nothing is wrong, 1 internal error, 2 usage or configuration, 3 a fault was found
or something was refused, 4 and 6 what --fail-on asked for, 5 not enough could be measured, 7 a drill has left something
on a machine, 130 interrupted.`,
		Args:                       cmdutil.KnownCommand,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*begun = true
			a.Colored()
			a.NoteDeprecated(cmd)
			if restores(cmd) {
				return nil
			}
			_, err := a.HistoryOff() // an invalid setting ends a command before it does anything
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(a, cmd, &cmdutil.OutputOptions{Output: "text"}, nil)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false,
		"no progress and no notes on stderr, only what went wrong")
	a.ColorFlag(root)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetHelpFunc(a.Help)
	root.SetFlagErrorFunc(cmdutil.FlagError)
	root.AddGroup(
		&cobra.Group{ID: groupAsk, Title: "Diagnosis"},
		&cobra.Group{ID: groupTend, Title: "Nodes and profiles"},
		&cobra.Group{ID: groupTry, Title: "Practice"},
	)
	alone := addNouns(root, a, args)
	root.SetHelpCommand(a.NewHelp())
	root.CompletionOptions.DisableDefaultCmd = alone
	addCompletion(root)
	cmdutil.AddDeprecated(root)
	return root, begun
}

// addNouns adds the command that args names, alone, since only that one will run; else all of them.
func addNouns(root *cobra.Command, a *cmdutil.App, args []string) (alone bool) {
	only := func(n noun) bool { return len(args) > 0 && n.name == args[0] }
	alone = slices.ContainsFunc(nouns[:], only)
	for _, n := range nouns {
		if !alone || only(n) {
			cmd := n.build(a)
			cmd.GroupID = n.group
			root.AddCommand(cmd)
		}
	}
	return alone
}

// restores reports whether a command reverts faults on machines: an invalid setting of something else must not stop it.
func restores(cmd *cobra.Command) bool {
	switch cmd.CommandPath() {
	case "gpuaasctl chaos panic", "gpuaasctl chaos revert", "gpuaasctl lab down":
		return true
	}
	return false
}

// addCompletion adds cobra's command, with errors in our style.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args, c.RunE = cmdutil.KnownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range c.Commands() {
			shell.Args, shell.Example = cmdutil.Args(0, 0), "  gpuaasctl completion "+shell.Name()+" >FILE"
		}
	}
}
