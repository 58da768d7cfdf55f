package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

// aDrill is one as a machine tells of it.
func aDrill(phase string, state step.State) *step.Status {
	ttl, lease := step.MillisOf(88*time.Second), step.MillisOf(1500*time.Millisecond)
	st := &step.Status{
		Run: "261121-091500-ab12", Scenario: "terminal-resolve-removed", Node: "n1", By: "ann@laptop", State: state, Phase: phase, Reaper: true,
		Steps: []step.StepStatus{{ID: "names", Fault: "hosts", Tier: "T2", State: state, Changes: []step.ChangeStatus{{Place: "file:/etc/hosts", State: state}}}},
	}
	if phase == step.PhaseArmed {
		st.TTLLeft, st.LeaseLeft, st.Watchdog = &ttl, &lease, 4711
	}
	return st
}

func fleetReportOf(machines ...fleetMachine) *fleetReport {
	for i := range machines {
		machines[i].Role, machines[i].Host = chaos.RoleNode, "10.0.0.1"
	}
	return &fleetReport{Kind: "x", Machines: machines}
}

func is(b bool) *bool { return &b }

func TestFleetCode(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	fine, gone := fleetMachine{ID: "n1", Reached: true}, fleetMachine{ID: "n2", Error: "tcp_refused"}
	left := fleetMachine{ID: "n3", Reached: true, Drills: []fleetDrill{{Run: "r", Left: "its own traces"}}}
	for name, c := range map[string]struct {
		ctx  context.Context
		doc  *fleetReport
		code int
	}{
		"nothing":                  {t.Context(), fleetReportOf(fine), exitPass},
		"an active drill":          {t.Context(), fleetReportOf(fleetMachine{Reached: true, Drills: []fleetDrill{{Run: "r", Status: aDrill(step.PhaseArmed, step.Done)}}}), exitPass},
		"not reached":              {t.Context(), fleetReportOf(fine, gone), exitInconclusive},
		"in time, not reached":     {late, fleetReportOf(fine, gone), exitInconclusive},
		"not wholly read":          {t.Context(), fleetReportOf(fleetMachine{Reached: true, Error: "cannot be read: r"}), exitInconclusive},
		"left":                     {t.Context(), fleetReportOf(gone, left), exitResidue},
		"found":                    {t.Context(), fleetReportOf(gone, fleetMachine{Reached: true, Clean: is(false)}), exitResidue},
		"interrupted":              {stopped, fleetReportOf(fine, gone), exitInterrupted},
		"interrupted, and residue": {stopped, fleetReportOf(left), exitResidue},
	} {
		if got := c.doc.code(c.ctx); got != c.code {
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
	doc := fleetReportOf(
		fleetMachine{ID: "compute-node-01", Reached: true, Drills: []fleetDrill{
			{Run: "261121-091500-ab12", Status: aDrill(step.PhaseArmed, step.Verified)},
			{Run: "half", Error: "its folder has no program", Closed: true},
		}, Error: "cannot be read: half"},
		fleetMachine{ID: "compute-node-02", Reached: true},
		fleetMachine{ID: "compute-node-03", Error: "tcp_refused at tcp"},
		fleetMachine{ID: "compute-node-04", Reached: true, Drills: []fleetDrill{
			{Run: "r4", Status: conflict, Clean: is(false), Residue: residue, Left: "what somebody else has changed was left alone"},
			{Run: "r5", Status: lease, Clean: is(true), Closed: true},
		}, Clean: is(false), Residue: []step.Residue{{Class: step.ClassOwn, Key: "table inet gpuaasctl_x", After: "packet filter"}}},
	)
	for name, c := range map[string]struct {
		text  func(*fleetReport, int) string
		wants []string
	}{
		"status": {statusText, []string{
			"armed", "1m28s", "2s", "4711", "terminal-resolve-removed", "ann@laptop", "names", "hosts", "verified", "over, conflict",
			"over, by watchdog (its lease was not renewed)", "file:/etc/hosts: somebody has changed /etc/hosts", "no drill on compute-node-02\n",
			"not reached: compute-node-03 (10.0.0.1): tcp_refused at tcp\n", "compute-node-01: cannot be read: half\n", "its folder has no program",
		}},
		"panic": {panicText, []string{
			"conflict", "what somebody else has changed was left alone", "compute-node-04: file /etc/hosts: a -> b\n", "watchdog",
			"compute-node-04: left: table inet gpuaasctl_x (packet filter)\n", "not reached: compute-node-03",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wide, narrow := wrapLines(c.text(doc, 0), 0), wrapLines(c.text(doc, 80), 80)
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
	if got := panicText(fleetReportOf(fleetMachine{ID: "n1", Reached: true, Clean: is(true)}), 80); got != "there was no drill to put back\nnothing is left on 1 machine\n" {
		t.Errorf("%q", got)
	}
	b, err := json.Marshal(doc.Machines[1])
	if err != nil || strings.Contains(string(b), "clean") {
		t.Errorf("what was not looked at is said to be clean: %s %v", b, err)
	}
}

// TestTrustOfADrillsMachine: a host key that is not known is accepted by a command which gets to the same machine.
func TestTrustOfADrillsMachine(t *testing.T) {
	p := profile.Profile{Name: "two", Nodes: map[string]profile.Node{"n1": {Host: "192.0.2.1"}}, SSH: profile.SSH{User: "ops"}, PlatformSSH: profile.SSH{Host: "192.0.2.9", User: "root"}}
	j := &job{profileArg: "two"}
	j.Env.Profile = p
	for _, m := range fleetOf(p) {
		drills, trusted := j.machineConfig(m), nodeConfig(p, m.ID, "")
		if drills.Host != trusted.Host || drills.SSH.User != trusted.SSH.User || !slices.Equal(drills.TrustArgs, []string{"--profile", "two"}) {
			t.Errorf("%s: a drill goes to %s@%s, `ssh trust %s %v` to %s@%s", m.ID, drills.SSH.User, drills.Host, m.ID, drills.TrustArgs, trusted.SSH.User, trusted.Host)
		}
	}
}
