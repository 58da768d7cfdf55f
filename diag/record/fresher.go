package record

import "github.com/gpuaas/gpuaasctl/diag"

// Fresher takes from memory, the copy of the same record there, what is not on the disk yet: of repeated decisions the
// newer count, and the last good contact. What memory has beside that is left alone: the disk has it, or it is another
// record.
func Fresher(disk, memory diag.RecordFacts) diag.RecordFacts {
	newer := func(list, from []diag.RecordEntry) {
		for i := range list {
			for j := range from {
				if sameEntry(&list[i], &from[j]) && from[j].Last.After(list[i].Last.Time) {
					list[i] = from[j]
				}
			}
		}
	}
	newer(disk.Entries, memory.Entries)
	newer(disk.Pinned, memory.Pinned)
	return disk
}

// sameEntry reports whether a and b stand for one decision, or both for the last contact of one boot.
func sameEntry(a, b *diag.RecordEntry) bool {
	if a.BootID != b.BootID || a.Pin != b.Pin || a.Reason != b.Reason {
		return false
	}
	return a.Pin == PinContact || a.Seq == b.Seq && a.First.Equal(b.First.Time)
}
