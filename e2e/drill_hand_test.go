//go:build linux

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestDrillByHand: a unit that somebody stops during a drill is left alone until it is started again; one that is down for
// what the drill did to it is put back.
func TestDrillByHand(t *testing.T) {
	l := needLab(t)
	green(t)
	f := pushFault(t, l)
	const unit = workload + ".service"
	for name, c := range map[string]struct {
		dropIn, meanwhile string
		state             step.State
	}{
		"nothing happens":        {"[Service]\nEnvironment=A=b\n", "true", step.Reverted},
		"stopped":                {"[Service]\nEnvironment=A=b\n", "systemctl stop " + unit, step.Conflict},
		"stopped and started":    {"[Service]\nEnvironment=A=b\n", "systemctl stop " + unit + "; systemctl start " + unit, step.Reverted},
		"killed":                 {"[Service]\nEnvironment=A=b\nRestart=no\n", "systemctl kill -s KILL " + unit + "; sleep 0.3", step.Reverted},
		"ends well by itself":    {"[Service]\nExecStart=\nExecStart=/bin/true\nRestart=no\n", "sleep 0.3", step.Reverted},
		"fails":                  {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=no\n", "sleep 0.3", step.Reverted},
		"crashes in a loop":      {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=always\nRestartSec=10\n", "sleep 0.3", step.Reverted},
		"and is stopped in it":   {"[Service]\nExecStart=\nExecStart=/bin/false\nRestart=always\nRestartSec=10\n", "sleep 0.3; systemctl stop " + unit, step.Conflict},
		"ends well again, again": {"[Service]\nExecStart=\nExecStart=/bin/true\nRestart=always\nRestartSec=10\n", "sleep 0.3; systemctl stop " + unit, step.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := step.Drill{Schema: step.Schema, Run: "hand", Scenario: "hand", Node: node, By: "test", At: time.Now(), TTL: 60_000, Lease: 60_000, Steps: []step.Step{
				{ID: "unit", Fault: "service", Tier: step.TierBoot, Changes: []step.Change{{Unit: &step.Unit{Unit: unit, State: step.Restarted, DropIn: c.dropIn}}}}}}
			f.reply(t, d.Encode(), "arm")
			f.reply(t, nil, "do")
			on(t, l, node, c.meanwhile)
			r := f.reply(t, nil, "revert")
			if r.Status.State != c.state {
				t.Errorf("it is %s, want %s: %+v", r.Status.State, c.state, r.Status.Steps)
			}
			_, err := l.Exec(context.Background(), node, "systemctl", "is-active", unit)
			if runs := err == nil; runs != (c.state == step.Reverted) {
				t.Errorf("%s, and %s runs: %v", r.Status.State, unit, runs)
			}
			if c.state == step.Conflict {
				on(t, l, node, "systemctl start "+unit)
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
