package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

const kindChaosStatus = "ChaosStatus"

func newChaosStatus(a *app) *cobra.Command {
	o := &fleetOptions{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Every drill on every machine of the profile: what is injected, by whom, and for how long",
		Long: `Read every drill on every machine of the profile, whoever began it: what is injected, by whom, how long it still may be,
whether its watchdog and its reaper are in place, and who put it back. Nothing is put on any machine: a drill is read by
the program that it keeps beside its journal.

Exit codes: 0 all machines were read (also when a drill is active), 5 one was not, or a drill cannot be read.`,
		Example: `  gpuaasctl chaos status --profile lab
  gpuaasctl chaos status --profile lab --node-id compute-node-01 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.everywhere(cmd, o, kindChaosStatus, look, statusText)
		},
	}
	o.flags(a, cmd, 30*time.Second)
	return cmd
}

// look reads the drills of a machine.
func look(ctx context.Context, on *remote.Machine, m *fleetMachine) error {
	all, err := on.Runs(ctx)
	if err != nil {
		return err
	}
	var unread []string
	for _, x := range all {
		m.Drills = append(m.Drills, fleetDrill{Run: x.Run, Status: x.Status, Error: x.Error})
		if x.Error != "" {
			unread = append(unread, x.Run)
		}
	}
	if len(unread) > 0 {
		m.Error = "cannot be read: " + strings.Join(unread, ", ")
	}
	return nil
}

// statusText is the table of drills, each with its steps.
func statusText(d *fleetReport, limit int) string {
	rows := [][]string{{"MACHINE", "DRILL", "PHASE", "TTL", "LEASE", "WATCHDOG", "REAPER", "SCENARIO", "BY"}}
	steps := [][]string{{"MACHINE", "STEP", "FAULT", "TIER", "STATE", "NOTE"}}
	var none []string
	for _, m := range d.Machines {
		if m.Reached && len(m.Drills) == 0 {
			none = append(none, m.ID)
		}
		for _, x := range m.Drills {
			if x.Status == nil {
				rows = append(rows, []string{m.ID, x.Run, "unknown", "", "", "", "", x.Error, ""})
				continue
			}
			st := x.Status
			rows = append(rows, []string{m.ID, x.Run, phaseText(*st), leftText(st.TTLLeft), leftText(st.LeaseLeft), pidText(st.Watchdog),
				yesNo(st.Reaper), st.Scenario, st.By})
			for _, s := range st.Steps {
				steps = append(steps, []string{m.ID, s.ID, s.Fault, s.Tier, string(cmp.Or(s.State, step.Planned)), stepNote(s)})
			}
		}
	}
	var b strings.Builder
	if len(rows) > 1 {
		b.Write(columnsIn(rows, limit))
	}
	if len(steps) > 1 {
		b.WriteByte('\n')
		b.Write(columnsIn(steps, limit))
	}
	if len(none) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "no drill on %s\n", strings.Join(none, ", "))
	}
	return b.String() + d.unreached()
}

// phaseText is where in its life a drill is, and who ended it.
func phaseText(st step.Status) string {
	text := st.Phase
	switch {
	case st.State == step.Conflict:
		text += ", conflict"
	case st.Reverter != "":
		text += ", by " + st.Reverter
	}
	if st.Why != "" && st.Why != step.WhyAsked {
		text += " (" + st.Why + ")"
	}
	return text
}

// stepNote is what stands against a step, or against one of its changes.
func stepNote(s step.StepStatus) string {
	notes := []string{}
	if s.Text != "" {
		notes = append(notes, s.Text)
	}
	for _, c := range s.Changes {
		if c.Text != "" {
			notes = append(notes, c.Place+": "+c.Text)
		}
	}
	return strings.Join(notes, "; ")
}

func leftText(left *step.Millis) string {
	if left == nil {
		return "-"
	}
	return left.Duration().Round(time.Second).String()
}

func pidText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
