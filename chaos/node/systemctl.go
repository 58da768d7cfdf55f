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
	Job                                    bool   // it has a queued job
	Result, Restart                        string // of its last run; its restart policy
	Remain                                 bool   // it stays active without a process
	Unmet                                  bool   // a condition of the unit was not met, so it was not started
	// µs since boot at which the unit became inactive, and at which its main process exited; 0: never
	Exit, MainExit int64
}

// runs reports whether the unit is active or starting.
func (u unitState) runs() bool {
	return slices.Contains([]string{"active", "reloading", "activating"}, u.Active)
}

// show returns properties of units, in the order of the units.
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

// stopped reports whether the unit was stopped, as with systemctl stop. A unit that failed, waits for a restart,
// was not started because of a condition, or exited by itself was not stopped. systemd marks a service that it
// stops as inactive before its process exits, and one that exits by itself afterwards. A unit that is over when
// its process is, such as a oneshot service, was never active.
func (u unitState) stopped() bool {
	byItself := u.Result == "success" && u.Restart != "always" && u.Restart != "on-success" && !u.Remain &&
		u.MainExit > 0 && (u.Exit == 0 || u.MainExit <= u.Exit)
	return u.Active == "inactive" && !u.Job && !u.Unmet && !byItself
}

// goingDown reports whether the whole machine is shutting down. An unknown state counts as shutting down.
func goingDown(ctx context.Context) (bool, error) {
	o, err := tool(ctx, "", "systemctl", "is-system-running") // its exit code is non-zero for a degraded system
	state := strings.TrimSpace(o.out)
	return state == "stopping" || state == "offline" || state == "", err
}

// needs returns the active units whose stop would also stop this unit.
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

// upOf returns the units that are active.
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

// loadedUnit is showUnit for a unit that must exist and run: breaking another one would have no effect.
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

// process identifies a process. A pid alone does not, since pids are reused.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // ticks since boot
}

func processOf(pid int, s host.Stat) process {
	return process{pid, strconv.FormatUint(s.Started, 10)}
}
