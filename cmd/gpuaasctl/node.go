package main

import "github.com/spf13/cobra"

func newNodeCommands(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Look after nodes: how they stand, their private names, their identity",
		Args:  knownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeStatus(a), newNodeEndpoints(a), newNodeReenroll(a))
	return cmd
}
