package main

import "github.com/spf13/cobra"

func newSSH(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh",
		Short: "Get to nodes: accept a first host key",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	_ = a
	return cmd
}
