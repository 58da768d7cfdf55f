package record

import (
	"io/fs"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ReadBoth is Read of a record in two folders: on the disk, and its copy in memory, which is given everything first. Of
// one record both are shown together: what the disk did not take, is behind with or holds damaged, memory has. Where
// the disk holds no entry, or only what an earlier boot left because it takes none of this one's, memory alone is
// shown, and Degraded reports why. A copy of another node's record counts for nothing. Source is filled in, and says
// whose Path is the caller's to fill in.
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

// inMemory marks what is wrong with a reading as being of the copy in memory.
func (r *reading) inMemory() {
	for i := range r.damaged {
		r.damaged[i].Why += ", in memory"
	}
	if r.lacks != "" {
		r.lacks = "; of the copy in memory " + r.lacks
	}
}

// newest is the entry with the highest number; nil when there is none.
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

// shares reports whether both are of one record: they have an entry in common.
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
