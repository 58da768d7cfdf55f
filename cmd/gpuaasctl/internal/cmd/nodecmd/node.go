// Package nodecmd is "gpuaasctl node": the state of nodes, their private names and their identity.
package nodecmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("node", "Node status, private names, identity", "",
		newNodeStatus(a), newNodeEndpoints(a), newNodeReenroll(a))
}
