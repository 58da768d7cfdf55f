package node

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// shelf is a machine of places that look as they are set to look; what is undone looks as before.
type shelf map[string]Look

func (shelf) Look(context.Context, Spot) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }
func (s shelf) Make(_ context.Context, at Spot) error             { s[at.Change.Place()] = Injected; return nil }
func (s shelf) Compare(_ context.Context, at Spot) (Found, error) {
	return Found{Look: s[at.Change.Place()]}, nil
}
func (s shelf) Undo(_ context.Context, at Spot) error { s[at.Change.Place()] = Before; return nil }
func (shelf) Tell(context.Context, step.Notify) error { return nil }
func (shelf) Renewed() int64                          { return 0 }
func (s shelf) looks(places ...string) (all []Look) {
	for _, p := range places {
		all = append(all, s[p])
	}
	return all
}

// TestReaderKeepsWhatItNames: a drop-in that somebody has edited is left alone, and so is the file that it names: without
// it the unit could not be started any more. What it does not name is undone, and all of it once the drop-in is gone. A
// journal that takes no entry changes nothing of that.
func TestReaderKeepsWhatItNames(t *testing.T) {
	const named, other, unit = "file:/run/named", "file:/run/other", "unit:a.service"
	for _, full := range []bool{false, true} {
		s := shelf{}
		w := &world{trial: &trial{}}
		w.disk = &disk{make([]byte, 64<<10), make([]byte, 64<<10), w}
		j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
		if err != nil {
			t.Fatal(err)
		}
		k := &Keeper{Journal: j, Machine: s, Lease: s, By: step.ByWatchdog, Clock: Clock{"b", func() int64 { return 1 }, func() time.Time { return time.Unix(0, 1) }}}
		d := step.Drill{Run: "r", Steps: []step.Step{{ID: "a", Changes: []step.Change{
			{File: &step.File{Path: "/run/other", Text: "x"}}, {File: &step.File{Path: "/run/named", Text: "x"}},
			{Unit: &step.Unit{Unit: "a.service", State: step.Restarted, DropIn: "[Service]\nEnvironmentFile=/run/named\n"}},
		}}}}
		ctx := context.Background()
		if err := k.Plan(ctx, d); err != nil {
			t.Fatal(err)
		}
		if err := k.make(ctx, &j.Ledger.Steps[0]); err != nil {
			t.Fatal(err)
		}
		s[unit] = Foreign
		if full {
			w.full = 1000
		}
		_ = k.Revert(ctx, step.WhyAsked) // with a full disk it says so
		if got := s.looks(other, named, unit); !slices.Equal(got, []Look{Before, Injected, Foreign}) {
			t.Errorf("full %v: the drop-in is somebody's: %v", full, got)
		}
		if st := j.Ledger.State(); !full && (st != step.Conflict || !j.Ledger.Over()) {
			t.Errorf("the drop-in is somebody's: %s, over %v", st, j.Ledger.Over())
		}
		w.full, s[unit] = 0, Before
		if err := k.Revert(ctx, step.WhyAsked); err != nil {
			t.Error(err)
		}
		if got := s.looks(other, named, unit); !slices.Equal(got, []Look{Before, Before, Before}) || !j.Ledger.Over() || j.Ledger.State() == step.Conflict {
			t.Errorf("full %v: the drop-in is gone: %v, %s", full, got, j.Ledger.State())
		}
	}
}
