package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// died is what a crash throws.
type died struct{}

// disk is a file with a cache above it, as a kernel has: the end of a process loses nothing, that of the machine any of
// the blocks that were not synced.
type disk struct {
	cache, safe []byte
	w           *world
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) { return copy(p, d.cache[off:]), nil }

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	d.w.step("write")
	n := copy(d.cache[off:], p)
	d.w.step("written")
	return n, nil
}

func (d *disk) Sync() error {
	d.w.step("sync")
	copy(d.safe, d.cache)
	return nil
}

// world is a machine in memory: places with a text each. shadow is what each place would look like if there had never been
// a drill, which is what the tests are about.
type world struct {
	t      *rapid.T
	disk   *disk
	places map[string]string
	shadow map[string]string
	boot   string
	now    int64
	armed  int64
	fuel   int  // a crash comes after so many things that happen; -1: none
	broken int  // so many undos fail
	guard  bool // a watchdog lives
	holds  map[string]bool
	lease  int64
	edited map[string]bool // by somebody else while it was injected
	ever   map[string]bool // by somebody else at any time
	edits  int
	by     string // whose process runs
	small  bool   // the journal is, and becomes full: it may not tell everything, and all the same everything is undone
	made   map[string]int
}

func (w *world) step(string) {
	if w.fuel > 0 {
		if w.fuel--; w.fuel == 0 {
			panic(died{})
		}
	}
}

func (w *world) Renewed() int64 { return w.lease }

func injected(at Spot) string { return fmt.Sprintf("injected by %s/%d", at.Step, at.N) }

func (w *world) Look(_ context.Context, at Spot) (json.RawMessage, error) {
	v := w.places[at.Change.Place()]
	if v == injected(at) {
		return nil, errors.New("it is so already")
	}
	return json.Marshal(v)
}

// Make also checks what must be on the disk before anything is touched.
func (w *world) Make(_ context.Context, at Spot) error {
	entries, _, _ := step.DecodeJournal(w.disk.safe)
	l := step.Read(entries)
	var c step.ChangeLedger
	for _, s := range l.Steps {
		if s.Step.ID == at.Step {
			c = s.Changes[at.N]
		}
	}
	place := at.Change.Place()
	var was string
	if c.State != step.Intent || json.Unmarshal(c.Note, &was) != nil || was != w.places[place] {
		w.t.Fatalf("%s is changed, and its undo is not on the disk: %s %s", place, c.State, c.Note)
	}
	if l.Why != "" {
		w.t.Fatalf("%s is changed although everything is to be undone (%s)", place, l.Why)
	}
	if w.made[place]++; w.made[place] > 1 {
		w.t.Fatalf("%s is changed twice", place)
	}
	w.step("make")
	w.places[place] = injected(at)
	if at.Change.Hold != nil {
		w.holds[place] = true
	}
	w.step("made")
	return nil
}

func (w *world) Compare(_ context.Context, at Spot) (Found, error) {
	place := at.Change.Place()
	switch {
	case at.Rebooted && at.Change.Tier() != step.TierPersistent:
		return Found{}, nil
	case at.Change.Hold != nil && w.by != step.ByWatchdog:
		return Found{}, nil // another process cannot see it
	}
	var was string
	if err := json.Unmarshal(at.Note, &was); err != nil {
		return Found{}, err
	}
	switch v := w.places[place]; {
	case at.Change.Hold != nil && !w.holds[place], v == was:
		return Found{}, nil
	case v == injected(at):
		return Found{Look: Injected}, nil
	}
	return Found{Look: Foreign}, nil
}

func (w *world) Undo(_ context.Context, at Spot) error {
	w.step("undo")
	if w.broken > 0 {
		w.broken--
		return fmt.Errorf("undo %d fails", w.broken)
	}
	place := at.Change.Place()
	if w.places[place] != injected(at) {
		w.t.Fatalf("%s is undone, and looks like %q", place, w.places[place])
	}
	var was string
	if err := json.Unmarshal(at.Note, &was); err != nil {
		return err
	}
	w.places[place] = was
	delete(w.holds, place)
	w.step("undone")
	return nil
}

func (w *world) Tell(context.Context, step.Notify) error { w.step("tell"); return nil }

// process runs f as a process of its own would: on a journal read anew, and to its end or to a crash. It says whether it
// lived.
func (w *world) process(by string, f func(*Keeper) error) (lived bool) {
	w.by = by
	defer func() {
		switch r := recover().(type) {
		case nil:
		case died:
			lived = false
		default:
			panic(r)
		}
		w.fuel = -1
	}()
	j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
	if err != nil {
		w.t.Fatal(err)
	}
	k := &Keeper{Journal: j, Machine: w, Lease: w, By: by, Clock: Clock{w.boot, func() int64 { return w.now }, func() time.Time { return time.Unix(0, w.now) }}}
	if by != step.ByWatchdog {
		k.Guarded = func() bool { return w.guard }
	}
	if err := f(k); err != nil {
		w.t.Log(by, err)
	}
	return true
}

// watchdogDies lets go of what it held.
func (w *world) watchdogDies() {
	w.guard = false
	for p := range w.holds {
		w.places[p] = w.shadow[p]
		delete(w.holds, p)
	}
}

// watchdog is one turn of it; systemd starts one that died anew.
func (w *world) watchdog() {
	fresh := !w.guard
	w.guard = true
	if !w.process(step.ByWatchdog, func(k *Keeper) error {
		if fresh {
			if err := k.Take(context.Background()); err != nil {
				return err
			}
		}
		_, err := k.Tick(context.Background())
		return err
	}) {
		w.watchdogDies()
		return
	}
	for _, s := range w.ledger().Steps {
		for _, c := range s.Changes {
			if w.small {
				continue
			}
			if c.State == step.Intent || c.State == step.Done && c.Change.Hold != nil && !w.holds[c.Change.Place()] {
				w.t.Fatalf("%s is %s, and the watchdog looks on", c.Change.Place(), c.State)
			}
		}
	}
}

// reboot loses what was not synced, in any mixture, and everything in memory.
func (w *world) reboot() {
	w.watchdogDies()
	for at := 0; at < len(w.disk.cache); at += step.BlockSize {
		old, cur := w.disk.safe[at:at+step.BlockSize], w.disk.cache[at:at+step.BlockSize]
		if slices.Equal(old, cur) {
			continue
		}
		if rapid.Bool().Draw(w.t, "block lost") {
			copy(cur, old)
		} else {
			copy(old, cur)
		}
	}
	w.boot += "'"
	w.now = int64(time.Second)
	for _, c := range drillOf("r").Steps {
		for _, c := range c.Changes {
			if p := c.Place(); c.Tier() != step.TierPersistent {
				w.places[p], w.shadow[p] = "at boot", "at boot"
				delete(w.edited, p)
			}
		}
	}
}

func drillOf(run string) step.Drill {
	leave := int64(0)
	file := func(p string) step.Change {
		return step.Change{File: &step.File{Path: p, Text: "x"}, Notify: []step.Notify{{Unit: "a.service", Verb: "reload"}}}
	}
	return step.Drill{
		Schema: step.Schema, Run: run, Scenario: "s", Node: "n", By: "me", At: time.Unix(1, 0), TTL: 30_000, Disposable: true,
		Steps: []step.Step{
			{ID: "a", Fault: "f", Tier: step.TierPersistent, Changes: []step.Change{file("/etc/a"), file("/run/b")}},
			{ID: "b", Fault: "f", Tier: step.TierPersistent, Changes: []step.Change{{Hold: &step.Hold{Dir: "/var", Leave: &leave}}, file("/etc/c")}},
		},
	}
}

func (w *world) ledger() step.Ledger {
	entries, _, _ := step.DecodeJournal(w.disk.cache)
	return step.Read(entries)
}

// TestKeeper lets everything happen to a drill in any order, and wants the machine as it would be without it.
func TestKeeper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(0, 4).Draw(t, "small journal") == 0
		size := 128 << 10
		if small {
			size = 8 << 10
		}
		w := &world{t: t, small: small, fuel: -1, boot: "b", now: int64(time.Hour), places: map[string]string{}, holds: map[string]bool{}, edited: map[string]bool{}, ever: map[string]bool{}, made: map[string]int{}}
		w.disk = &disk{make([]byte, size), make([]byte, size), w}
		d := drillOf("r")
		var places []string
		for _, s := range d.Steps {
			for _, c := range s.Changes {
				w.places[c.Place()] = "as it was"
				places = append(places, c.Place())
			}
		}
		w.shadow = maps.Clone(w.places)
		arm := func(k *Keeper) error {
			if err := k.Plan(context.Background(), d); err != nil {
				return err
			}
			return k.write(step.Entry{Event: step.EventArmed})
		}
		w.fuel = rapid.SampledFrom([]int{-1, -1, -1, 1, 4, 7, 11}).Draw(t, "arming dies at")
		w.armed = w.now
		if !w.process(step.ByCLI, arm) && !maps.Equal(w.places, w.shadow) {
			t.Fatalf("a machine that was never armed is touched: %v", w.places)
		}
		fuel := func(t *rapid.T) {
			if rapid.IntRange(0, 2).Draw(t, "dies") == 0 {
				w.fuel = rapid.IntRange(1, 25).Draw(t, "after")
			}
		}
		revert := func(by string) {
			w.process(by, func(k *Keeper) error { return k.Revert(context.Background(), "asked") })
		}
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) { // also a second time, and when it is too late
				id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "step")
				fuel(t)
				w.process(step.ByCLI, func(k *Keeper) error {
					if k.Journal.Ledger.Phase() != step.PhaseArmed {
						return nil
					}
					return k.write(step.Entry{Event: step.EventWanted, Step: id})
				})
			},
			"watchdog":        func(t *rapid.T) { fuel(t); w.watchdog() },
			"watchdog killed": func(*rapid.T) { w.watchdogDies() },
			"revert":          func(t *rapid.T) { fuel(t); revert(step.ByCLI) },
			"next run":        func(t *rapid.T) { fuel(t); revert(step.ByNextRun) },
			"renew":           func(*rapid.T) { w.lease = w.now },
			"time":            func(t *rapid.T) { w.now += int64(rapid.IntRange(1, 15).Draw(t, "seconds")) * int64(time.Second) },
			"reboot":          func(*rapid.T) { w.reboot() },
			"reaper": func(t *rapid.T) {
				fuel(t)
				w.process(step.ByReaper, func(k *Keeper) error {
					if why := k.expired(); k.Journal.Ledger.Known && why != "" {
						return k.Revert(context.Background(), why)
					}
					return nil
				})
			},
			"broken": func(t *rapid.T) { w.broken = rapid.IntRange(1, 2).Draw(t, "undos") },
			"edit": func(t *rapid.T) {
				p := rapid.SampledFrom(places).Draw(t, "place")
				if p == "disk:/var" {
					return // what is held has no content
				}
				w.edited[p] = w.places[p] != w.shadow[p]
				w.ever[p] = true
				w.edits++
				w.places[p] = fmt.Sprintf("edit %d", w.edits)
				w.shadow[p] = w.places[p]
			},
			"": func(t *rapid.T) {
				entries, _, _ := step.DecodeJournal(w.disk.cache)
				for i := 1; i < len(entries); i++ {
					if entries[i].Seq <= entries[i-1].Seq {
						t.Fatalf("number %d follows %d", entries[i].Seq, entries[i-1].Seq)
					}
				}
				for _, s := range w.ledger().Steps {
					for _, c := range s.Changes {
						if p := c.Change.Place(); c.State == step.Reverted && w.holds[p] {
							t.Fatalf("%s is said to be reverted, and is held", p)
						}
					}
				}
			},
		})
		w.settle(t)
	})
}

// settle lets the time to live pass, with a watchdog that nobody kills any more, and then looks.
func (w *world) settle(t *rapid.T) {
	if l := w.ledger(); !l.Known {
		if !maps.Equal(w.places, w.shadow) {
			t.Fatalf("nothing is known of a drill, and the machine is touched: %v", w.places)
		}
		return
	}
	w.now += int64(31 * time.Second)
	for range 4 { // two undos may be broken, each of which costs a turn
		w.watchdog()
	}
	l := w.ledger()
	if !l.Over() && !w.small {
		t.Fatalf("after its time to live: %s, %s", l.Phase(), l.State())
	}
	if l.Why == step.WhyFailed && !w.small {
		t.Fatal("a change could not be made, and nothing was in its way")
	}
	for _, s := range l.Steps {
		for n, c := range s.Changes {
			p := c.Change.Place()
			if w.places[p] != w.shadow[p] {
				t.Fatalf("%s is %q, and would be %q without the drill; the journal says %s", p, w.places[p], w.shadow[p], c.State)
			}
			if w.small {
				continue
			}
			if c.State == step.Conflict && !w.ever[p] {
				t.Fatalf("%s is a conflict, and nobody was there", p)
			}
			if w.edited[p] && c.State != step.Conflict && l.Boot == w.boot {
				t.Fatalf("%s/%d was edited while it was injected, and the journal says %s", s.Step.ID, n, c.State)
			}
		}
	}
}
