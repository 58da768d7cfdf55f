package recorder

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

const (
	// quiet ends a group: a decision that comes back after so long is news.
	quiet = 10 * time.Minute
	// maxGroups bounds how many decisions are being counted at a time. A node has four loops, each of which fails in
	// one way or a few.
	maxGroups = 16
)

// key is what makes two decisions the same. Of a retry it is what went wrong and what is done about it: its attempt,
// delay and ceiling, its correlation id, its task and the words of the error differ from one to the next and are kept
// of the last. Of anything else, which is an act, all but the time counts.
type key struct {
	boot, about, decision, code string
	reason                      diag.RecordReason
	failure                     diag.Failure
	status                      int
	act                         string
}

func keyOf(e *diag.RecordEntry) key {
	k := key{boot: e.BootID, about: e.About, decision: e.Decision, code: e.Code, reason: e.Reason, failure: e.Failure,
		status: e.Status}
	if e.Attempt == 0 {
		facts, _ := json.Marshal(e.Facts) // a map of strings: nothing can fail
		k.act = e.CorrelationID + "\x00" + e.TaskID + "\x00" + e.Detail + "\x00" + e.Agent + "\x00" + string(facts)
	}
	return k
}

// group is one decision that is taken again and again.
type group struct {
	key   key
	first diag.Time
	count int64
	// the entry that represents all of them, and the first of its two slots; 0 while there is only one
	pair    uint64
	next    int               // the slot of the two that is older
	newest  *diag.RecordEntry // as it would be written now
	ceiling int64             // of the one on the disk, in ms
	written time.Time         // to the disk
	seen    time.Time
	dirty   bool // the disk is behind
	synced  bool // the disk has one at all
}

// covers reports whether what is on the disk already covers what the agent is about to do: the same, with no longer a
// ceiling. An act is always written.
func (g *group) covers(e *diag.RecordEntry) bool {
	return g.synced && e.Attempt > 0 && e.CeilingMS <= g.ceiling
}

// groups are the newest maxGroups, in no order.
type groups struct{ list []*group }

// find is the group of e.
func (gs *groups) find(e *diag.RecordEntry) *group {
	k := keyOf(e)
	if i := slices.IndexFunc(gs.list, func(g *group) bool { return g.key == k }); i >= 0 {
		return gs.list[i]
	}
	return nil
}

// add begins a group with its first entry.
func (gs *groups) add(e *diag.RecordEntry, now time.Time, synced bool) {
	gs.list = append(gs.list, &group{key: keyOf(e), first: e.At, count: 1, newest: e, ceiling: e.CeilingMS, written: now,
		seen: now, synced: synced})
}

// over returns a group without recent events, or one that has to make room for another, or nil.
func (gs *groups) over(now time.Time) *group {
	if len(gs.list) == 0 {
		return nil
	}
	oldest := slices.MinFunc(gs.list, func(a, b *group) int { return a.seen.Compare(b.seen) })
	if len(gs.list) >= maxGroups || now.Sub(oldest.seen) > quiet {
		return oldest
	}
	return nil
}

func (gs *groups) drop(g *group) {
	gs.list = slices.DeleteFunc(gs.list, func(x *group) bool { return x == g })
}

// stalest is the one whose count on the disk is behind for longest; nil when none is.
func (gs *groups) stalest() *group {
	var out *group
	for _, g := range gs.list {
		if g.dirty && (out == nil || g.written.Before(out.written)) {
			out = g
		}
	}
	return out
}

// restore takes up the groups that an earlier process of this boot left, so that an agent that is started again and
// again counts on. ring is by slot, nil where nothing is to be taken up, and oldest the slot to begin at; mono is
// CLOCK_BOOTTIME now, in ns; synced, whether they are on the disk.
func (gs *groups) restore(ring []*diag.RecordEntry, oldest int, mono int64, now time.Time, synced bool) {
	for i := range ring {
		slot := (oldest + i) % len(ring)
		e := ring[slot]
		if e == nil {
			continue
		}
		age := time.Duration(mono - e.MonoNS)
		if age < 0 || age > quiet {
			continue
		}
		if old := gs.find(e); old != nil {
			if old.pair == e.Seq && old.count >= e.Count { // the older of its two slots
				old.next = slot
				continue
			}
			gs.drop(old)
		}
		then := now.Add(-age)
		g := &group{key: keyOf(e), first: e.At, count: 1, newest: e, ceiling: e.CeilingMS, written: then, seen: then,
			synced: synced}
		if e.Count > 0 {
			g.first, g.count, g.pair = e.First, e.Count, e.Seq
			g.next = record.Place(e.Seq)
			if g.next == slot {
				g.next = record.Place(e.Seq + 1)
			}
		}
		gs.list = append(gs.list, g)
	}
	if n := len(gs.list) - maxGroups; n > 0 {
		gs.list = gs.list[n:]
	}
}
