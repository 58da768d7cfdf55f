package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// scripted is a machine with one place, which answers each comparison with the next of its states.
type scripted struct {
	compares               []any // Found or error, one for each comparison
	look, make, undo, tell error
	did                    []string
}

func (s *scripted) Snapshot(context.Context, Location) (json.RawMessage, error) {
	return json.RawMessage(`{"as":"it was"}`), s.look
}

func (s *scripted) Make(_ context.Context, at Location) error {
	if string(at.Note) != `{"as":"it was"}` {
		return errors.New("made without its note")
	}
	s.did = append(s.did, "make")
	return s.make
}

func (s *scripted) Compare(context.Context, Location) (Observed, error) {
	s.did = append(s.did, "compare")
	if len(s.compares) == 0 {
		return Observed{}, errors.New("compared once more")
	}
	next := s.compares[0]
	s.compares = s.compares[1:]
	if err, failed := next.(error); failed {
		return Observed{}, err
	}
	return next.(Observed), nil
}

func (s *scripted) Undo(context.Context, Location) error {
	s.did = append(s.did, "undo")
	return s.undo
}

func (s *scripted) Notify(_ context.Context, n step.Notify) error {
	s.did = append(s.did, n.Verb)
	return s.tell
}

func (s *scripted) Renewed() int64 { return 0 }

// The changes of these tests: of a file whose reader is notified, and of what only a watchdog holds.
var (
	fileChange = step.Change{File: &step.File{Path: "/run/a", Text: "x"}, Notify: []step.Notify{{Unit: "a.service",
		Verb: "reload"}}}
	holdChange = step.Change{Hold: &step.Hold{Dir: "/var", Percent: 90}}
)

// keeperOf returns a keeper of a drill with one change, armed in boot "b" at 1 ns, whose change is in that state.
func keeperOf(t *testing.T, m *scripted, c step.Change, state step.State) *Keeper {
	t.Helper()
	w := &world{trial: &trial{}}
	w.disk = &disk{make([]byte, 64<<10), make([]byte, 64<<10), w}
	j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Journal: j, Machine: m, Lease: m, By: step.ByWatchdog,
		Clock: Clock{"b", func() int64 { return 1 }, func() time.Time { return time.Unix(0, 1) }}}
	d := step.Drill{Run: "r", TTL: 30_000, Steps: []step.Step{{ID: "s", Changes: []step.Change{c}}}}
	if err := errors.Join(k.Plan(t.Context(), d), k.write(step.Entry{Event: step.EventArmed})); err != nil {
		t.Fatal(err)
	}
	if state != step.Planned {
		if err := k.change(k.location(&j.Ledger.Steps[0], 0), state, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *Keeper) only() step.ChangeLedger { return k.Journal.Ledger.Steps[0].Changes[0] }

// TestUndo: what an undo does to a place, and what it records, by the state of the place and of the change.
func TestUndo(t *testing.T) {
	no := errors.New("no")
	before, injected, foreign := Observed{}, Observed{State: Injected}, Observed{Foreign, "somebody has changed it"}
	for name, tc := range map[string]struct {
		change  step.Change
		state   step.State
		machine scripted
		want    step.State
		text    string
		did     string
		fails   bool
	}{
		"injected": {fileChange, step.Done, scripted{compares: []any{injected, before}}, step.Reverted, "",
			"compare undo reload compare", false},
		"half made": {fileChange, step.Intent, scripted{compares: []any{injected, before}}, step.Reverted, "",
			"compare undo reload compare", false},
		"an undo that was cut short": {fileChange, step.Reverting, scripted{compares: []any{injected, before}},
			step.Reverted,
			"", "compare undo reload compare", false},
		"a conflict that is over": {fileChange, step.Conflict, scripted{compares: []any{injected, before}}, step.Reverted,
			"",
			"compare undo reload compare", false},
		"with a remark": {fileChange, step.Done, scripted{compares: []any{injected, Observed{Text: "its folder stays"}}},
			step.Reverted, "its folder stays", "compare undo reload compare", false},
		"foreign": {fileChange, step.Done, scripted{compares: []any{foreign}}, step.Conflict, "somebody has changed it",
			"compare", false},
		"foreign meanwhile": {fileChange, step.Done, scripted{compares: []any{injected, foreign}}, step.Conflict,
			"somebody has changed it", "compare undo reload compare", false},
		"cannot be compared": {fileChange, step.Done, scripted{compares: []any{no}}, step.Done, "no", "compare", true},
		"cannot be undone": {fileChange, step.Done, scripted{compares: []any{injected}, undo: no}, step.Failed, "no",
			"compare undo", true},
		"cannot be notified": {fileChange, step.Done, scripted{compares: []any{injected}, tell: no}, step.Failed,
			"reload a.service: no", "compare undo reload", true},
		"cannot be seen": {fileChange, step.Done, scripted{compares: []any{injected, no}}, step.Failed, "no",
			"compare undo reload compare", true},
		"is still there": {fileChange, step.Done, scripted{compares: []any{injected, injected}}, step.Failed,
			"undone, and still there", "compare undo reload compare", true},
		"undone by another process": {fileChange, step.Done, scripted{compares: []any{before}}, step.Lost, "",
			"compare reload", false},
		"undone, and its reader is not notified": {fileChange, step.Done, scripted{compares: []any{before}, tell: no},
			step.Failed, "reload a.service: no", "compare reload", true},
		"not made, or undone": {fileChange, step.Intent, scripted{compares: []any{before}}, step.Reverted, "",
			"compare reload", false},
		"undone by this drill": {fileChange, step.Reverting, scripted{compares: []any{before}}, step.Reverted, "",
			"compare reload", false},
		"undone after a failure": {fileChange, step.Failed, scripted{compares: []any{before}}, step.Reverted, "",
			"compare reload", false},
		"a conflict that somebody ended": {fileChange, step.Conflict, scripted{compares: []any{before}}, step.Lost, "",
			"compare reload", false},
		"what ended with its holder": {holdChange, step.Done, scripted{compares: []any{before}}, step.Reverted, "",
			"compare", false},
		"not begun": {fileChange, step.Planned, scripted{}, step.Planned, "", "", false},
		"over":      {fileChange, step.Reverted, scripted{}, step.Reverted, "", "", false},
		"given up":  {fileChange, step.Lost, scripted{}, step.Lost, "", "", false},
	} {
		k := keeperOf(t, &tc.machine, tc.change, tc.state)
		err := k.Revert(t.Context(), step.WhyAsked)
		if got := k.only(); got.State != tc.want || got.Text != tc.text || (err != nil) != tc.fails ||
			strings.Join(tc.machine.did, " ") != tc.did || len(tc.machine.compares) > 0 {
			t.Errorf("%s: %s (%s), it did %q, %v", name, got.State, got.Text, tc.machine.did, err)
		}
	}
}

// TestUndoAfterBoot: what was in memory ended with the boot, by design and not by another process.
func TestUndoAfterBoot(t *testing.T) {
	for boot, want := range map[string]step.State{"b": step.Lost, "c": step.Reverted} {
		m := &scripted{compares: []any{Observed{}}}
		k := keeperOf(t, m, fileChange, step.Done)
		k.Clock.Boot = boot
		if err := k.Revert(t.Context(), step.WhyAsked); err != nil || k.only().State != want {
			t.Errorf("boot %s: %s, %v", boot, k.only().State, err)
		}
	}
}

// TestUndoIsWritten: that an undo begins is written before it, once; the same result is not written again.
func TestUndoIsWritten(t *testing.T) {
	no, injected := errors.New("no"), Observed{State: Injected}
	m := &scripted{compares: []any{injected, injected, injected, Observed{}}, undo: no}
	k := keeperOf(t, m, fileChange, step.Done)
	before := len(k.Journal.Entries)
	for range 2 {
		_ = k.Revert(t.Context(), step.WhyTTL)
	}
	m.undo = nil
	if err := k.Revert(t.Context(), step.WhyAsked); err != nil {
		t.Fatal(err)
	}
	var states []step.State
	for _, e := range k.Journal.Entries[before:] {
		states = append(states, e.State)
	}
	if want := []step.State{"", step.Reverting, step.Failed, step.Reverted}; !slices.Equal(states, want) ||
		k.Journal.Ledger.Why != step.WhyTTL {
		t.Errorf("%q (%s), want %q", states, k.Journal.Ledger.Why, want)
	}
	m = &scripted{compares: []any{injected, Observed{}}}
	k = keeperOf(t, m, fileChange, step.Reverting)
	before = len(k.Journal.Entries)
	if err := k.Revert(t.Context(), step.WhyTTL); err != nil || len(k.Journal.Entries) != before+1 {
		t.Errorf("an undo that was announced is announced again: %+v, %v", k.Journal.Entries[before:], err)
	}
	// A comparison that fails changes nothing, and does not fill the journal.
	m = &scripted{compares: []any{no, no}}
	k = keeperOf(t, m, fileChange, step.Done)
	before = len(k.Journal.Entries)
	for range 2 {
		_ = k.Revert(t.Context(), step.WhyTTL)
	}
	if got := len(k.Journal.Entries) - before; got != 2 || k.only().State != step.Done {
		t.Errorf("%d entries, %s", got, k.only().State)
	}
	k = &Keeper{Journal: &Journal{}}
	if err := k.Revert(t.Context(), step.WhyAsked); err == nil {
		t.Error("a journal without a drill is reverted")
	}
}

// TestHeld: only a watchdog can release what it holds; others leave it to one that lives.
func TestHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		change  step.Change
		guarded func() bool
		want    step.State
	}{
		"a watchdog lives":              {holdChange, func() bool { return true }, step.Done},
		"no watchdog lives":             {holdChange, func() bool { return false }, step.Reverted},
		"it is the watchdog":            {holdChange, nil, step.Reverted},
		"another change, and one lives": {fileChange, func() bool { return true }, step.Reverted},
	} {
		m := &scripted{compares: []any{Observed{State: Injected}, Observed{}}}
		k := keeperOf(t, m, tc.change, step.Done)
		k.Guarded = tc.guarded
		if err := k.Revert(t.Context(), step.WhyAsked); err != nil || k.only().State != tc.want {
			t.Errorf("%s: %s, %v", name, k.only().State, err)
		}
	}
}

// TestTick: what is due in a turn of the watchdog.
func TestTick(t *testing.T) {
	const second = int64(time.Second)
	reverts, nothing := []any{Observed{State: Injected}, Observed{}}, []any{}
	for name, tc := range map[string]struct {
		state    step.State
		now      int64
		wanted   bool
		compares []any
		want     step.State
		why      string
		over     bool
	}{
		"nothing":                 {step.Done, 19 * second, false, nothing, step.Done, "", false},
		"its lease is over":       {step.Done, 20*second + 1, false, reverts, step.Reverted, step.WhyLease, true},
		"half made":               {step.Intent, 1, false, reverts, step.Reverted, step.WhyDied, true},
		"wanted":                  {step.Planned, 1, true, nothing, step.Done, "", false},
		"wanted, and made":        {step.Done, 1, true, nothing, step.Done, "", false},
		"wanted after the lease":  {step.Planned, 20*second + 1, true, nothing, step.Planned, step.WhyLease, true},
		"not wanted":              {step.Planned, 1, false, nothing, step.Planned, "", false},
		"the clock went backward": {step.Done, 0, false, reverts, step.Reverted, step.WhyClock, true},
	} {
		m := &scripted{compares: tc.compares}
		k := keeperOf(t, m, fileChange, tc.state)
		if tc.wanted {
			if err := k.write(step.Entry{Event: step.EventWanted, Step: "s"}); err != nil {
				t.Fatal(err)
			}
		}
		k.Clock.Now = func() int64 { return tc.now }
		over, err := k.Tick(t.Context())
		if l := k.Journal.Ledger; err != nil || over != tc.over || k.only().State != tc.want || l.Why != tc.why {
			t.Errorf("%s: %s, why %q, over %v, %v", name, k.only().State, l.Why, over, err)
		}
		if tc.over { // a drill that is over stays as it is
			m.did = nil
			if over, err := k.Tick(t.Context()); !over || err != nil || len(m.did) > 0 {
				t.Errorf("%s: once more: over %v, it did %q, %v", name, over, m.did, err)
			}
		}
	}
}

// TestMakeFails: what could not be made is reverted at once, from wherever it stopped.
func TestMakeFails(t *testing.T) {
	no := errors.New("no")
	for name, tc := range map[string]struct {
		machine scripted
		want    step.State
		did     string
	}{
		"it looks otherwise": {scripted{}, step.Planned, ""},
		"it cannot be made": {scripted{make: no, compares: []any{Observed{State: Injected}, Observed{}}}, step.Reverted,
			"make compare undo reload compare"},
		"its reader cannot be notified": {scripted{tell: no, compares: []any{Observed{State: Injected}}}, step.Failed,
			"make reload compare undo reload"},
	} {
		k := keeperOf(t, &tc.machine, fileChange, step.Planned)
		if tc.want == step.Planned {
			tc.machine.look = no
		}
		if err := k.write(step.Entry{Event: step.EventWanted, Step: "s"}); err != nil {
			t.Fatal(err)
		}
		over, err := k.Tick(t.Context())
		if over || err == nil || k.only().State != tc.want || k.Journal.Ledger.Why != step.WhyFailed ||
			strings.Join(tc.machine.did, " ") != tc.did {
			t.Errorf("%s: %s, %q, it did %q, over %v, %v", name, k.only().State, k.Journal.Ledger.Why, tc.machine.did, over,
				err)
		}
	}
	k := keeperOf(t, &scripted{}, fileChange, step.Planned)
	k.Machine = &scripted{look: no}
	if err := k.Plan(t.Context(), k.Journal.Ledger.Drill); err == nil {
		t.Error("armed with a place that cannot be changed")
	}
}

// TestTake: a new watchdog reverts everything if its predecessor held something, and only then.
func TestTake(t *testing.T) {
	for name, tc := range map[string]struct {
		change step.Change
		state  step.State
		want   step.State
	}{
		"held":          {holdChange, step.Done, step.Reverted},
		"to be held":    {holdChange, step.Planned, step.Planned},
		"not held":      {fileChange, step.Done, step.Done},
		"held, and not": {holdChange, step.Reverted, step.Reverted},
	} {
		m := &scripted{compares: []any{Observed{}}}
		k := keeperOf(t, m, tc.change, tc.state)
		if err := k.Start(t.Context()); err != nil || k.only().State != tc.want || k.Journal.Ledger.Guards != 1 ||
			(k.Journal.Ledger.Why == step.WhyLost) != (name == "held") {
			t.Errorf("%s: %s, %q, %d watchdogs, %v", name, k.only().State, k.Journal.Ledger.Why, k.Journal.Ledger.Guards, err)
		}
	}
	// Arming waits for the entry of the first watchdog; later ones work with a full journal.
	k := keeperOf(t, &scripted{}, fileChange, step.Done)
	k.Journal.size = k.Journal.end
	if err := k.Start(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("the first watchdog: %v", err)
	}
	k.Journal.Ledger.Guards = 1
	if err := k.Start(t.Context()); err != nil {
		t.Errorf("the second watchdog: %v", err)
	}
}

// TestCede: another drill gets the machine only if nothing of this one is injected, or may become so.
func TestCede(t *testing.T) {
	late := func(k *Keeper) { k.Clock.Now = func() int64 { return int64(time.Minute) } }
	closed := func(k *Keeper) { k.Journal.Ledger.Closed = true }
	asked := func(k *Keeper) { k.Journal.Ledger.Why = step.WhyAsked }
	for name, tc := range map[string]struct {
		state    step.State
		guarded  bool
		change   func(*Keeper)
		compares []any
		ok       bool
		want     step.State
	}{
		"it runs":     {step.Done, false, func(*Keeper) {}, nil, false, step.Done},
		"it is armed": {step.Planned, false, func(*Keeper) {}, nil, false, step.Planned},
		"it expired": {step.Done, false, late, []any{Observed{State: Injected}, Observed{}}, true,
			step.Reverted},
		"it expired, with a guard": {step.Done, true, late, []any{Observed{State: Injected}, Observed{}}, false, step.Done},
		"it expired, to conflict":  {step.Done, false, late, []any{Observed{State: Foreign}}, false, step.Conflict},
		"it cannot be reverted":    {step.Done, false, late, []any{errors.New("no")}, false, step.Done},
		"it was asked": {step.Done, false, asked, []any{Observed{State: Injected}, Observed{}}, true,
			step.Reverted},
		"it is over":               {step.Reverted, false, func(*Keeper) {}, nil, true, step.Reverted},
		"it is over, with a guard": {step.Reverted, true, func(*Keeper) {}, nil, false, step.Reverted},
		"a conflict":               {step.Conflict, false, func(*Keeper) {}, nil, false, step.Conflict},
		"a conflict, inspected":    {step.Conflict, false, closed, nil, true, step.Conflict},
	} {
		m := &scripted{compares: tc.compares}
		k := keeperOf(t, m, fileChange, tc.state)
		k.Guarded = func() bool { return tc.guarded }
		tc.change(k)
		err := k.Yield(t.Context())
		if (err == nil) != tc.ok || k.only().State != tc.want ||
			(len(m.compares) > 0) != (tc.guarded && tc.compares != nil) {
			t.Errorf("%s: %v, %s", name, err, k.only().State)
		}
	}
}

// TestLocation: what a place is notified about the drill.
func TestLocation(t *testing.T) {
	k := keeperOf(t, &scripted{}, fileChange, step.Planned)
	s := &k.Journal.Ledger.Steps[0]
	k.Clock.Now = func() int64 { return 1 + int64(10*time.Second) }
	if at := k.location(s, 0); at.Left != 20*time.Second || at.Rebooted || at.Undoing || at.Run != "r" ||
		at.Step != "s" ||
		string(at.Note) != `{"as":"it was"}` {
		t.Errorf("%+v", at)
	}
	k.Journal.Ledger.Armed, k.Clock.Boot = false, "c"
	if at := k.location(s, 0); at.Left != 30*time.Second || !at.Rebooted {
		t.Errorf("%+v", at)
	}
	for state, want := range map[step.State]bool{step.Done: false, step.Intent: false, step.Conflict: false,
		step.Reverting: true, step.Failed: true} {
		s.Changes[0].State = state
		if at := k.location(s, 0); at.Undoing != want {
			t.Errorf("%s: undoing %v", state, at.Undoing)
		}
	}
}
