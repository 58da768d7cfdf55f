package chaoscmd

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

func newChaosStatus(a *cmdutil.App) *cobra.Command {
	return newFleet(a, 30*time.Second, (*ops.Site).DrillStatus, statusPage, &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show every drill on every machine of the profile: what is injected, by whom, for how long",
		Long: `Read every drill on every machine of the profile, also those that others started: what is injected, by whom, how long it
still may be, whether its watchdog and its reaper are in place, and who reverted it. Nothing is put on any machine: a
drill is read by the program that it keeps beside its journal.

Exit codes: 0 all machines were read (also when a drill is active), 5 one was not, or a drill cannot be read.`,
		Example: `  gpuaasctl chaos status --profile lab
  gpuaasctl chaos status compute-node-01 -o json`,
	})
}

// statusPage is the table of drills, each with its steps.
func statusPage(d *ops.Fleet) []page.Block {
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
			rows = append(rows, []string{m.ID, x.Run, phaseText(*st), leftText(st.TTLLeft), leftText(st.LeaseLeft),
				pidText(st.Watchdog), yesNo(st.Reaper), st.Scenario, st.By})
			for _, s := range st.Steps {
				steps = append(steps, []string{m.ID, s.ID, s.Fault, s.Tier, string(cmp.Or(s.State, step.Planned)), stepNote(s)})
			}
		}
	}
	var blocks []page.Block
	for _, table := range [...][][]string{rows, steps} {
		if len(table) > 1 {
			blocks = append(blocks, cmdutil.Table(table), page.Blank{})
		}
	}
	if len(none) > 0 {
		blocks = append(blocks, line("no drill on %s", strings.Join(none, ", ")))
	}
	return append(blocks, unreached(d)...)
}

// phaseText is the phase of a drill, and what ended it.
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

// stepNote is the problem of a step, or of one of its changes.
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
