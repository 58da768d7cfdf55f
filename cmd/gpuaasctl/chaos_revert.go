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

const kindChaosRevert = "ChaosRevert"

func newChaosRevert(a *app) *cobra.Command {
	o := &fleetOptions{}
	var force bool
	cmd := &cobra.Command{
		Use:   "revert [RUN]",
		Short: "Put back what drills have changed, on every machine of the profile",
		Long: `Put back what the drill RUN has changed, or what every drill has, on every machine of the profile, whoever began it; then
compare each machine with how it was before, and take the drill's own traces away.

What somebody else has changed in the meantime is left alone and called a conflict: the drill's journal stays, so that it
can be looked at. --force takes it away as well.

Exit codes: 0 nothing is left, 5 a machine was not reached, 7 something is left.`,
		Example: `  gpuaasctl chaos revert --profile lab
  gpuaasctl chaos revert 261121-091500-ab12 --profile lab
  gpuaasctl chaos revert 261121-091500-ab12 --profile lab --force`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run := ""
			if len(args) == 1 {
				run = args[0]
			}
			if run != "" && !step.ValidName(run) {
				return usagef("%q is no drill's run (gpuaasctl chaos status lists them)", run)
			}
			doc, err := a.fleetReport(cmd, o, kindChaosRevert, func(ctx context.Context, on *remote.Machine, m *fleetMachine) error {
				all, err := on.Runs(ctx)
				if err != nil {
					return err
				}
				if run == "" {
					undoAll(ctx, on, m, all, force)
					return nil
				}
				undoThese(ctx, on, m, slices.DeleteFunc(all, func(x remote.Found) bool { return x.Run != run }), force)
				return nil
			})
			if err != nil {
				return err
			}
			if run != "" && doc.drills() == 0 && doc.code(cmd.Context()) == exitPass {
				return usagef("no machine of the profile has a drill %s (gpuaasctl chaos status lists them)", run)
			}
			return a.finish(cmd, doc, o.output, revertText)
		},
	}
	o.flags(a, cmd, 2*time.Minute)
	cmd.Flags().BoolVar(&force, "force", false, "take the traces of drills with a conflict away as well")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// drills counts them.
func (d *fleetReport) drills() int {
	n := 0
	for _, m := range d.Machines {
		n += len(m.Drills)
	}
	return n
}

// undoAll undoes all drills of one machine, and takes away what no drill needs any more: a folder of one whose arming died
// before there was a drill, and the program of a tool that was killed.
func undoAll(ctx context.Context, on *remote.Machine, m *fleetMachine, all []remote.Found, force bool) {
	undoThese(ctx, on, m, all, force)
	m.Reached = true
	if len(all) == 0 {
		r, err := on.Fault(ctx, nil, "revert")
		if err == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		m.add(err)
	}
	m.add(on.Sweep(ctx)) // last: the call before puts our program there
}

// undoThese undoes drills of one machine, whatever comes of each.
func undoThese(ctx context.Context, on *remote.Machine, m *fleetMachine, all []remote.Found, force bool) {
	for _, x := range all {
		m.Drills = append(m.Drills, undo(ctx, on, x, force))
	}
}

// undoer is a machine as far as an undo needs it.
type undoer interface {
	Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error)    // by our program
	FaultOf(ctx context.Context, run string, args ...string) (step.Reply, error) // by the drill's own
}

// undo puts back one drill on one machine, compares, and takes the drill's traces away. The program that the drill keeps
// does it; where that one says nothing, ours, which is put there: the journal may be whole all the same.
func undo(ctx context.Context, on undoer, found remote.Found, force bool) fleetDrill {
	x := fleetDrill{Run: found.Run, Status: found.Status}
	ask := func(args ...string) (step.Reply, error) { return on.FaultOf(ctx, x.Run, args...) }
	if found.Status == nil {
		ask = func(args ...string) (step.Reply, error) { return on.Fault(ctx, nil, append(args, "--run", x.Run)...) }
	}
	r, err := insist(ctx, ask, "revert", "--why", step.WhyAsked)
	if refused := new(step.Refusal); errors.As(err, &refused) && refused.Code == step.RefusedNone {
		x.Error = found.Error
		return abandon(ctx, ask, x)
	}
	if r.Status != nil {
		x.Status = r.Status
	}
	if err != nil {
		x.Error, x.Left = err.Error(), "it may not be put back"
		return x
	}
	if x.Status.Phase != step.PhaseOver && x.Status.Phase != step.PhaseClosed {
		x.Left = "it is not put back: " + x.Status.Phase
		return x
	}
	var left []string
	if r, err := insist(ctx, ask, "verify"); err != nil {
		x.Error = err.Error()
		left = append(left, "the machine was not compared with before")
	} else {
		x.Residue = step.Unexplained(r.Residue)
		if x.Clean = r.Clean; x.Clean == nil || !*x.Clean {
			left = append(left, fmt.Sprintf("what differs from before (%d)", len(x.Residue)))
		}
	}
	conflict := x.Status.State == step.Conflict
	if conflict {
		left = append(left, "what somebody else has changed was left alone")
	}
	args := []string{"close"}
	if force {
		args = append(args, "--force")
	}
	switch {
	case conflict && !force:
		left = append(left, "its journal, for whoever looks at it (then: gpuaasctl chaos revert "+x.Run+" --force)")
	default:
		if _, err := insist(ctx, ask, args...); err != nil {
			x.Error = err.Error()
			left = append(left, "its own traces")
		} else {
			x.Closed = true
		}
	}
	x.Left = strings.Join(left, "; ")
	return x
}

// abandon takes away what is left of a drill whose journal does not say what it was: it was never armed.
func abandon(ctx context.Context, ask asker, x fleetDrill) fleetDrill {
	if _, err := insist(ctx, ask, "close", "--force"); err != nil {
		x.Error = strings.TrimPrefix(x.Error+"; "+err.Error(), "; ")
		x.Left = "its folder"
		return x
	}
	x.Closed = true
	return x
}

// Patience with a machine that gives no answer. Every command that is insisted on may be given as often as one likes.
const (
	insistTimes = 3
	insistPause = time.Second
)

// asker gives one command of gpuaas-fault about a drill.
type asker func(args ...string) (step.Reply, error)

// insist gives a command until there is an answer. A refusal, or an error of the program there, is one, and comes back as
// an error.
func insist(ctx context.Context, ask asker, args ...string) (step.Reply, error) {
	for n := 1; ; n++ {
		r, err := ask(args...)
		switch {
		case err == nil && r.Refused != nil:
			return r, r.Refused
		case err == nil && r.Error != "":
			return r, errors.New(r.Error)
		case err == nil || n == insistTimes || ctx.Err() != nil:
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-time.After(insistPause):
		}
	}
}

// revertText is the table of what was undone, and every line of what is left.
func revertText(d *fleetReport, limit int) string {
	rows := [][]string{{"MACHINE", "DRILL", "STATE", "BY", "CLEAN", "CLOSED", "SCENARIO", "LEFT"}}
	var more strings.Builder
	for _, m := range d.Machines {
		for _, x := range m.Drills {
			state, by, scenario := "unknown", "-", ""
			if st := x.Status; st != nil {
				state, by, scenario = string(st.State), st.Reverter, st.Scenario
				for _, s := range st.Steps {
					if text := stepNote(s); text != "" {
						fmt.Fprintf(&more, "%s: %s: %s\n", m.ID, s.ID, text)
					}
				}
			}
			rows = append(rows, []string{m.ID, x.Run, state, by, cleanWord(x.Clean), yesNo(x.Closed), scenario, x.Left})
			if x.Error != "" {
				fmt.Fprintf(&more, "%s: %s: %s\n", m.ID, x.Run, x.Error)
			}
			for _, r := range x.Residue {
				fmt.Fprintf(&more, "%s: %s\n", m.ID, r)
			}
		}
	}
	var b strings.Builder
	switch {
	case len(rows) > 1:
		b.Write(columnsIn(rows, limit))
	default:
		b.WriteString("there was no drill to put back\n")
	}
	return b.String() + more.String() + d.unreached()
}

// cleanWord is how a comparison came out.
func cleanWord(is *bool) string {
	if is == nil {
		return "-"
	}
	return yesNo(*is)
}
