package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/remote"
)

const kindChaosPanic = "ChaosPanic"

// Patience with a machine that cannot be reached: one that restarts is back in seconds.
const (
	panicReach = 20 * time.Second
	panicPause = 2 * time.Second
)

func newChaosPanic(a *app) *cobra.Command {
	o := &fleetOptions{}
	cmd := &cobra.Command{
		Use:   "panic",
		Short: "Put everything back everywhere, now, and say what could not be reached",
		Long: `Put back everything that any drill has changed on any machine of the profile, whoever began it and whatever is known of it
here, and then look for anything that bears this tool's name. One machine that fails stops no other, and what could not be
reached is said: it puts itself back when its lease or its time to live is over, or when it boots.

Exit codes: 0 nothing is left anywhere, 5 a machine was not reached, 7 something is left (wins over 5).`,
		Example: `  gpuaasctl chaos panic --profile lab
  gpuaasctl chaos panic --profile lab --deadline 20s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.everywhere(cmd, o, kindChaosPanic, func(ctx context.Context, on *remote.Machine, m *fleetMachine) error {
				all, err := a.reach(ctx, on)
				if err != nil {
					return err
				}
				undoAll(ctx, on, m, all, false)
				m.add(search(ctx, on, m))
				return nil
			}, panicText)
		},
	}
	o.flags(a, cmd, time.Minute)
	return cmd
}

// reach asks a machine for its drills until it answers, or will not.
func (a *app) reach(ctx context.Context, on *remote.Machine) ([]remote.Found, error) {
	until := time.Now().Add(panicReach)
	for told := false; ; told = true {
		all, err := on.Runs(ctx)
		if err == nil || ctx.Err() != nil || time.Now().Add(panicPause).After(until) {
			return all, err
		}
		if !told {
			note(a.stderr, "%v; trying again", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(panicPause):
		}
	}
}

// panicText is what was undone, and what is left.
func panicText(d *fleetReport, limit int) string {
	var b strings.Builder
	b.WriteString(revertText(d, limit))
	b.WriteString(residueLines(d))
	if n := d.nothingOn(); n == len(d.Machines) {
		fmt.Fprintf(&b, "nothing is left on %s\n", machinesText(n))
	}
	return b.String()
}

// nothingOn counts the machines on which nothing is left, for certain.
func (d *fleetReport) nothingOn() int {
	n := 0
	for _, m := range d.Machines {
		if m.Reached && m.Error == "" && m.Clean != nil && *m.Clean {
			n++
		}
	}
	return n
}

func machinesText(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}
