package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// Intervals between retries of a disk that takes no writes. A disk that fails repeatedly is retried less and less
// often.
const (
	retryDisk    = 30 * time.Second
	maxRetryDisk = 10 * time.Minute
)

// health tracks whether the disk takes writes.
type health struct {
	why   string // "" while it does
	next  time.Time
	delay time.Duration
	since time.Time
}

func (r *Recorder) notSynced() error { return fmt.Errorf("%w: %s", ErrNotSynced, r.health.why) }

// degrade marks the disk as failed, reports that where it can, and closes the files.
func (r *Recorder) degrade(err error, now time.Time) {
	r.disk.close()
	h := &r.health
	if now.Sub(h.since) > maxRetryDisk {
		h.delay = 0
	}
	h.delay = min(max(2*h.delay, retryDisk), maxRetryDisk)
	h.next, h.since = now.Add(h.delay), now
	w := r.wordOf(err)
	if was := h.why; was != "" {
		h.why = string(w) + ": " + err.Error()
		return
	}
	h.why = string(w) + ": " + err.Error()
	r.cfg.Log.Error("the record is degraded", "reason", diag.RecRecordDegraded, "failure", w, "error", err, "next_try",
		h.delay)
	r.writeEntry(record.DecisionDegraded, w, err.Error(), now)
}

// recover retries the disk when it is time, and writes to it what it missed. It reports whether the disk takes
// writes.
func (r *Recorder) recover(now time.Time) bool {
	h := &r.health
	if now.Before(h.next) {
		return false
	}
	err := r.disk.open()
	if err == nil {
		err = r.reconcile(now)
	}
	if err != nil {
		r.degrade(err, now)
		return false
	}
	was := h.why
	h.why, h.since = "", now
	if !r.disk.lent {
		_ = r.disk.fillReserve() // it may have been removed with the files; the summary shows its size
	}
	r.cfg.Log.Info("the record is on the disk again", "after", was)
	r.writeEntry(record.DecisionRecovered, diag.OK, "after: "+was, now)
	return h.why == ""
}

// writeEntry writes an entry about the state of the record itself.
func (r *Recorder) writeEntry(decision string, w diag.Failure, detail string, now time.Time) {
	e := &diag.RecordEntry{Reason: diag.RecRecordDegraded, About: record.AboutRecord, Decision: decision, Failure: w,
		Detail: detail}
	r.stamp(e, now)
	r.reserve(1, now)
	r.seq++
	e.Seq = r.seq
	slot := record.SlotOf(e.Seq)
	r.remember(record.FileRecord, slot, e)
	if r.health.why == "" {
		if err := r.disk.put(record.FileRecord, slot, r.text(record.FileRecord, slot, e)); err != nil {
			r.degrade(err, now)
		}
	}
	r.pin(e, true, now)
}

// lastSaid returns why the record was degraded when it was last written; "" if it was not.
func (r *Recorder) lastSaid() string {
	var last *diag.RecordEntry
	for slot, h := range r.ring {
		if h.reason == diag.RecRecordDegraded && (last == nil || h.seq > last.Seq) {
			last = r.read(record.FileRecord, slot)
		}
	}
	if last == nil || last.About != record.AboutRecord || last.Decision != record.DecisionDegraded {
		return ""
	}
	return string(last.Failure) + ": " + last.Detail
}

// read reads one slot from the copy that has it; nil if neither has.
func (r *Recorder) read(file string, slot int) *diag.RecordEntry {
	if e := r.mirror.get(file, slot); e != nil {
		return e
	}
	return r.disk.get(file, slot)
}

// reconcile makes both copies identical: for each slot, the copy that covers more wins. It remembers the slots'
// contents and continues the groups of this boot. Its error is the disk's.
func (r *Recorder) reconcile(now time.Time) error {
	var live [record.Slots]*diag.RecordEntry
	wrote := false
	for _, file := range [...]struct {
		name string
		held []held
	}{{record.FileRecord, r.ring[:]}, {record.FilePinned, r.pins[:]}} {
		for slot := range file.held {
			e, fromDisk, err := r.agree(file.name, slot)
			if err != nil {
				return err
			}
			wrote = wrote || !fromDisk
			if e == nil {
				continue
			}
			file.held[slot] = holds(e)
			r.seq = max(r.seq, e.Seq)
			if e.Pin == "" && e.Count > 0 {
				r.seq = max(r.seq, e.Seq+1)
			}
			r.occurred(e)
			if e.Pin == "" && e.BootID == r.cfg.Boot && time.Duration(r.cfg.Mono()-e.MonoNS) <= quiet {
				live[slot] = e
			}
		}
	}
	if wrote && r.disk.usable() {
		if err := errors.Join(r.disk.record.Sync(), r.disk.pinned.Sync()); err != nil {
			return err
		}
	}
	if len(r.groups.list) == 0 {
		r.groups.restore(live[:], record.SlotOf(r.seq+1), r.cfg.Mono(), now, r.disk.usable())
	}
	return nil
}

// agree overwrites the worse of a slot's two copies with the better one, and reports whether that was the disk's;
// nil if neither has an entry.
func (r *Recorder) agree(file string, slot int) (e *diag.RecordEntry, fromDisk bool, err error) {
	d, m := r.disk.get(file, slot), r.mirror.get(file, slot)
	switch {
	case m != nil && (d == nil || holds(d).olderThan(holds(m))):
		if r.disk.usable() {
			_, err = r.disk.named(file).WriteAt(r.text(file, slot, m), int64(slot)*record.Size)
		}
		return m, false, err
	case d != nil && r.mirror.usable() && (m == nil || holds(m).olderThan(holds(d))):
		_ = r.mirror.put(file, slot, r.text(file, slot, d)) // the disk has it
	}
	return d, true, nil
}

// wordOf classifies an error of the disk.
func (r *Recorder) wordOf(err error) diag.Failure {
	w := word(err)
	if w == diag.DiskFull {
		if left, errInodes := r.cfg.FS.FreeInodes(r.cfg.Dir); errInodes == nil && left == 0 {
			return diag.DiskInodes
		}
	}
	return w
}

func word(err error) diag.Failure {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diag.DiskFull
	case errors.Is(err, syscall.EROFS):
		return diag.DiskReadOnly
	case errors.Is(err, fs.ErrPermission):
		return diag.NotPermitted
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errGone):
		return diag.FileMissing
	}
	return diag.FileUnreadable
}
