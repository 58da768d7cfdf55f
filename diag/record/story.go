package record

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Story sums up a record in three entries. An entry that the record lacks is nil.
type Story struct {
	// the first failure since the last good contact
	FirstCause   *diag.RecordEntry `json:"first_cause,omitempty"`
	LastContact  *diag.RecordEntry `json:"last_contact,omitempty"`  // the platform's last answer to a heartbeat
	LastDecision *diag.RecordEntry `json:"last_decision,omitempty"` // what the agent had decided to do when it last wrote
	LastUpdate   *diag.RecordEntry `json:"last_update,omitempty"`   // the last update attempt
}

// StoryOf finds the story in a record. The first cause may be older than the ring, so pinned entries count as well.
func StoryOf(f diag.RecordFacts) Story {
	var s Story
	all := slices.Concat(f.Pinned, f.Entries)
	for i := range all {
		e := &all[i]
		switch {
		case e.Pin == PinContact:
			s.LastContact = later(s.LastContact, e)
		case e.Pin == PinUpdate:
			s.LastUpdate = later(s.LastUpdate, e)
		default:
			s.LastDecision = later(s.LastDecision, e)
		}
	}
	for i := range all {
		if e := &all[i]; wrong(e) && (s.LastContact == nil || after(e, s.LastContact)) {
			if s.FirstCause == nil || e.Seq < s.FirstCause.Seq {
				s.FirstCause = e
			}
		}
	}
	return s
}

// wrong reports whether the entry is about a failure other than one of the record itself.
func wrong(e *diag.RecordEntry) bool {
	return (e.Failure != diag.OK || e.Attempt > 0 || e.Code != "") && e.Reason != diag.RecRecordDegraded
}

// later returns the entry that was written last.
func later(a, b *diag.RecordEntry) *diag.RecordEntry {
	if a == nil || after(b, a) {
		return b
	}
	return a
}

// after reports whether a was written after b: by the monotonic clock within one boot, else by sequence number.
func after(a, b *diag.RecordEntry) bool {
	if a.BootID == b.BootID && a.MonoNS != b.MonoNS {
		return a.MonoNS > b.MonoNS
	}
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Count, b.Count)) > 0
}
