package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// placesFake is a machine whose places have the states that the test sets; a reverted place is in its earlier state.
type placesFake map[string]PlaceState

func (placesFake) Snapshot(context.Context, Location) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}
func (s placesFake) Make(_ context.Context, at Location) error {
	s[at.Change.Place()] = Injected
	return nil
}
func (s placesFake) Compare(_ context.Context, at Location) (Observed, error) {
	return Observed{State: s[at.Change.Place()]}, nil
}
func (s placesFake) Undo(_ context.Context, at Location) error {
	s[at.Change.Place()] = Before
	return nil
}
func (placesFake) Notify(context.Context, step.Notify) error { return nil }
func (placesFake) Renewed() int64                            { return 0 }
func (s placesFake) looks(places ...string) (all []PlaceState) {
	for _, p := range places {
		all = append(all, s[p])
	}
	return all
}

// TestReaderKeepsWhatItNames: a drop-in that an operator has edited is left alone, and so is the file that it
// names, without which the unit could not start. Files that it does not name are reverted, and all of them once
// the drop-in is gone. A full journal does not change that.
func TestReaderKeepsWhatItNames(t *testing.T) {
	const named, other, unit = "file:/run/named", "file:/run/other", "unit:a.service"
	for _, full := range []bool{false, true} {
		s := placesFake{}
		w := &world{trial: &trial{}}
		w.disk = &disk{make([]byte, 64<<10), make([]byte, 64<<10), w}
		j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
		if err != nil {
			t.Fatal(err)
		}
		k := &Keeper{Journal: j, Machine: s, Lease: s, By: step.ByWatchdog,
			Clock: Clock{"b", func() int64 { return 1 }, func() time.Time { return time.Unix(0, 1) }}}
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
		_ = k.Revert(ctx, step.WhyAsked) // with a full disk it returns that error
		if got := s.looks(other, named, unit); !slices.Equal(got, []PlaceState{Before, Injected, Foreign}) {
			t.Errorf("full %v: the drop-in is somebody's: %v", full, got)
		}
		if st := j.Ledger.State(); !full && (st != step.Conflict || !j.Ledger.Final()) {
			t.Errorf("the drop-in is somebody's: %s, over %v", st, j.Ledger.Final())
		}
		w.full, s[unit] = 0, Before
		if err := k.Revert(ctx, step.WhyAsked); err != nil {
			t.Error(err)
		}
		if got := s.looks(other, named, unit); !slices.Equal(got, []PlaceState{Before, Before, Before}) ||
			!j.Ledger.Final() || j.Ledger.State() == step.Conflict {
			t.Errorf("full %v: the drop-in is gone: %v, %s", full, got, j.Ledger.State())
		}
	}
}

// tokened is a placesFake on which one place can be read only once the previous file exists.
type tokened struct {
	placesFake
	looked int
}

func (s *tokened) Snapshot(ctx context.Context, at Location) (json.RawMessage, error) {
	if at.Change.Run != nil {
		if s.placesFake["file:/run/token"] != Injected {
			return nil, errors.New("401")
		}
		s.looked++
		return json.RawMessage(`{"state":"as it was"}`), nil
	}
	return s.placesFake.Snapshot(ctx, at)
}

// TestLateIsLookedAtOnceItCanBe: the state of a place that needs a file of its own step is recorded when that file
// exists, before the place is changed. If the place is not marked late, the drill does not arm.
func TestLateIsLookedAtOnceItCanBe(t *testing.T) {
	for _, late := range []bool{true, false} {
		s := &tokened{placesFake: placesFake{}}
		w := &world{trial: &trial{}}
		w.disk = &disk{make([]byte, 64<<10), make([]byte, 64<<10), w}
		j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
		if err != nil {
			t.Fatal(err)
		}
		clock := Clock{"b", func() int64 { return 1 }, func() time.Time { return time.Unix(0, 1) }}
		k := &Keeper{Journal: j, Machine: s, Lease: s, By: step.ByWatchdog, Clock: clock}
		err = k.Plan(t.Context(), step.Drill{Run: "r", Steps: []step.Step{{ID: "a", Changes: []step.Change{
			{File: &step.File{Path: "/run/token", Text: "x"}},
			{Run: &step.Run{Place: "release", Tier: step.TierBoot, Late: late}},
		}}}})
		if late != (err == nil) {
			t.Fatalf("late %v: arming: %v", late, err)
		}
		if !late {
			continue
		}
		if err := k.make(t.Context(), &j.Ledger.Steps[0]); err != nil || s.looked != 1 {
			t.Fatalf("made: %v; looked at %d times", err, s.looked)
		}
		if note := string(j.Ledger.Steps[0].Changes[1].Note); note != `{"state":"as it was"}` {
			t.Errorf("noted %s", note)
		}
		if err := k.Revert(t.Context(), step.WhyAsked); err != nil || j.Ledger.State() != step.Reverted {
			t.Errorf("reverted: %v, %s", err, j.Ledger.State())
		}
	}
}
