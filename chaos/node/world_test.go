package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"syscall"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// site is a machine that drills break in these tests: in memory, or real.
type site interface {
	process(watchdog bool) Machine // a process's view; a watchdog's lasts until it dies
	drill(run string) step.Drill
	sight(place string) string     // the visible state of the place
	edit(place string, n int) bool // another process changes its content; false: not possible
	mend(at Location) bool         // an operator restores it manually, without notifying its readers
	died()                         // the watchdog has died, with everything that it held
	reboot()
}

// world is a machine with everything that may happen to it during drills. shadow is the state that each place
// would have without any drill, which is what the tests compare with.
type world struct {
	site
	*trial
	t      *rapid.T
	places []string
	shadow map[string]string
	boot   string
	now    int64 // CLOCK_BOOTTIME
	guard  bool  // a watchdog lives
	// journals are small and become full: then they may be incomplete, but everything must still be reverted
	small    bool
	runs     int
	conflict bool // one of the drills ended in a conflict, which an operator inspected
	edits    int
	by       string         // whose process runs
	about    map[string]int // edits of a place when the running process read it
	trouble                 // what is about to go wrong
}

// trouble counts down events: a block is written, a sync is requested, a change is about to be made, is made...
type trouble struct {
	fuel   int // a crash after this many; 0: none
	meddle int // a foreign edit of a place after this many; 0: none
	where  string
	broken int // so many undos fail
	lying  int // this many undos report success without an effect
	full   int // this many writes find the disk full
}

// trial is one drill on the machine, from the test's view.
type trial struct {
	disk      *disk
	armed     int64
	lease     int64
	locations map[string]Location // made
	before    map[string]string   // visible states before and after the changes
	after     map[string]string
	edited    map[string]bool // while it was injected
	mended    map[string]bool // likewise, when the journal reported it as done
	ever      map[string]bool // edited at any time
	ran       map[string]bool // processes that may have reverted something
}

// died is thrown by a crash.
type died struct{}

// happens is called wherever a process may die.
func (w *world) happens() {
	if w.meddle > 0 {
		if w.meddle--; w.meddle == 0 {
			w.change(w.where)
		}
	}
	if w.fuel > 0 {
		if w.fuel--; w.fuel == 0 {
			panic(died{})
		}
	}
}

// disk is a journal's file with a page cache: when a process ends, only unwritten data is lost; when the machine
// crashes, any unsynced block may be.
type disk struct {
	cache, safe []byte
	w           *world
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) { return copy(p, d.cache[off:]), nil }

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	for at := 0; at < len(p); at += step.BlockSize {
		d.w.happens()
		copy(d.cache[int(off)+at:], p[at:at+step.BlockSize])
		if d.w.full > 0 {
			d.w.full--
			return at, syscall.ENOSPC
		}
	}
	d.w.happens()
	return len(p), nil
}

func (d *disk) Sync() error {
	d.w.happens()
	if d.w.full > 0 {
		d.w.full--
		return syscall.EIO
	}
	copy(d.safe, d.cache)
	d.w.happens()
	return nil
}

// crash returns the disk's content after the machine went down: any mixture of old and new blocks.
func (d *disk) crash(t *rapid.T) {
	for at := 0; at < len(d.cache); at += step.BlockSize {
		old, cur := d.safe[at:at+step.BlockSize], d.cache[at:at+step.BlockSize]
		switch {
		case slices.Equal(old, cur):
		case rapid.Bool().Draw(t, "block lost"):
			copy(cur, old)
		default:
			copy(old, cur)
		}
	}
}

func (w *world) ledger() step.Ledger {
	if w.disk == nil {
		return step.Ledger{}
	}
	entries, _, _ := step.DecodeJournal(w.disk.cache)
	return step.Read(entries)
}

// guest is a process's view of the machine, with a check at every call.
type guest struct {
	Machine
	w *world
}

func (g guest) Snapshot(ctx context.Context, at Location) (json.RawMessage, error) {
	g.w.about[at.Change.Place()] = g.w.edits
	return g.Machine.Snapshot(ctx, at)
}

// Make requires that the data for an undo is on the disk before anything is touched.
func (g guest) Make(ctx context.Context, at Location) error {
	w, place := g.w, at.Change.Place()
	w.happens()
	entries, _, _ := step.DecodeJournal(w.disk.safe)
	l := step.Read(entries)
	var c step.ChangeLedger
	for _, s := range l.Steps {
		if s.Step.ID == at.Step {
			c = s.Changes[at.N]
		}
	}
	note, err := g.Machine.Snapshot(ctx, at)
	if known := w.about[place] == w.edits; known && (err != nil || c.State != step.Intent || !bytes.Equal(note, c.Note)) {
		w.t.Fatalf("%s is changed, and its undo is not on the disk: it is %q with %s, and looks like %s %v", place, c.State,
			c.Note, note, err)
	}
	if _, twice := w.after[place]; twice || l.Why != "" {
		w.t.Fatalf("%s is changed, although it was changed before (%v) or everything is to be undone (%s)", place, twice,
			l.Why)
	}
	w.before[place] = w.sight(place)
	if err = g.Machine.Make(ctx, at); err == nil {
		w.locations[place], w.after[place] = at, w.sight(place)
	}
	w.happens()
	return err
}

func (g guest) Undo(ctx context.Context, at Location) error {
	g.w.happens()
	if g.w.broken > 0 {
		g.w.broken--
		return errors.New("this undo fails")
	}
	if g.w.lying > 0 {
		g.w.lying--
		return nil
	}
	err := g.Machine.Undo(ctx, at)
	g.w.happens()
	return err
}

func (g guest) Notify(ctx context.Context, n step.Notify) error {
	g.w.happens()
	return g.Machine.Notify(ctx, n)
}

// process runs f like a separate process: with the journal read again, to its end or to a crash. It reports
// whether it survived, and its error.
func (w *world) process(by string, f func(*Keeper) error) (lived bool, err error) {
	w.by, w.about, w.ran[by] = by, map[string]int{}, true
	defer func() {
		switch r := recover().(type) {
		case nil:
		case died:
			lived = false
		default:
			panic(r)
		}
		w.fuel, w.meddle = 0, 0
	}()
	j, err := OpenJournal(w.disk, int64(len(w.disk.cache)))
	if err != nil {
		w.t.Fatal(err)
	}
	k := &Keeper{Journal: j, Machine: guest{w.site.process(by == step.ByWatchdog), w}, Lease: w, By: by,
		Clock: Clock{w.boot, func() int64 { return w.now }, func() time.Time { return time.Unix(0, w.now) }}}
	if by != step.ByWatchdog {
		k.Guarded = func() bool { return w.guard }
	}
	err = f(k)
	return true, err
}
