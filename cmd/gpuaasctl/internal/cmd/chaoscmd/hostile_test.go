package chaoscmd

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
	"github.com/gpuaas/gpuaasctl/ops"
)

// TestHostileFleet: machines report hostile text about their drills to every command that queries the fleet.
func TestHostileFleet(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	tables := map[string]fleetPage{"status": statusPage, "revert": revertPage, "panic": panicPage, "residue": residuePage}
	text := []byte(
		`{"kind":"x","machines":[{"id":"n1","reached":true,"drills":[{"run":"r","status":{"run":"r","phase":"over","state":"conflict"}}]}]}`)
	hostiletest.PlantedIn(t, text, func(field string, d *ops.Fleet) bool {
		for name, table := range tables {
			s.Shows(field+" in "+name, cmdutil.FormatTable, func(a *cmdutil.App) error {
				return a.ShowPage(d, cmdutil.FormatTable, table(d)...)
			})
		}
		return s.Shows(field, cmdutil.FormatJSON, func(a *cmdutil.App) error {
			return a.ShowPage(d, cmdutil.FormatJSON)
		})
	})
	s.Enough()
}

// TestHostileRun: the progress lines of a running drill, on a pipe.
func TestHostileRun(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	for i, moments := range recording.Runs() {
		for n := range moments {
			field := fmt.Sprintf("event %d of run %d", n, i)
			s.Shows(field, "", func(a *cmdutil.App) error {
				told := newDrillProgress(a.Stderr)
				for k, m := range moments {
					e := m.Event
					if k == n {
						e = hostileEvent(t, e)
					}
					told(ops.Progress{Index: i, Count: 3, Event: e, Walk: m.Walk})
				}
				return nil
			})
		}
	}
	s.Enough()
}

// hostileEvent plants hostile text in every string of an event except its kind.
func hostileEvent(t *testing.T, e drill.Event) drill.Event {
	t.Helper()
	var altered drill.Event
	if err := json.Unmarshal(hostiletest.AlterNth(hostiletest.Encoded(t, e), 0), &altered); err != nil {
		return e
	}
	altered.Kind, altered.Machine = e.Kind, e.Machine
	if altered.Seen != nil {
		altered.Seen.Name, altered.Seen.Stage = e.Seen.Name, e.Seen.Stage
	}
	return altered
}
