package ops

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// DrillStatus reads the drills of machines. It installs nothing there.
func (s *Site) DrillStatus(ctx context.Context, of []chaos.Machine) *Fleet {
	return s.everywhere(ctx, KindDrillStatus, of, readDrills)
}

// Residue searches machines for files with this tool's names.
func (s *Site) Residue(ctx context.Context, of []chaos.Machine) *Fleet {
	return s.everywhere(ctx, KindResidue, of, search)
}

// Revert reverts what a run has changed on machines, or what every drill has if run is empty. It compares each machine
// with its state before, and removes the drill's artifacts. force reverts even what another process has changed as
// well.
func (s *Site) Revert(ctx context.Context, of []chaos.Machine, run string, force bool) *Fleet {
	return s.everywhere(ctx, KindRevert, of, func(ctx context.Context, on *remote.Machine, m *FleetMachine) error {
		all, err := on.Runs(ctx)
		if err != nil {
			return err
		}
		if run == "" {
			undoAll(ctx, on, m, all, force)
			return nil
		}
		undoThese(ctx, on, m, slices.DeleteFunc(all, func(x remote.KeptRun) bool { return x.Run != run }), force)
		return nil
	})
}

// Panic reverts everything that any drill has changed on machines, and searches for residue. waiting is called once for
// each machine that is retried, from any goroutine.
func (s *Site) Panic(ctx context.Context, of []chaos.Machine, waiting func(error)) *Fleet {
	return s.everywhere(ctx, KindPanic, of, func(ctx context.Context, on *remote.Machine, m *FleetMachine) error {
		all, err := reach(ctx, on, waiting)
		if err != nil {
			return err
		}
		undoAll(ctx, on, m, all, false)
		m.add(search(ctx, on, m))
		return nil
	})
}

// Retries for a machine that cannot be reached: one that restarts is back in seconds.
const (
	panicReach = 20 * time.Second
	panicPause = 2 * time.Second
)

// reach reads a machine's drills, and retries until the machine answers or refuses.
func reach(ctx context.Context, on *remote.Machine, waiting func(error)) ([]remote.KeptRun, error) {
	until := time.Now().Add(panicReach)
	for waited := false; ; waited = true {
		all, err := on.Runs(ctx)
		if err == nil || ctx.Err() != nil || time.Now().Add(panicPause).After(until) {
			return all, err
		}
		if !waited {
			waiting(err)
		}
		if !sleep.For(ctx, panicPause) {
			return nil, err
		}
	}
}

// readDrills reads the drills of a machine.
func readDrills(ctx context.Context, on *remote.Machine, m *FleetMachine) error {
	all, err := on.Runs(ctx)
	if err != nil {
		return err
	}
	var unread []string
	for _, x := range all {
		m.Drills = append(m.Drills, FleetDrill{Run: x.Run, Status: x.Status, Error: x.Error})
		if x.Error != "" {
			unread = append(unread, x.Run)
		}
	}
	if len(unread) > 0 {
		m.Error = "cannot be read: " + strings.Join(unread, ", ")
	}
	return nil
}

// search looks for files with our names.
func search(ctx context.Context, on *remote.Machine, m *FleetMachine) error {
	programs, err := on.HelperPaths(ctx) // before our program is installed
	if err != nil {
		return err
	}
	r, err := on.Fault(ctx, nil, "residue")
	if err == nil && r.Error != "" {
		err = errors.New("looking for what is left: " + r.Error)
	}
	if err != nil {
		return err
	}
	for _, p := range programs {
		if !slices.ContainsFunc(r.Residue, func(x step.Residue) bool { return x.Key == p }) {
			r.Residue = append(r.Residue, step.Residue{Class: step.ClassOwn, Key: p, After: "file"})
		}
	}
	m.Residue, m.Clean = r.Residue, new(r.Clean != nil && *r.Clean && len(r.Residue) == 0)
	return nil
}

// undoAll reverts all drills of one machine, and removes what no drill needs any more: the folder of a drill that died
// while it was being armed, and the program of a tool that was killed.
func undoAll(ctx context.Context, on *remote.Machine, m *FleetMachine, all []remote.KeptRun, force bool) {
	undoThese(ctx, on, m, all, force)
	m.Reached = true
	if len(all) == 0 {
		r, err := on.Fault(ctx, nil, "revert")
		if err == nil && r.Error != "" {
			err = errors.New(r.Error)
		}
		m.add(err)
	}
	m.add(on.RemoveStaleHelper(ctx)) // last, since the previous call installs our program
}

// undoThese reverts drills of one machine, whatever the result of each.
func undoThese(ctx context.Context, on *remote.Machine, m *FleetMachine, all []remote.KeptRun, force bool) {
	for _, x := range all {
		m.Drills = append(m.Drills, undo(ctx, on, x, force))
	}
}
