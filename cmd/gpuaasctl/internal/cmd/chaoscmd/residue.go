package chaoscmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/page"
)

func newChaosResidue(a *cmdutil.App) *cobra.Command {
	return newFleet(a, 90*time.Second, (*ops.Site).Residue, residuePage, &cobra.Command{
		Use:   "residue [NODE...]",
		Short: "Search every machine of the profile for leftovers of drills",
		Long: `Look on every machine of the profile for files, units, mounts, packet filter tables and processes that bear this tool's
name, without knowing of any drill. A drill that is active has such traces: gpuaasctl chaos status tells of it. What a
drill has changed and what bears no name of ours, such as a file that it restored wrongly, only a comparison with before
can show: gpuaasctl chaos revert makes it.

The program that looks is put into a tmpfs of its own, and removed again, with any that a run forgot there which was
killed.

Exit codes: 0 nothing was found, 5 a machine was not reached, 7 something was found (wins over 5).`,
		Example: `  gpuaasctl chaos residue --profile lab
  gpuaasctl chaos residue compute-node-01 platform -o json`,
	})
}

func residuePage(d *ops.Fleet) []page.Block {
	blocks := residueLines(d)
	if n := d.CleanMachines(); len(blocks) == 0 && n > 0 {
		blocks = append(blocks, line("nothing that bears this tool's name on %s", page.Count(n, "machine")))
	}
	return append(blocks, unreached(d)...)
}

// residueLines lists the residue, one item per line.
func residueLines(d *ops.Fleet) (lines []page.Block) {
	for _, m := range d.Machines {
		for _, r := range m.Residue {
			lines = append(lines, line("%s: left: %s (%s)", m.ID, r.Key, r.After))
		}
	}
	return lines
}
