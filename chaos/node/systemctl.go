//go:build linux

package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// unitState is systemd's state of a unit.
type unitState struct {
	Load, Active, Sub, Freezer, Invocation string
	MainPID                                int
	Job                                    bool   // something is about to happen to it
	Result, Restart                        string // of its last run; when systemd starts it again by itself
	Remain                                 bool   // it stays active without a process
	Unmet                                  bool   // a condition of it: it was not started for that
	// µs since boot at which the unit became inactive, and at which its main process ended; 0: it did not
	Exit, MainExit int64
}

// runs reports whether the unit is up, or on its way there.
func (u unitState) runs() bool {
	switch u.Active {
	case "active", "reloading", "activating":
		return true
	}
	return false
}

// show asks systemd for properties of units, in their order.
func show(ctx context.Context, properties string, units ...string) ([]host.Unit, error) {
	out, err := must(ctx, "", host.ShowUnits(properties, units...)...)
	return host.ParseUnits(out), err
}

func showUnit(ctx context.Context, unit string) (unitState, error) {
	all, err := show(ctx, "LoadState,ActiveState,SubState,FreezerState,InvocationID,MainPID,Job,"+
		"Result,Restart,RemainAfterExit,ConditionResult,ActiveExitTimestampMonotonic,ExecMainExitTimestampMonotonic", unit)
	if err != nil {
		return unitState{}, err
	}
	v := all[0]
	number := func(key string) int64 { n, _ := v.Number(key); return n } // a socket has no process
	u := unitState{
		Load: v["LoadState"], Active: v["ActiveState"], Sub: v["SubState"], Freezer: v["FreezerState"],
		Invocation: v["InvocationID"], MainPID: v.PID(), Job: number("Job") != 0, Result: v["Result"], Restart: v["Restart"],
		Remain: v["RemainAfterExit"] == "yes", Unmet: v["ConditionResult"] == "no",
		Exit: number("ActiveExitTimestampMonotonic"), MainExit: number("ExecMainExitTimestampMonotonic"),
	}
	if u.Load == "" {
		return u, fmt.Errorf("systemd returned no properties of %s", unit)
	}
	return u, nil
}

// stopped reports whether the unit was stopped, as by systemctl stop. One that failed, waits to be started again, was
// not started for a condition, or ended by itself was not. systemd takes a service that it stops for inactive before
// its process ends, and is notified of one that ends by itself afterwards; one that is over when its process is was
// never active.
func (u unitState) stopped() bool {
	byItself := u.Result == "success" && u.Restart != "always" && u.Restart != "on-success" && !u.Remain &&
		u.MainExit > 0 && (u.Exit == 0 || u.MainExit <= u.Exit)
	return u.Active == "inactive" && !u.Job && !u.Unmet && !byItself
}

// goingDown reports whether the whole machine is stopped, and every unit with it. An unknown state counts as
// stopping.
func goingDown(ctx context.Context) (bool, error) {
	o, err := tool(ctx, "", "systemctl", "is-system-running") // whose code shows whether all is well
	state := strings.TrimSpace(o.out)
	return state == "stopping" || state == "offline" || state == "", err
}

// needs are the units that are up now and that this one cannot be without: with one of them, it is stopped.
func needs(ctx context.Context, unit string) ([]string, error) {
	v, err := show(ctx, "Requires,Requisite,BindsTo,PartOf", unit)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, key := range [...]string{"Requires", "Requisite", "BindsTo", "PartOf"} {
		all = append(all, strings.Fields(v[0][key])...)
	}
	slices.Sort(all)
	return upOf(ctx, slices.Compact(all))
}

// upOf are those of the units that are up.
func upOf(ctx context.Context, units []string) ([]string, error) {
	if len(units) == 0 {
		return nil, nil
	}
	all, err := show(ctx, "ActiveState", units...)
	var up []string
	for i, v := range all {
		if u := (unitState{Active: v["ActiveState"]}); u.runs() && i < len(units) {
			up = append(up, units[i])
		}
	}
	return up, err
}

// loadedUnit is showUnit of a unit that exists and runs: to break another one would have no effect.
func loadedUnit(ctx context.Context, unit string) (unitState, error) {
	u, err := showUnit(ctx, unit)
	switch {
	case err != nil:
		return u, err
	case u.Load != "loaded":
		return u, fmt.Errorf("%s is %s", unit, u.Load)
	case !u.runs():
		return u, fmt.Errorf("%s does not run: it is %s", unit, u.Active)
	}
	return u, nil
}

// process is one process, which a number alone is not.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // ticks since boot
}

func processOf(pid int, s host.Stat) process {
	return process{pid, strconv.FormatUint(s.Started, 10)}
}
