package main

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag/schema"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the report",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.write([]byte(schema.PreflightReport())) },
	}
}
