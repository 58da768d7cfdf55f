package chaoscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// aDrill returns a drill's status as a machine reports it.
func aDrill(phase string, state step.State) *step.Status {
	ttl, lease := step.MillisOf(88*time.Second), step.MillisOf(1500*time.Millisecond)
	st := &step.Status{
		Run: "261121-091500-ab12", Scenario: "terminal-resolve-removed", Node: "n1", By: "ann@laptop", State: state,
		Phase: phase, Reaper: true,
		Steps: []step.StepStatus{
			{ID: "names", Fault: "hosts", Tier: "T2", State: state,
				Changes: []step.ChangeStatus{{Place: "file:/etc/hosts", State: state}}},
		},
	}
	if phase == step.PhaseArmed {
		st.TTLLeft, st.LeaseLeft, st.Watchdog = &ttl, &lease, 4711
	}
	return st
}

func fleetOf(machines ...ops.FleetMachine) *ops.Fleet {
	for i := range machines {
		machines[i].Role, machines[i].Host = chaos.RoleNode, "10.0.0.1"
	}
	return &ops.Fleet{Head: diag.NewHead("x"), Machines: machines}
}

func is(b bool) *bool { return &b }

func TestFleetCode(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	fine, gone := ops.FleetMachine{ID: "n1", Reached: true}, ops.FleetMachine{ID: "n2", Error: "tcp_refused"}
	left := ops.FleetMachine{ID: "n3", Reached: true, Drills: []ops.FleetDrill{{Run: "r", Left: "its own traces"}}}
	for name, c := range map[string]struct {
		ctx  context.Context
		doc  *ops.Fleet
		code int
	}{
		"nothing": {t.Context(), fleetOf(fine), cmdutil.ExitPass},
		"an active drill": {t.Context(),
			fleetOf(ops.FleetMachine{Reached: true,
				Drills: []ops.FleetDrill{{Run: "r", Status: aDrill(step.PhaseArmed, step.Done)}}}), cmdutil.ExitPass},
		"not reached":          {t.Context(), fleetOf(fine, gone), cmdutil.ExitInconclusive},
		"in time, not reached": {late, fleetOf(fine, gone), cmdutil.ExitInconclusive},
		"not wholly read": {t.Context(), fleetOf(ops.FleetMachine{Reached: true, Error: "cannot be read: r"}),
			cmdutil.ExitInconclusive},
		"left": {t.Context(), fleetOf(gone, left), cmdutil.ExitResidue},
		"found": {t.Context(), fleetOf(gone, ops.FleetMachine{Reached: true, Clean: is(false)}),
			cmdutil.ExitResidue},
		"interrupted":              {stopped, fleetOf(fine, gone), cmdutil.ExitInterrupted},
		"interrupted, and residue": {stopped, fleetOf(left), cmdutil.ExitResidue},
	} {
		if got := fleetCode(c.ctx, c.doc); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
	}
}

func TestFleetText(t *testing.T) {
	conflict := aDrill(step.PhaseOver, step.Conflict)
	conflict.Reverter, conflict.Why = step.ByCLI, step.WhyAsked
	conflict.Steps[0].Changes[0].Text = "somebody has changed /etc/hosts"
	lease := aDrill(step.PhaseOver, step.Reverted)
	lease.Reverter, lease.Why = step.ByWatchdog, step.WhyLease
	residue := []step.Residue{{Class: step.ClassFile, Key: "/etc/hosts", Before: "a", After: "b"}}
	doc := fleetOf(
		ops.FleetMachine{ID: "compute-node-01", Reached: true, Drills: []ops.FleetDrill{
			{Run: "261121-091500-ab12", Status: aDrill(step.PhaseArmed, step.Verified)},
			{Run: "half", Error: "its folder has no program", Closed: true},
		}, Error: "cannot be read: half"},
		ops.FleetMachine{ID: "compute-node-02", Reached: true},
		ops.FleetMachine{ID: "compute-node-03", Error: "tcp_refused at tcp"},
		ops.FleetMachine{ID: "compute-node-04", Reached: true, Drills: []ops.FleetDrill{
			{Run: "r4", Status: conflict, Clean: is(false), Residue: residue,
				Left: "what somebody else has changed was left alone"},
			{Run: "r5", Status: lease, Clean: is(true), Closed: true},
		}, Clean: is(false), Residue: []step.Residue{
			{Class: step.ClassOwn, Key: "table inet gpuaasctl_x", After: "packet filter"},
		}},
	)
	for name, c := range map[string]struct {
		text  fleetPage
		wants []string
	}{
		"status": {statusPage, []string{
			"armed", "1m28s", "2s", "4711", "terminal-resolve-removed", "ann@laptop", "names", "hosts", "verified",
			"over, conflict", "over, by watchdog (its lease was not renewed)",
			"file:/etc/hosts: somebody has changed /etc/hosts", "no drill on compute-node-02\n",
			"not reached: compute-node-03 (10.0.0.1): tcp_refused at tcp\n", "compute-node-01: cannot be read: half\n",
			"its folder has no program",
		}},
		"panic": {panicPage, []string{
			"conflict", "what somebody else has changed was left alone", "compute-node-04: file /etc/hosts: a -> b\n",
			"watchdog", "compute-node-04: left: table inet gpuaasctl_x (packet filter)\n", "not reached: compute-node-03",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			blocks := c.text(doc)
			wide, narrow := string(page.Text(page.Layout{}, blocks...)), string(page.Text(page.Layout{Width: 80}, blocks...))
			for _, want := range c.wants {
				if !strings.Contains(wide, want) {
					t.Errorf("%q is missing in\n%s", want, wide)
				}
			}
			if strings.Contains(wide, "nothing is left") {
				t.Errorf("something is left, and one machine was not reached:\n%s", wide)
			}
			for line := range strings.Lines(narrow) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
	clean := panicPage(fleetOf(ops.FleetMachine{ID: "n1", Reached: true, Clean: is(true)}))
	if got := string(page.Text(page.Layout{Width: 80},
		clean...)); got != "there was no drill to revert\nnothing is left on 1 machine\n" {
		t.Errorf("%q", got)
	}
	b, err := json.Marshal(doc.Machines[1])
	if err != nil || strings.Contains(string(b), "clean") {
		t.Errorf("what was not looked at is said to be clean: %s %v", b, err)
	}
}

// brokenPipe is an output whose reader is gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestFleetResidueWinsOverWriting: residue on a machine decides the exit code, even if the document could not be
// written.
func TestFleetResidueWinsOverWriting(t *testing.T) {
	var errs bytes.Buffer
	a := &cmdutil.App{Stdout: brokenPipe{}, Stderr: &errs, Env: func(string) string { return "" }}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	left := fleetOf(ops.FleetMachine{ID: "n1", Reached: true, Clean: is(false)})
	if code := cmdutil.CodeOf(finish(a, cmd, left, cmdutil.FormatTable, panicPage)); code != cmdutil.ExitResidue ||
		!strings.Contains(errs.String(), io.ErrClosedPipe.Error()) {
		t.Errorf("panic: exit code %d: %s", code, &errs)
	}
}
