package record

import (
	"io/fs"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ReadBoth reads a record from two folders: the disk, and the copy in memory, to which each entry is written first. The
// result merges both: memory supplies entries that the disk refused, has not received yet, or holds damaged. If the
// disk accepts no new entries, and so has none or only those of an earlier boot, the result is memory alone and
// Degraded has the reason. A copy of another node's record is ignored. ReadBoth sets Source; the caller sets Path
// accordingly.
func ReadBoth(disk, memory fs.FS) (diag.RecordFacts, error) {
	d, err := folder(disk)
	m, errMemory := folder(memory)
	last, lastInMemory := d.newest(), m.newest()
	why := "" // memory alone is shown
	switch {
	case err != nil && errMemory != nil:
	case err != nil:
		why = err.Error()
	case lastInMemory == nil:
	case last == nil:
		why = "the record on the disk holds no entry"
	case d.shares(&m):
		d.ring, d.pinned = append(d.ring, m.ring...), append(d.pinned, m.pinned...)
		d.slots, d.valid = max(d.slots, m.slots), max(d.valid, m.valid)
	case last.NodeID == lastInMemory.NodeID && last.InstanceID == lastInMemory.InstanceID &&
		(last.BootID != lastInMemory.BootID || last.MonoNS < lastInMemory.MonoNS): // memory is of this boot
		why = "the record on the disk is not the one that is written now"
	}
	source := SourceDisk
	if why != "" {
		m.inMemory()
		m.damaged, m.lacks = append(d.damaged, m.damaged...), why+m.lacks
		d, source, err = m, SourceMirror, nil
	}
	f := d.facts()
	f.Source = source
	return f, err
}

// inMemory marks the damage of a reading as damage of the copy in memory.
func (r *reading) inMemory() {
	for i := range r.damaged {
		r.damaged[i].Why += ", in memory"
	}
	if r.lacks != "" {
		r.lacks = "; of the copy in memory " + r.lacks
	}
}

// newest returns the entry with the highest number, nil for an empty record.
func (r *reading) newest() *diag.RecordEntry {
	var last *diag.RecordEntry
	for _, list := range [...][]*diag.RecordEntry{r.pinned, r.ring} {
		for _, e := range list {
			if last == nil || e.Seq >= last.Seq {
				last = e
			}
		}
	}
	return last
}

// shares reports whether both readings are of one record: they have an entry in common.
func (r *reading) shares(with *reading) bool {
	theirs := slices.Concat(with.pinned, with.ring)
	for _, x := range slices.Concat(r.pinned, r.ring) {
		for _, y := range theirs {
			if x.Seq == y.Seq && x.BootID == y.BootID && x.Reason == y.Reason && x.First.Equal(y.First.Time) {
				return true
			}
		}
	}
	return false
}
