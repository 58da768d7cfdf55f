package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

const kindChaosResidue = "ChaosResidue"

func newChaosResidue(a *app) *cobra.Command {
	o := &fleetOptions{}
	cmd := &cobra.Command{
		Use:   "residue",
		Short: "Look for whatever bears this tool's name on every machine of the profile",
		Long: `Look on every machine of the profile for files, units, mounts, packet filter tables and processes that bear this tool's
name, without knowing of any drill. A drill that is active has such traces: gpuaasctl chaos status tells of it. What a
drill has changed and what bears no name of ours, such as a file that it put back wrongly, only a comparison with before
can show: gpuaasctl chaos revert makes it.

The program that looks is put into a tmpfs of its own, and taken away again, with any that a run forgot there which was
killed.

Exit codes: 0 nothing was found, 5 a machine was not reached, 7 something was found (wins over 5).`,
		Example: `  gpuaasctl chaos residue --profile lab
  gpuaasctl chaos residue --profile lab --node-id compute-node-01 --node-id platform -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.everywhere(cmd, o, kindChaosResidue, search, residueText)
		},
	}
	o.flags(a, cmd, 90*time.Second)
	return cmd
}

// search looks for what bears our name.
func search(ctx context.Context, on *remote.Machine, m *fleetMachine) error {
	programs, err := on.Left(ctx) // before one is put there
	if err != nil {
		return err
	}
	r, err := on.Fault(ctx, nil, "residue")
	if err == nil && r.Error != "" {
		err = errors.New("looking for what is left: " + r.Error)
	}
	if err != nil {
		return err
	}
	for _, p := range programs {
		if !slices.ContainsFunc(r.Residue, func(x step.Residue) bool { return x.Key == p }) {
			r.Residue = append(r.Residue, step.Residue{Class: step.ClassOwn, Key: p, After: "file"})
		}
	}
	clean := r.Clean != nil && *r.Clean && len(r.Residue) == 0
	m.Residue, m.Clean = r.Residue, &clean
	return nil
}

func residueText(d *fleetReport, _ int) string {
	text := residueLines(d)
	if n := d.nothingOn(); text == "" && n > 0 {
		text = fmt.Sprintf("nothing that bears this tool's name on %s\n", machinesText(n))
	}
	return text + d.unreached()
}

// residueLines are what was found, one per line.
func residueLines(d *fleetReport) string {
	var b strings.Builder
	for _, m := range d.Machines {
		for _, r := range m.Residue {
			fmt.Fprintf(&b, "%s: left: %s (%s)\n", m.ID, r.Key, r.After)
		}
	}
	return b.String()
}
