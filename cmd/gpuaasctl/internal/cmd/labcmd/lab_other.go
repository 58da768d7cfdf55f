//go:build !linux

package labcmd

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

func New(*cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "lab",
		Short: "A lab of real machines on this host (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("the lab needs Linux, this is " + runtime.GOOS)
		},
	}
}
