package recorder

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

const (
	// quiet is the time without repetition after which a group ends and its decision counts as new.
	quiet = 10 * time.Minute
	// maxGroups bounds the number of decisions that are counted at a time. A node has four loops, and each fails in
	// few ways.
	maxGroups = 16
	// aboutResult is RecordEntry.About of a result that the platform did not take.
	aboutResult = "task_result"
)

// key identifies repetitions of a decision. For a retry it holds the failure and the decision: attempt, delay,
// ceiling, correlation id and error text differ between repetitions, and the last ones are kept. So does the task,
// unless the decision is about the task's result: which results were lost is asked by task. For any other entry, an
// act, it holds everything but the time.
type key struct {
	boot, about, decision, code string
	task                        string // whose result was not taken
	reason                      diag.RecordReason
	failure                     diag.Failure
	status                      int
	act                         string
}

func keyOf(e *diag.RecordEntry) key {
	k := key{boot: e.BootID, about: e.About, decision: e.Decision, code: e.Code, reason: e.Reason, failure: e.Failure,
		status: e.Status}
	if e.About == aboutResult {
		k.task = e.TaskID
	}
	if e.Attempt == 0 {
		facts, _ := json.Marshal(e.Facts) // a map of strings cannot fail
		k.act = e.CorrelationID + "\x00" + e.TaskID + "\x00" + e.Detail + "\x00" + e.Agent + "\x00" + string(facts)
	}
	return k
}

// group is one decision that is taken repeatedly.
type group struct {
	key   key
	first diag.Time
	count int64
	// sequence number of the entry that represents the group, which selects its two slots; 0 while it has only one
	pair    uint64
	next    int               // the older of the two slots
	newest  *diag.RecordEntry // as it would be written now
	ceiling int64             // of the entry on the disk, in ms
	written time.Time         // to the disk
	seen    time.Time
	dirty   bool // the disk is behind
	synced  bool // the disk has one at all
}

// covers reports whether the entry on the disk already explains what the agent is about to do: the same decision,
// with at most the same ceiling. An act is always written.
func (g *group) covers(e *diag.RecordEntry) bool {
	return g.synced && e.Attempt > 0 && e.CeilingMS <= g.ceiling
}

// groups holds the newest maxGroups groups, in no order.
type groups struct{ list []*group }

// find returns the group of e, nil if it has none.
func (gs *groups) find(e *diag.RecordEntry) *group {
	k := keyOf(e)
	if i := slices.IndexFunc(gs.list, func(g *group) bool { return g.key == k }); i >= 0 {
		return gs.list[i]
	}
	return nil
}

// add starts a group with its first entry.
func (gs *groups) add(e *diag.RecordEntry, now time.Time, synced bool) {
	gs.list = append(gs.list, &group{key: keyOf(e), first: e.At, count: 1, newest: e, ceiling: e.CeilingMS, written: now,
		seen: now, synced: synced})
}

// over returns a group that is idle or has to make room for another one, or nil.
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

// stalest returns the group whose count on the disk has been outdated the longest; nil if none is.
func (gs *groups) stalest() *group {
	var out *group
	for _, g := range gs.list {
		if g.dirty && (out == nil || g.written.Before(out.written)) {
			out = g
		}
	}
	return out
}

// restore continues the groups of an earlier process of this boot, so that a restarted agent keeps counting. ring
// is indexed by slot, with nil for slots to skip; oldest is the slot to begin at; mono is CLOCK_BOOTTIME now, in
// ns; synced reports whether the entries are on the disk.
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
			g.next = record.SlotOf(e.Seq)
			if g.next == slot {
				g.next = record.SlotOf(e.Seq + 1)
			}
		}
		gs.list = append(gs.list, g)
	}
	if n := len(gs.list) - maxGroups; n > 0 {
		gs.list = gs.list[n:]
	}
}
