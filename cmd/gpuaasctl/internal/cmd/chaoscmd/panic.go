package chaoscmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/page"
)

func newChaosPanic(a *cmdutil.App) *cobra.Command {
	o := &fleetOptions{}
	cmd := &cobra.Command{
		Use:   "panic [NODE...]",
		Short: "Revert everything everywhere now, and list what could not be reached",
		Long: `Revert every change of every drill on every machine of the profile, also of drills that others started or that have no
record here. Then look for anything that bears this tool's name. A machine that fails does not stop the others. Machines
that could not be reached are listed: each reverts itself when its lease or its time to live ends, or when it boots.

Exit codes: 0 nothing is left anywhere, 5 a machine was not reached, 7 something is left (wins over 5).`,
		Example: `  gpuaasctl chaos panic --profile lab
  gpuaasctl chaos panic --profile lab --deadline 20s -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.only = append(o.only, args...)
			return everywhere(a, cmd, o, func(ctx context.Context, site *ops.Site, of []chaos.Machine) *ops.Fleet {
				return site.Panic(ctx, of, func(err error) { a.Note("%v; trying again", err) })
			}, panicPage)
		},
	}
	o.flags(a, cmd, time.Minute)
	return cmd
}

// panicPage shows what was reverted, and what is left.
func panicPage(d *ops.Fleet) []page.Block {
	blocks := append(revertPage(d), residueLines(d)...)
	if n := d.CleanMachines(); n == len(d.Machines) {
		blocks = append(blocks, line("nothing is left on %s", machinesText(n)))
	}
	return blocks
}

func machinesText(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}
