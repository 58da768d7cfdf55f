// Package diagcmd is "gpuaasctl diag": a node's diagnostic record, the reason for its state, the trust between
// certificates, and all evidence about a node.
package diagcmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("diag", "Read a node's record, name the reason, collect the evidence",
		`For a node that sends no heartbeats, run in this order:

  show       what its agent decided, and why; decode for a disk without its machine, watch to follow
  classify   the one reason, its owner, and what to do
  trust      the trust between node and platform, and the first link that does not match
  bundle     all evidence in one archive, for a ticket; timeline and export for the history alone

None of them changes anything on the node. For repairs see "gpuaasctl node --help".`,
		newDiagShow(a), newDiagWatch(a), newDiagDecode(a), newDiagTrust(a), newDiagClassify(a), newDiagBundle(a),
		newDiagTimeline(a), newDiagExport(a))
}
