package node

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Renewed implements Lease.
func (w *world) Renewed() int64 { return w.lease }

// arm tries to arm another drill: that must fail during a drill, and succeed after it.
func (w *world) arm() {
	if w.disk != nil && w.ledger().Last > 0 {
		calm := w.trouble == trouble{} && !w.guard
		lived, err := w.process(step.ByNextRun, func(k *Keeper) error { return k.Yield(context.Background()) })
		l := w.ledger()
		switch {
		case !lived:
			return
		case err == nil:
			w.conflict = w.conflict || l.State() == step.Conflict
			if w.truth(); l.Touched() || w.guard || (l.State() == step.Conflict && !l.Closed) {
				w.t.Fatalf("another drill gets a machine on which one is %s, %s", l.Phase(), l.State())
			}
		case calm && !w.small && l.State() != step.Conflict && l.Expired(w.boot, w.now, w.lease) != "":
			w.t.Fatalf("a drill whose time is over keeps the machine: %v", err)
		default:
			return
		}
	}
	size := 128 << 10
	if w.small {
		size = 9 << 10
	}
	w.runs++
	w.trial = &trial{disk: &disk{make([]byte, size), make([]byte, size), w}, armed: w.now,
		locations: map[string]Location{}, before: map[string]string{}, after: map[string]string{},
		edited: map[string]bool{}, mended: map[string]bool{},
		ever: map[string]bool{}, ran: map[string]bool{}}
	lived, err := w.process(step.ByCLI, func(k *Keeper) error {
		if err := k.Plan(context.Background(), w.drill(fmt.Sprint("r", w.runs))); err != nil {
			return err
		}
		return k.write(step.Entry{Event: step.EventArmed})
	})
	if lived && err != nil { // it leaves nothing
		w.disk = nil
	}
}

// watchdog runs one turn of the watchdog; systemd restarts a dead one.
func (w *world) watchdog() {
	fresh, over := !w.guard, false
	w.guard = true
	calm := w.full == 0
	lived, err := w.process(step.ByWatchdog, func(k *Keeper) (err error) {
		if fresh {
			err = k.Start(context.Background())
		}
		if err == nil {
			over, err = k.Tick(context.Background())
		}
		return err
	})
	if !lived || over || (fresh && err != nil) {
		w.watchdogDies()
	}
	if l := w.ledger(); lived && calm && !w.small {
		idle := max(w.lease, w.armed)
		if late := w.now-idle >= int64(l.Drill.LeaseFor()) || w.now-w.armed >= int64(l.Drill.TTL.Duration()); late &&
			l.Known && l.Why == "" {
			w.t.Fatal("the drill's time is over, and the watchdog looks on")
		}
		if l.InProgress() && l.Why == "" {
			w.t.Fatal("a change is half made, and the watchdog looks on")
		}
	}
}

func (w *world) watchdogDies() {
	w.guard = false
	w.died()
}

// change is an edit by another process.
func (w *world) change(place string) {
	was, made := w.after[place]
	injected := made && w.sight(place) == was
	if !w.edit(place, w.edits+1) {
		return
	}
	w.edits++
	w.edited[place] = w.edited[place] || injected
	w.ever[place], w.mended[place] = true, false
	w.shadow[place] = w.sight(place)
}

// restore restores a place manually. If it was edited just before its change was made, that is not the state that the
// journal has from before, so a conflict is right as well.
func (w *world) restore(place string) {
	if !w.mend(w.locations[place]) {
		return
	}
	for _, s := range w.ledger().Steps {
		for _, c := range s.Changes {
			if c.Change.Place() == place {
				w.mended[place] = c.State == step.Done && !w.ever[place]
			}
		}
	}
}

func (w *world) rebooted() {
	w.watchdogDies()
	if w.disk != nil {
		w.disk.crash(w.t)
	}
	w.boot += "'"
	w.now = int64(time.Second)
	w.reboot()
	for _, s := range w.drill("r").Steps {
		for _, c := range s.Changes {
			if p := c.Place(); c.Tier() != step.TierPersistent {
				w.shadow[p] = w.sight(p)
				w.edited[p] = false
			}
			w.mended[c.Place()] = false
		}
	}
}

// truth compares the journal with the actual state.
func (w *world) truth() {
	for _, s := range w.ledger().Steps {
		for _, c := range s.Changes {
			p := c.Change.Place()
			switch c.State {
			case "", step.Planned, step.Reverted, step.Lost:
			case step.Conflict:
				if !w.ever[p] {
					w.t.Fatalf("%s is a conflict, and nobody was there", p)
				}
			default:
				continue
			}
			if got := w.sight(p); got != w.shadow[p] {
				w.t.Fatalf("%s is said to be %q, and looks like\n%s\nwhere without the drill it would look like\n%s", p, c.State,
					got, w.shadow[p])
			}
		}
	}
}

// settle lets the TTL pass, with a watchdog that is no longer killed, and then compares.
func (w *world) settle() {
	w.now += int64(31 * time.Second)
	for range 12 { // each remaining failure costs a turn
		if l := w.ledger(); l.Known {
			w.watchdog()
		}
	}
	for _, p := range w.places {
		if got := w.sight(p); got != w.shadow[p] {
			w.t.Fatalf("after everything %s looks like\n%s\nand without the drill it would look like\n%s", p, got, w.shadow[p])
		}
	}
	w.truth()
	l := w.ledger()
	if w.small || !l.Known {
		return
	}
	if !l.Final() {
		w.t.Fatalf("after its time to live: %s, %s", l.Phase(), l.State())
	}
	for _, s := range l.Steps {
		for _, c := range s.Changes {
			p := c.Change.Place()
			if c.State.Final() && !w.ran[c.By] {
				w.t.Fatalf("%s is %s by %q, who was not there", p, c.State, c.By)
			}
			if w.edited[p] && c.State != step.Conflict {
				w.t.Fatalf("%s was edited while it was injected, and the journal says %s", p, c.State)
			}
			if w.mended[p] && c.State != step.Lost {
				w.t.Fatalf("%s was restored by hand, and the journal says %s", p, c.State)
			}
		}
	}
}

// everything lists the actions that may happen, in any order.
func (w *world) everything() map[string]func(*rapid.T) {
	sometimes := func(t *rapid.T) {
		switch rapid.IntRange(0, 5).Draw(t, "and then") {
		case 0, 1:
			w.fuel = rapid.IntRange(1, 40).Draw(t, "it dies after")
		case 2:
			w.meddle, w.where = rapid.IntRange(1, 30).Draw(t, "somebody edits after"), w.anywhere(t)
		}
	}
	as := func(by string, f func(*Keeper) error) func(*rapid.T) {
		return func(t *rapid.T) {
			if w.disk != nil {
				sometimes(t)
				_, _ = w.process(by, f) // an error is only for people
			}
		}
	}
	revert := func(k *Keeper) error {
		if !k.Journal.Ledger.Known {
			return nil
		}
		return k.Revert(context.Background(), step.WhyAsked)
	}
	return map[string]func(*rapid.T){
		"another run": func(t *rapid.T) { sometimes(t); w.arm() },
		"want": func(t *rapid.T) { // also repeatedly, and when it is too late
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "step")
			as(step.ByCLI, func(k *Keeper) error {
				if k.Journal.Ledger.Phase() != step.PhaseArmed {
					return nil
				}
				return k.write(step.Entry{Event: step.EventWanted, Step: id})
			})(t)
			if w.ledger().Known && rapid.Bool().Draw(t, "seen at once") {
				sometimes(t)
				w.watchdog()
			}
		},
		"watchdog": func(t *rapid.T) {
			if w.ledger().Known {
				sometimes(t)
				w.watchdog()
			}
		},
		"watchdog killed": func(*rapid.T) { w.watchdogDies() },
		"revert":          as(step.ByCLI, revert),
		"reaper": as(step.ByReaper, func(k *Keeper) error {
			if !k.Journal.Ledger.Known || k.expired() == "" || w.guard {
				return nil
			}
			return k.Revert(context.Background(), k.expired())
		}),
		"close": as(step.ByCLI, func(k *Keeper) error {
			if !k.Journal.Ledger.Final() {
				return nil
			}
			return k.write(step.Entry{Event: step.EventClosed})
		}),
		"renew": func(*rapid.T) { w.lease = w.now },
		"time": func(t *rapid.T) {
			if w.now += int64(rapid.IntRange(1, 25).Draw(t, "seconds")) * int64(time.Second); w.guard {
				w.watchdog() // it looks ten times a second
			}
		},
		"reboot":    func(*rapid.T) { w.rebooted() },
		"broken":    func(t *rapid.T) { w.broken = rapid.IntRange(1, 2).Draw(t, "undos") },
		"lying":     func(t *rapid.T) { w.lying = rapid.IntRange(1, 2).Draw(t, "undos") },
		"disk full": func(t *rapid.T) { w.full = rapid.IntRange(1, 3).Draw(t, "writes") },
		"edit":      func(t *rapid.T) { w.change(w.anywhere(t)) },
		"mend": func(t *rapid.T) {
			if all := w.injected(); len(all) > 0 {
				w.restore(rapid.SampledFrom(all).Draw(t, "place"))
			}
		},
		"": func(*rapid.T) { w.truth() },
	}
}

// injected returns the places that are in the changed state.
func (w *world) injected() []string {
	var all []string
	for _, p := range w.places {
		if after, made := w.after[p]; made && w.sight(p) == after {
			all = append(all, p)
		}
	}
	return all
}

func (w *world) anywhere(t *rapid.T) string { return rapid.SampledFrom(w.places).Draw(t, "place") }

// checks sets the number of lives, unless the command line does.
func checks(t *testing.T, n string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	if err := f.Value.Set(n); err != nil {
		t.Fatal(err)
	}
}

// life is one machine, from before a drill until after it.
func life(t *rapid.T, s site) *world {
	w := &world{site: s, t: t, shadow: map[string]string{}, boot: "b", now: int64(time.Hour), trial: &trial{}}
	for _, s := range w.drill("r").Steps {
		for _, c := range s.Changes {
			w.places = append(w.places, c.Place())
			w.shadow[c.Place()] = w.sight(c.Place())
		}
	}
	w.small = rapid.IntRange(0, 4).Draw(t, "small journal") == 0
	w.fuel = rapid.SampledFrom([]int{0, 0, 0, 1, 4, 7, 11}).Draw(t, "arming dies after")
	w.arm()
	return w
}

// TestKeeper runs random actions on a machine in any order; afterwards it must be as it would be without a drill.
func TestKeeper(t *testing.T) {
	checks(t, "200")
	rapid.Check(t, func(t *rapid.T) {
		w := life(t, newMemory())
		t.Repeat(w.everything())
		w.settle()
	})
}
