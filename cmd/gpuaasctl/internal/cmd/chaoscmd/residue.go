package chaoscmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

func newChaosResidue(a *cmdutil.App) *cobra.Command {
	return newFleet(a, 90*time.Second, (*ops.Site).Residue, residuePage, &cobra.Command{
		Use:   "residue [NODE...]",
		Short: "Search every machine of the profile for leftovers of drills",
		Long: `Search every machine of the profile for files, units, mounts, packet filter tables and processes with this tool's name,
whether or not a drill is known. An active drill has such files as well: gpuaasctl chaos status shows it. Changes without
our name, such as a file that was restored wrongly, are only found by the comparison that gpuaasctl chaos revert makes.

The program that searches is installed in its own tmpfs, and removed again, with any that a killed run left there.

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
