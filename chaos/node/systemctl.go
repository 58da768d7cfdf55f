//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// unitState is what systemd says of a unit.
type unitState struct {
	Load, Active, Sub, Freezer, Invocation string
	MainPID                                int
	Job                                    bool   // something is about to happen to it
	Result, Restart                        string // of its last run; when systemd starts it again by itself
	Remain                                 bool   // it stays active without a process
	Unmet                                  bool   // a condition of it: it was not started for that
	Exit, MainExit                         int64  // µs since boot: when it was no longer active, when its main process ended; 0: it did not
}

// runs says whether the unit is up, or on its way there.
func (u unitState) runs() bool {
	switch u.Active {
	case "active", "reloading", "activating":
		return true
	}
	return false
}

func showUnit(ctx context.Context, unit string) (unitState, error) {
	out, err := must(ctx, "", "systemctl", "show", "-p", "LoadState,ActiveState,SubState,FreezerState,InvocationID,MainPID,Job,"+
		"Result,Restart,RemainAfterExit,ConditionResult,ActiveExitTimestampMonotonic,ExecMainExitTimestampMonotonic", "--", unit)
	if err != nil {
		return unitState{}, err
	}
	v := properties(out)
	number := func(key string) int64 { n, _ := strconv.ParseInt(v[key], 10, 64); return n } // a socket has no process
	u := unitState{
		Load: v["LoadState"], Active: v["ActiveState"], Sub: v["SubState"], Freezer: v["FreezerState"], Invocation: v["InvocationID"],
		MainPID: int(number("MainPID")), Job: number("Job") != 0, Result: v["Result"], Restart: v["Restart"], Remain: v["RemainAfterExit"] == "yes",
		Unmet: v["ConditionResult"] == "no",
		Exit:  number("ActiveExitTimestampMonotonic"), MainExit: number("ExecMainExitTimestampMonotonic"),
	}
	if u.Load == "" {
		return u, fmt.Errorf("systemd says nothing of %s", unit)
	}
	return u, nil
}

// stopped says whether the unit was stopped, as by systemctl stop. One that failed, waits to be started again, was not
// started for a condition, or ended by itself was not. systemd takes a service that it stops for inactive before its process
// ends, and hears of one that ends by itself afterwards; one that is over when its process is was never active.
func (u unitState) stopped() bool {
	byItself := u.Result == "success" && u.Restart != "always" && u.Restart != "on-success" && !u.Remain && u.MainExit > 0 && (u.Exit == 0 || u.MainExit <= u.Exit)
	return u.Active == "inactive" && !u.Job && !u.Unmet && !byItself
}

// goingDown says whether the whole machine is stopped, and every unit with it. One that cannot say is on its way.
func goingDown(ctx context.Context) (bool, error) {
	o, err := tool(ctx, "", "systemctl", "is-system-running") // whose code says whether all is well
	state := strings.TrimSpace(o.out)
	return state == "stopping" || state == "offline" || state == "", err
}

// needs are the units that are up now and that this one cannot be without: with one of them, it is stopped.
func needs(ctx context.Context, unit string) ([]string, error) {
	out, err := must(ctx, "", "systemctl", "show", "-p", "Requires,Requisite,BindsTo,PartOf", "--", unit)
	if err != nil {
		return nil, err
	}
	var all []string
	v := properties(out)
	for _, key := range [...]string{"Requires", "Requisite", "BindsTo", "PartOf"} {
		all = append(all, strings.Fields(v[key])...)
	}
	slices.Sort(all)
	return upOf(ctx, slices.Compact(all))
}

// upOf are those of the units that are up.
func upOf(ctx context.Context, units []string) ([]string, error) {
	if len(units) == 0 {
		return nil, nil
	}
	out, err := must(ctx, "", append([]string{"systemctl", "show", "-p", "ActiveState", "--"}, units...)...)
	var up []string
	for i, block := range strings.Split(strings.TrimSpace(out), "\n\n") { // in the order of the names
		if u := (unitState{Active: properties(block)["ActiveState"]}); u.runs() && i < len(units) {
			up = append(up, units[i])
		}
	}
	return up, err
}

// properties are what systemctl show prints of one unit, by name.
func properties(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			all[key] = value
		}
	}
	return all
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

// stat gives a process's state letter and its start; an error that is os.ErrNotExist when it is gone.
func stat(pid int) (state byte, start, name string, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", "", err
	}
	// the name is in brackets and may hold brackets itself
	i := strings.LastIndexByte(string(b), ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return 0, "", "", errors.New("stat is not as expected")
	}
	return f[0][0], f[19], string(b[strings.IndexByte(string(b), '(')+1 : i]), nil
}
