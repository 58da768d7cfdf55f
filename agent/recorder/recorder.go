// Package recorder writes a node's diagnostic record: every decision of the agent, on the disk before it takes effect.
//
// The record takes writes when nothing else does. Its files are made once, of real zeros, and written in place ever
// after, never truncated, renamed or appended to; so a full disk has nothing to refuse. A copy in memory (the mirror)
// takes everything first, and substitutes for the disk while that cannot; what the disk missed is written to it once it
// can.
//
// Three rules bound what a storm of retries can do. Identical decisions share a slot and are counted. A retry that the
// disk already explains (the same decision, with no longer a ceiling) is not written again but once a minute. And what
// is about to be overwritten is pinned first when it is the last of its reason. So neither the first cause nor the
// last is lost, and a day against a dead platform costs about two writes a minute.
//
// The format is diag/record's. The caller is package agent.
package recorder

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Longer than 300 lines: one writer and its three rules; what it keeps in memory has no other writer.

// Where a node's record is.
const (
	DefaultDir    = "/var/lib/gpuaas/diag"
	DefaultMirror = "/run/gpuaas/diag" // tmpfs: survives the process, not the machine
)

// Times that bound what is written.
const (
	refreshEvery = time.Minute      // of a decision that goes on: how old its count on the disk may be
	refreshGap   = 40 * time.Second // between any two of those, so that several loops together cost no more
	contactEvery = time.Minute      // how old the last good contact on the disk may be
	contactAgain = 20 * time.Second // and how old while the disk's is from before something went wrong
)

// ErrNotSynced means that an entry is not on the disk. It is in the mirror, and gets to the disk when that recovers.
var ErrNotSynced = errors.New("the record's disk does not take writes")

// Config is what a recorder needs to know.
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

// Recorder writes one record. Its methods may be called from several goroutines.
type Recorder struct {
	cfg Config

	mu     sync.Mutex // guards everything below, and the order of writes
	disk   *folder
	mirror *folder
	seq    uint64 // the newest that was given out
	ring   [record.Slots]held
	pins   [record.PinnedSlots]held
	groups groups
	health health

	seen      map[diag.RecordReason]time.Time // when each reason last occurred
	contact   contact
	refreshed time.Time // when a group was last written again
	last      *diag.RecordEntry
	buffer    [record.Size]byte // of text
	coalesced int64             // decisions that took no slot of their own, since the start
}

// held is what a slot holds.
type held struct {
	pin    string
	reason diag.RecordReason
	seq    uint64
	count  int64
	at     time.Time
}

// olderThan reports whether e covers more than what is held.
func (h held) olderThan(e held) bool { return e.seq > h.seq || (e.seq == h.seq && e.count > h.count) }

func holds(e *diag.RecordEntry) held {
	h := held{pin: e.Pin, reason: e.Reason, seq: e.Seq, count: e.Count, at: e.At.Time}
	if !e.Last.IsZero() {
		h.at = e.Last.Time
	}
	return h
}

// Open opens the record, and makes it where it is missing or was begun and not finished. It never fails: a record that
// cannot be on the disk is kept in the mirror, Summary reports it, and the disk is tried again.
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
		r.disk.look() // what it holds is numbered on from, so that it can be given the rest
	}
	if err := errors.Join(err, r.reconcile(now)); err != nil {
		r.degrade(err, now)
	} else if why := r.lastSaid(); why != "" {
		r.say(record.DecisionRecovered, diag.OK, "after: "+why, now)
	}
	if err := r.disk.fillReserve(); err != nil {
		cfg.Log.Warn("the record has no reserve", "error", err)
	}
	r.pinFirsts(now)
	return r
}

// Write keeps one decision: sequence number, boot, times and ids are filled in. It returns once the disk has it, or has
// what represents it. Its error is ErrNotSynced, wrapped with the reason.
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
		r.flush(now) // an act may be the last thing that this process does
	}
	if g := r.groups.find(&e); g != nil {
		return r.repeat(g, &e, now)
	}
	return r.begin(&e, now)
}

// retire ends the groups that have been quiet, or that are too many.
func (r *Recorder) retire(now time.Time) {
	for g := r.groups.over(now); g != nil; g = r.groups.over(now) {
		if g.dirty {
			_ = r.rewrite(g, now) // that the disk takes nothing is reported by the write that follows
		}
		r.groups.drop(g)
	}
}

// retireAbout ends the groups of a loop that works again: its next failure is another one, with a first time of its
// own.
func (r *Recorder) retireAbout(about string, now time.Time) {
	for _, g := range slices.Clone(r.groups.list) {
		if g.key.about == about {
			if g.dirty {
				_ = r.rewrite(g, now) // that the disk takes nothing is reported by the next write
			}
			r.groups.drop(g)
		}
	}
}

// stamp fills in what the recorder knows.
func (r *Recorder) stamp(e *diag.RecordEntry, now time.Time) {
	e.BootID, e.MonoNS, e.At = r.cfg.Boot, r.cfg.Mono(), diag.At(now)
	e.NodeID, e.InstanceID, e.Agent = r.cfg.NodeID, r.cfg.Instance, r.cfg.Agent
	e.Seq, e.Pin = 0, ""
}

// begin writes a decision that nothing on the disk represents.
func (r *Recorder) begin(e *diag.RecordEntry, now time.Time) error {
	_ = r.syncContact(now) // that the disk takes nothing is reported by the write that follows
	r.room(1, now)
	r.seq++
	e.Seq = r.seq
	err := r.keep(record.FileRecord, record.Place(e.Seq), e, now)
	r.groups.add(e, now, err == nil)
	r.pin(e, true, now)
	return err
}

// repeat counts a decision that was taken before. Its second time takes two slots, which are then written in turn, so
// that a torn write never loses what was accepted.
func (r *Recorder) repeat(g *group, e *diag.RecordEntry, now time.Time) error {
	r.coalesced++
	moved := g.pair == 0 || r.seq-g.pair > record.Slots-8 // before the ring comes round to its two slots
	if moved {
		r.room(2, now)
		g.pair, g.next = r.seq+1, record.Place(r.seq+1)
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

// rewrite puts a group's newest on the disk.
func (r *Recorder) rewrite(g *group, now time.Time) error {
	err := r.keep(record.FileRecord, g.next, g.newest, now)
	if err != nil {
		g.synced = false
		return err
	}
	own := record.Place(g.pair)
	if g.next == own {
		g.next = record.Place(g.pair + 1)
	} else {
		g.next = own
	}
	g.ceiling, g.written, g.dirty, g.synced = g.newest.CeilingMS, now, false, true
	r.pin(g.newest, false, now)
	return nil
}

// refresh writes the count that has been waiting for longest, when it is time. It returns nil if nothing is due: the
// entry of the decision is on the disk.
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

// flush writes every count that waits, as far as the disk takes it.
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
		if again := r.disk.again(file, slot, r.text(file, slot, e)); again == nil {
			r.cfg.Log.Warn("the record's disk failed once", "reason", diag.RecRecordDegraded, "error", err)
			r.say(record.DecisionRecovered, word(err), "written again and read back, after: "+err.Error(), now)
			return nil
		}
	}
	r.degrade(err, now)
	if errors.Is(err, errGone) { // the disk is well: the files were removed
		r.health.next = now
		if r.recover(now) && r.disk.put(file, slot, r.text(file, slot, e)) == nil {
			return nil
		}
	}
	return r.notSynced()
}

// renumber writes e behind what another process has written while this one could not: its numbers are not known to have
// been given out until the disk was opened.
func (r *Recorder) renumber(e *diag.RecordEntry, now time.Time) error {
	r.groups = groups{} // what was counted is not on the disk
	r.room(1, now)
	r.seq++
	as := *e
	as.Seq, as.Count, as.First, as.Last = r.seq, 0, diag.Time{}, diag.Time{}
	return r.keep(record.FileRecord, record.Place(as.Seq), &as, now)
}

// remember writes one slot of the mirror, and notes what the slot holds by now.
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

// text is an entry as its slot has it, until the next call: an agent that decides a few times a minute, for months,
// should not leave pages of garbage behind each time.
func (r *Recorder) text(file string, slot int, e *diag.RecordEntry) []byte {
	record.EncodeInto(&r.buffer, file, slot, *e)
	return r.buffer[:]
}

// Close writes the counts that wait, and gives the files back.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.flush(now)
	_ = r.syncContact(now) // no recipient is left
	r.disk.close()
	r.mirror.close()
}

// Summary is what a heartbeat reports of the record. Keys: state (ok | degraded | absent), why, promise, newest_seq,
// last_reason, last_at, coalesced, reserve (only when it is not there).
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
	for k, v := range facts {
		out[k] = v
	}
	return out
}
