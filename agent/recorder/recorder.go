// Package recorder writes a node's diagnostic record: every decision of the agent is on the disk before it takes
// effect.
//
// The record can be written when nothing else can. Its files are created once, filled with zeros, and from then on
// only overwritten in place, never truncated, renamed or appended to, so that a full disk cannot refuse a write. A
// copy in memory (the mirror) gets each entry first, and replaces the disk while that fails; entries that the disk
// missed are written once it recovers.
//
// Three rules bound the writes of a retry storm. Identical decisions share a slot and are counted. A retry that
// the entry on the disk already explains (the same decision, with at most the same ceiling) is written only once a
// minute. An entry that is about to be overwritten is pinned first if it is the last of its reason. So neither the
// first cause nor the last is lost, and a day against a dead platform costs about two writes a minute.
//
// The format is diag/record's. The caller is package agent.
package recorder

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Longer than 300 lines: a single writer and its three rules, with their state in memory.

// Where a node's record is.
const (
	DefaultDir    = "/var/lib/gpuaas/diag"
	DefaultMirror = "/run/gpuaas/diag" // tmpfs: survives the process, not the machine
)

// Times that bound what is written.
const (
	refreshEvery = time.Minute      // maximum age on the disk of a repeated decision's count
	refreshGap   = 40 * time.Second // minimum gap between two such writes, so that several loops together cost no more
	contactEvery = time.Minute      // maximum age on the disk of the last good contact
	contactAgain = 20 * time.Second // the same while the contact on the disk is older than the last failure
)

// ErrNotSynced means that an entry is not on the disk. It is in the mirror, and is written to the disk once that
// recovers.
var ErrNotSynced = errors.New("the record's disk does not take writes")

// Config configures a recorder.
type Config struct {
	Dir, Mirror string // folders; an empty Mirror disables the mirror
	Boot        string // boot id
	NodeID      string
	Instance    string // node instance id
	Agent       string // version
	Log         *slog.Logger

	FS   durable.FS       // default: the host's
	Now  func() time.Time // default: time.Now
	Mono func() int64     // CLOCK_BOOTTIME in ns; default: the kernel's
}

// Recorder writes one record. It is safe for concurrent use.
type Recorder struct {
	cfg Config

	mu     sync.Mutex // guards all fields below and the order of writes
	disk   *folder
	mirror *folder
	seq    uint64 // the newest number in use
	ring   [record.Slots]held
	pins   [record.PinnedSlots]held
	groups groups
	health health

	seen      map[diag.RecordReason]time.Time // when each reason last occurred
	contact   contact
	refreshed time.Time // when a group was last rewritten
	last      *diag.RecordEntry
	buffer    [record.Size]byte // of text
	coalesced int64             // decisions since the start that took no slot of their own
}

// held describes the content of a slot.
type held struct {
	pin    string
	reason diag.RecordReason
	seq    uint64
	count  int64
	at     time.Time
}

// olderThan reports whether e covers more than h.
func (h held) olderThan(e held) bool { return e.seq > h.seq || (e.seq == h.seq && e.count > h.count) }

func holds(e *diag.RecordEntry) held {
	h := held{pin: e.Pin, reason: e.Reason, seq: e.Seq, count: e.Count, at: e.At.Time}
	if !e.Last.IsZero() {
		h.at = e.Last.Time
	}
	return h
}

// Open opens the record, and creates or completes it if needed. It never fails: if the disk cannot be used, the
// record is kept in the mirror, Summary reports that, and the disk is retried.
func Open(cfg Config) *Recorder {
	if cfg.FS == nil {
		cfg.FS = durable.Host{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Mono == nil {
		cfg.Mono = boottime
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	r := &Recorder{cfg: cfg, disk: &folder{fs: cfg.FS, dir: cfg.Dir}, mirror: &folder{fs: cfg.FS, dir: cfg.Mirror},
		seen: map[diag.RecordReason]time.Time{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.mirror.open(); err != nil {
		cfg.Log.Warn("the record has no mirror", "folder", cfg.Mirror, "error", err)
		r.mirror.close()
	}
	now := cfg.Now()
	err := r.disk.open()
	if err != nil {
		r.disk.openExisting() // numbering continues from its content, so that it can receive the rest
	}
	if err := errors.Join(err, r.reconcile(now)); err != nil {
		r.degrade(err, now)
	} else if why := r.lastSaid(); why != "" {
		r.writeEntry(record.DecisionRecovered, diag.OK, "after: "+why, now)
	}
	if err := r.disk.fillReserve(); err != nil {
		cfg.Log.Warn("the record has no reserve", "error", err)
	}
	r.pinFirsts(now)
	return r
}

// Write stores one decision, after filling in sequence number, boot, times and ids. It returns once the disk has
// the entry, or an entry that represents it. Its error is ErrNotSynced, wrapped with the reason.
func (r *Recorder) Write(e diag.RecordEntry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.stamp(&e, now)
	if e.Decision == record.DecisionContact {
		return r.keepContact(&e, now)
	}
	if e.Decision == "start" {
		e.Facts = withPromise(e.Facts, r.disk.promise)
	}
	r.last = &e
	r.retire(now)
	if e.Attempt == 0 {
		r.flush(now) // an act may be the last action of this process
	}
	if g := r.groups.find(&e); g != nil {
		return r.repeat(g, &e, now)
	}
	return r.begin(&e, now)
}

// retire ends the groups that are idle or too many.
func (r *Recorder) retire(now time.Time) {
	for g := r.groups.over(now); g != nil; g = r.groups.over(now) {
		if g.dirty {
			_ = r.rewrite(g, now) // the next write reports a failing disk
		}
		r.groups.drop(g)
	}
}

// retireAbout ends the groups of a loop that has recovered: its next failure is a new one, with its own first
// time.
func (r *Recorder) retireAbout(about string, now time.Time) {
	for _, g := range slices.Clone(r.groups.list) {
		if g.key.about == about {
			if g.dirty {
				_ = r.rewrite(g, now) // the next write reports a failing disk
			}
			r.groups.drop(g)
		}
	}
}

// stamp fills in the recorder's own fields.
func (r *Recorder) stamp(e *diag.RecordEntry, now time.Time) {
	e.BootID, e.MonoNS, e.At = r.cfg.Boot, r.cfg.Mono(), diag.At(now)
	e.NodeID, e.InstanceID, e.Agent = r.cfg.NodeID, r.cfg.Instance, r.cfg.Agent
	e.Seq, e.Pin = 0, ""
}

// begin writes a decision that no entry on the disk represents.
func (r *Recorder) begin(e *diag.RecordEntry, now time.Time) error {
	_ = r.syncContact(now) // the next write reports a failing disk
	r.reserve(1, now)
	r.seq++
	e.Seq = r.seq
	err := r.keep(record.FileRecord, record.SlotOf(e.Seq), e, now)
	r.groups.add(e, now, err == nil)
	r.pin(e, true, now)
	return err
}

// repeat counts a repeated decision. From its second occurrence it has two slots, which are written in turn, so
// that a torn write never loses an accepted entry.
func (r *Recorder) repeat(g *group, e *diag.RecordEntry, now time.Time) error {
	r.coalesced++
	moved := g.pair == 0 || r.seq-g.pair > record.Slots-8 // move before the ring overwrites its two slots
	if moved {
		r.reserve(2, now)
		g.pair, g.next = r.seq+1, record.SlotOf(r.seq+1)
		r.seq += 2
	}
	g.count++
	e.Seq, e.Count, e.First, e.Last = g.pair, g.count, g.first, e.At
	g.newest, g.seen, g.dirty = e, now, true
	if moved || !g.covers(e) {
		return r.rewrite(g, now)
	}
	r.remember(record.FileRecord, g.next, e)
	return r.refresh(now)
}

// rewrite writes a group's newest entry to the disk.
func (r *Recorder) rewrite(g *group, now time.Time) error {
	err := r.keep(record.FileRecord, g.next, g.newest, now)
	if err != nil {
		g.synced = false
		return err
	}
	own := record.SlotOf(g.pair)
	if g.next == own {
		g.next = record.SlotOf(g.pair + 1)
	} else {
		g.next = own
	}
	g.ceiling, g.written, g.dirty, g.synced = g.newest.CeilingMS, now, false, true
	r.pin(g.newest, false, now)
	return nil
}

// refresh writes the count that has been waiting the longest, if one is due. It returns nil if none is: the
// decision's entry is on the disk.
func (r *Recorder) refresh(now time.Time) error {
	if now.Sub(r.refreshed) < refreshGap {
		return nil
	}
	g := r.groups.stalest()
	if g == nil || now.Sub(g.written) < refreshEvery {
		return nil
	}
	r.refreshed = now
	return r.rewrite(g, now)
}

// flush writes every pending count that the disk takes.
func (r *Recorder) flush(now time.Time) {
	for g := r.groups.stalest(); g != nil; g = r.groups.stalest() {
		if r.rewrite(g, now) != nil {
			return
		}
	}
}

// keep writes one slot, to the mirror first, and returns once it is on the disk.
func (r *Recorder) keep(file string, slot int, e *diag.RecordEntry, now time.Time) error {
	r.remember(file, slot, e)
	if r.health.why != "" && !r.recover(now) {
		return r.notSynced()
	}
	if file == record.FileRecord && r.ring[slot].seq > e.Seq {
		return r.renumber(e, now)
	}
	err := r.disk.put(file, slot, r.text(file, slot, e))
	if err == nil {
		return nil
	}
	if !errors.Is(err, errGone) {
		if again := r.disk.retryPut(file, slot, r.text(file, slot, e)); again == nil {
			r.cfg.Log.Warn("the record's disk failed once", "reason", diag.RecRecordDegraded, "error", err)
			r.writeEntry(record.DecisionRecovered, word(err), "written again and read back, after: "+err.Error(), now)
			return nil
		}
	}
	r.degrade(err, now)
	if errors.Is(err, errGone) { // the disk works: the files were removed
		r.health.next = now
		if r.recover(now) && r.disk.put(file, slot, r.text(file, slot, e)) == nil {
			return nil
		}
	}
	return r.notSynced()
}

// renumber writes e after the entries that another process wrote while this process could not use the disk: the
// numbers that it used are only known once the disk is open.
func (r *Recorder) renumber(e *diag.RecordEntry, now time.Time) error {
	r.groups = groups{} // what was counted is not on the disk
	r.reserve(1, now)
	r.seq++
	as := *e
	as.Seq, as.Count, as.First, as.Last = r.seq, 0, diag.Time{}, diag.Time{}
	return r.keep(record.FileRecord, record.SlotOf(as.Seq), &as, now)
}

// remember writes one slot of the mirror, and notes the slot's new content.
func (r *Recorder) remember(file string, slot int, e *diag.RecordEntry) {
	if file == record.FilePinned {
		r.pins[slot] = holds(e)
	} else {
		r.ring[slot] = holds(e)
	}
	if r.mirror.usable() {
		if err := r.mirror.put(file, slot, r.text(file, slot, e)); err != nil {
			r.cfg.Log.Warn("the record's mirror ends", "folder", r.mirror.dir, "error", err)
			r.mirror.close()
		}
	}
}

// text encodes an entry for its slot into a shared buffer, valid until the next call: an agent that runs for
// months should not produce garbage with each decision.
func (r *Recorder) text(file string, slot int, e *diag.RecordEntry) []byte {
	r.buffer = record.Encode(file, slot, *e)
	return r.buffer[:]
}

// Close writes the pending counts and closes the files.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.flush(now)
	_ = r.syncContact(now) // no recipient is left
	r.disk.close()
	r.mirror.close()
}

// Summary is the record's state for a heartbeat. Keys: state (ok | degraded | absent), why, promise, newest_seq,
// last_reason, last_at, coalesced, reserve (only if it is missing).
func (r *Recorder) Summary() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := map[string]string{"state": "ok", "newest_seq": strconv.FormatUint(r.seq, 10),
		"coalesced": strconv.FormatInt(r.coalesced, 10)}
	add := func(key, v string) {
		if v != "" {
			m[key] = v
		}
	}
	if r.health.why != "" {
		m["state"] = "degraded"
		if !r.disk.made {
			m["state"] = "absent"
		}
	}
	add("why", r.health.why)
	add("promise", r.disk.promise)
	if r.last != nil {
		m["last_reason"] = string(r.last.Reason)
		m["last_at"] = r.last.At.UTC().Format(diag.TimeLayout)
	}
	if r.disk.reserve < reserveFiles {
		m["reserve"] = strconv.Itoa(r.disk.reserve) + " of " + strconv.Itoa(reserveFiles) + " files"
	}
	return m
}

func withPromise(facts map[string]string, promise string) map[string]string {
	if promise == "" {
		return facts
	}
	out := map[string]string{record.FactPromise: promise}
	maps.Copy(out, facts)
	return out
}
