//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// unitState is what systemd says of a unit.
type unitState struct {
	Load, Active, Sub, Freezer, Invocation string
	MainPID                                int
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
	out, err := must(ctx, "", "systemctl", "show", "-p", "LoadState,ActiveState,SubState,FreezerState,InvocationID,MainPID", unit)
	if err != nil {
		return unitState{}, err
	}
	v := properties(out)
	pid, _ := strconv.Atoi(v["MainPID"])
	u := unitState{v["LoadState"], v["ActiveState"], v["SubState"], v["FreezerState"], v["InvocationID"], pid}
	if u.Load == "" {
		return u, fmt.Errorf("systemd says nothing of %s", unit)
	}
	return u, nil
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
