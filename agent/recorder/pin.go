package recorder

import (
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

const (
	// pinEvery is how old a reason's pinned last entry may become while the ring has a newer one.
	pinEvery = 10 * time.Minute
	// episode is how long a reason must not occur, while the platform is reachable, before its next occurrence
	// counts as a first one again.
	episode = time.Hour
)

// aboutUpdate is the About of update entries.
const aboutUpdate = "update"

// contact tracks the last contact with the platform.
type contact struct {
	seen    time.Time // last answered a heartbeat
	written time.Time // and last so on the disk
	again   bool      // the disk's contact is older than the last failure
	first   diag.Time // start of the contact without an entry in between
	after   uint64    // the newest entry then
	count   int64
	slot    int // slot to write next, from 1; 0: not chosen yet. The newest entry on the disk is in the other one
	newest  *diag.RecordEntry
	dirty   bool // the disk is behind
}

// keepContact records a good contact. It takes no slot of the ring: it has the sequence number of the entry before
// it.
func (r *Recorder) keepContact(e *diag.RecordEntry, now time.Time) error {
	c := &r.contact
	if c.after != r.seq || c.count == 0 {
		c.again = true
		r.retireAbout(e.About, now)
		c.first, c.after, c.count = e.At, max(1, r.seq), 0
		r.seq = c.after
	}
	c.count++
	c.seen = now
	e.Seq, e.Pin, e.Count, e.First, e.Last = c.after, record.PinContact, c.count, c.first, e.At
	if c.slot == 0 {
		c.slot = r.pinSlot(record.PinContact, "") + 1
	}
	c.newest, c.dirty = e, true
	if age := now.Sub(c.written); age >= contactEvery || c.written.IsZero() || (c.again && age >= contactAgain) {
		return r.syncContact(now)
	}
	r.remember(record.FilePinned, c.slot-1, e)
	return r.refresh(now)
}

// syncContact writes the last good contact to the disk. It is called when the contact is old enough, and before
// any other write, so that a failure is recorded together with the last time that all was well.
func (r *Recorder) syncContact(now time.Time) error {
	c := &r.contact
	if !c.dirty {
		return nil
	}
	if err := r.keep(record.FilePinned, c.slot-1, c.newest, now); err != nil {
		return err
	}
	c.written, c.slot, c.dirty, c.again = now, 0, false, false
	return nil
}

// occurred notes when an entry's reason last occurred.
func (r *Recorder) occurred(e *diag.RecordEntry) {
	at := holds(e).at
	if e.Pin == record.PinContact {
		if at.After(r.contact.seen) {
			r.contact.seen = at
		}
		return
	}
	if at.After(r.seen[e.Reason]) {
		r.seen[e.Reason] = at
	}
	if r.last == nil || e.Seq > r.last.Seq {
		r.last = e
	}
}

// pin copies an entry that is in the ring and on the disk to a slot that no storm overwrites: as its reason's
// first, or else as its last. fresh is false for an entry that was only counted again. A failed pin does not fail
// the entry.
func (r *Recorder) pin(e *diag.RecordEntry, fresh bool, now time.Time) {
	before := r.seen[e.Reason]
	r.occurred(e)
	if e.About == aboutUpdate {
		r.putPin(e, record.PinUpdate, now)
	}
	if _, ok := r.pinned(record.PinFirst, e.Reason); !ok || (r.contact.seen.After(before) && now.Sub(before) > episode) {
		r.putPin(e, record.PinFirst, now)
		return
	}
	if last, ok := r.pinned(record.PinLast, e.Reason); fresh || !ok || now.Sub(last.at).Abs() >= pinEvery {
		r.putPin(e, record.PinLast, now)
	}
}

func (r *Recorder) putPin(e *diag.RecordEntry, pin string, now time.Time) {
	reason := e.Reason
	if pin == record.PinUpdate {
		reason = ""
	}
	as := *e
	as.Pin = pin
	_ = r.keep(record.FilePinned, r.pinSlot(pin, reason), &as, now)
}

// pinned returns the content of a role's slot.
func (r *Recorder) pinned(pin string, reason diag.RecordReason) (held, bool) {
	for _, h := range r.pins {
		if h.pin == pin && h.reason == reason {
			return h, true
		}
	}
	return held{}, false
}

// pinSlot chooses a role's slot: the one that it has, else a free one, else that of the oldest last; firsts are
// never replaced. The last good contact is stored nowhere else, so it has two slots, of which pinSlot returns the
// older.
func (r *Recorder) pinSlot(pin string, reason diag.RecordReason) int {
	var mine []int
	free, oldest := -1, -1
	for slot, h := range r.pins {
		switch {
		case h.pin == pin && (h.reason == reason || reason == ""):
			mine = append(mine, slot)
		case h.pin == "" && free < 0:
			free = slot
		case h.pin == record.PinLast && (oldest < 0 || h.olderThan(r.pins[oldest])):
			oldest = slot
		}
	}
	want := 1
	if pin == record.PinContact {
		want = 2
	}
	switch {
	case len(mine) < want && free >= 0:
		return free
	case len(mine) == 2 && r.pins[mine[0]].olderThan(r.pins[mine[1]]):
		return mine[0]
	case len(mine) > 0:
		return mine[len(mine)-1]
	}
	return max(0, oldest) // there are fewer reasons than slots
}

// reserve prepares the next n slots of the ring for being overwritten: it pins entries that are the last of their
// reason.
func (r *Recorder) reserve(n int, now time.Time) {
	before := r.seq
	for i := range uint64(n) {
		slot := record.SlotOf(r.seq + 1 + i)
		h := r.ring[slot]
		if h.seq == 0 || !r.isLast(h) {
			continue
		}
		if last, ok := r.pinned(record.PinLast, h.reason); ok && !last.olderThan(h) {
			continue
		}
		if e := r.read(record.FileRecord, slot); e != nil {
			r.putPin(e, record.PinLast, now)
		}
	}
	if r.seq != before { // the disk failed in the meantime, and that was reported
		r.reserve(n, now)
	}
}

// isLast reports whether the ring has no newer entry for that reason.
func (r *Recorder) isLast(h held) bool {
	return !slices.ContainsFunc(r.ring[:], func(other held) bool { return other.reason == h.reason && h.olderThan(other) })
}

// pinFirsts pins the first entry of every reason that has none, after an interrupted creation or write.
func (r *Recorder) pinFirsts(now time.Time) {
	oldest := map[diag.RecordReason]int{}
	for slot, h := range r.ring {
		if at, ok := oldest[h.reason]; h.seq > 0 && (!ok || h.seq < r.ring[at].seq) {
			oldest[h.reason] = slot
		}
	}
	for reason, slot := range oldest {
		if _, ok := r.pinned(record.PinFirst, reason); ok {
			continue
		}
		if e := r.read(record.FileRecord, slot); e != nil {
			r.putPin(e, record.PinFirst, now)
		}
	}
}
