// Package diagcmd is "gpuaasctl diag": a node's diagnostic record, the reason for its state, the trust between
// certificates, and all evidence about a node.
package diagcmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diag",
		Short: "Read a node's record, name the reason, collect the evidence",
		Long: `For a node that sends no heartbeats, run in this order:

  show       what its agent decided, and why; decode for a disk without its machine, watch to follow
  classify   the one reason, its owner, and what to do
  trust      the trust between node and platform, and the first link that does not match
  bundle     all evidence in one archive, for a ticket; timeline and export for the history alone

None of them changes anything on the node. For repairs see "gpuaasctl node --help".`,
		Args: cmdutil.KnownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDiagShow(a), newDiagWatch(a), newDiagDecode(a))
	cmd.AddCommand(newDiagTrust(a), newDiagClassify(a, classify), newDiagBundle(a, bundle), newDiagTimeline(a),
		newDiagExport(a))
	return cmd
}
