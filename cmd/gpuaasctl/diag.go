package main

import "github.com/spf13/cobra"

func newDiag(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diag",
		Short: "Read what a node wrote down, name the reason, gather the evidence",
		Args:  knownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDiagShow(a), newDiagWatch(a), newDiagDecode(a))
	cmd.AddCommand(newDiagTrust(a), newDiagClassify(a), newDiagBundle(a), newDiagTimeline(a), newDiagExport(a))
	return cmd
}
