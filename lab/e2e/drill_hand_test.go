//go:build linux

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/lab"
)

// TestDrillByHand: a unit that an operator stops during a drill is left stopped; one that is down because of the
// drill is started again.
func TestDrillByHand(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	f := pushFault(t, l, machine)
	unit := lab.Machine{Name: machine}.AppUnit()
	is := func(state string) string {
		return eventually("systemctl show -P SubState " + unit + " | grep -qx " + state)
	}
	for name, c := range map[string]struct {
		dropIn, meanwhile string
		state             step.State
	}{
		"nothing happens": {"[Service]\nEnvironment=A=b\n", "true", step.Reverted},
		"stopped":         {"[Service]\nEnvironment=A=b\n", "systemctl stop " + unit, step.Conflict},
		"stopped and started": {"[Service]\nEnvironment=A=b\n", "systemctl stop " + unit + "; systemctl start " + unit,
			step.Reverted},
		"killed": {"[Service]\nEnvironment=A=b\nRestart=no\n",
			"systemctl kill -s KILL " + unit + "; " + is("failed"), step.Reverted},
		"ends well by itself": {"[Service]\nExecStart=\nExecStart=/bin/true\nRestart=no\n", is("dead"), step.Reverted},
		"fails":               {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=no\n", is("failed"), step.Reverted},
		"crashes in a loop": {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=always\nRestartSec=10\n",
			is("auto-restart"), step.Reverted},
		"and is stopped in it": {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=always\nRestartSec=10\n",
			is("auto-restart") + "; systemctl stop " + unit, step.Conflict},
		"ends well again, again": {"[Service]\nExecStart=\nExecStart=/bin/true\nRestart=always\nRestartSec=10\n",
			is("auto-restart") + "; systemctl stop " + unit, step.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := step.Drill{Schema: step.Schema, Run: "hand", Scenario: "hand", Node: machine, By: "test", At: time.Now(),
				TTL: 60_000, Lease: 60_000, Steps: []step.Step{
					{ID: "unit", Fault: "service", Tier: step.TierBoot,
						Changes: []step.Change{{Unit: &step.Unit{Unit: unit, State: step.Restarted, DropIn: c.dropIn}}}}}}
			f.reply(t, d.Encode(), "arm")
			f.reply(t, nil, "do")
			on(t, l, machine, c.meanwhile)
			r := f.reply(t, nil, "revert")
			if r.Status.State != c.state {
				t.Errorf("it is %s, want %s: %+v", r.Status.State, c.state, r.Status.Steps)
			}
			_, err := l.Exec(context.Background(), machine, "systemctl", "is-active", unit)
			if runs := err == nil; runs != (c.state == step.Reverted) {
				t.Errorf("%s, and %s runs: %v", r.Status.State, unit, runs)
			}
			if c.state == step.Conflict {
				on(t, l, machine, "systemctl start "+unit)
				if r = f.reply(t, nil, "revert"); r.Status.State != step.Reverted {
					t.Errorf("started again: it is %s: %+v", r.Status.State, r.Status.Steps)
				}
			}
			if r := f.reply(t, nil, "verify"); !*r.Clean {
				t.Errorf("left: %v", r.Residue)
			}
			f.reply(t, nil, "close", "--force")
		})
	}
	f.clean(t)
}
