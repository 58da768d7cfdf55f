package chaoscmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

func newChaosPanic(a *cmdutil.App) *cobra.Command {
	return newFleet(a, time.Minute, func(site *ops.Site, ctx context.Context, of []chaos.Machine) *ops.Fleet {
		return site.Panic(ctx, of, func(err error) { a.Note("%v; trying again", err) })
	}, panicPage, &cobra.Command{
		Use:   "panic [NODE...]",
		Short: "Revert everything everywhere now, and list what could not be reached",
		Long: `Revert every change of every drill on every machine of the profile, also of drills that others started or that have no
record here. Then look for anything that bears this tool's name. A machine that fails does not stop the others. Machines
that could not be reached are listed: each reverts itself when its lease or its time to live ends, or when it boots.

Exit codes: 0 nothing is left anywhere, 5 a machine was not reached, 7 something is left (wins over 5).`,
		Example: `  gpuaasctl chaos panic --profile lab
  gpuaasctl chaos panic --profile lab --deadline 20s -o json`,
	})
}

// panicPage shows what was reverted, and what is left.
func panicPage(d *ops.Fleet) []page.Block {
	blocks := append(revertPage(d), residueLines(d)...)
	if n := d.CleanMachines(); n == len(d.Machines) {
		blocks = append(blocks, line("nothing is left on %s", page.Count(n, "machine")))
	}
	return blocks
}
