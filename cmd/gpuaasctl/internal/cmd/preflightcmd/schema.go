package preflightcmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/schema"
)

func newSchema(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the report",
		Args:  cmdutil.Args(0, 0),
		RunE:  cmdutil.Run(a, struct{}{}, writeSchema),
	}
}

func writeSchema(a *cmdutil.App, _ *cobra.Command, _ struct{}, _ []string) error {
	return a.Write([]byte(schema.PreflightReport()))
}
