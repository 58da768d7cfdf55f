package main

import "github.com/spf13/cobra"

func newDiag(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diag",
		Short: "Read what a node wrote down, name the reason, gather the evidence",
		Long: `What to ask about a node that is not heard, in this order:

  show       what its agent decided, and why; decode where only the disk is left, watch to follow
  classify   the one reason, its owner, and what to do
  trust      who trusts whom, and the first link that does not match
  bundle     everything for whoever has to know; timeline and export for the history alone

None of them changes anything on the node. What to do then is in "gpuaasctl node --help".`,
		Args: knownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDiagShow(a), newDiagWatch(a), newDiagDecode(a))
	cmd.AddCommand(newDiagTrust(a), newDiagClassify(a), newDiagBundle(a), newDiagTimeline(a), newDiagExport(a))
	return cmd
}
