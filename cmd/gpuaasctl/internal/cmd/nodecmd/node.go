// Package nodecmd is "gpuaasctl node": the state of nodes, their private names and their identity.
package nodecmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Node status, private names, identity",
		Args:  cmdutil.KnownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeStatus(a, nodeStatus), newNodeEndpoints(a), newNodeReenroll(a))
	return cmd
}
