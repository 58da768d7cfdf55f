package diag

import (
	"cmp"
	"slices"
)

// RecordEntry is one slot of a node's diagnostic record: a decision that the agent wrote down and synced before it
// acted upon it. Package diag/record has the format; package agent decides what is written.
type RecordEntry struct {
	Seq    uint64 `json:"seq"`
	BootID string `json:"boot_id"`
	MonoNS int64  `json:"mono_ns"` // CLOCK_BOOTTIME of that boot when it was written
	At     Time   `json:"at"`      // the node's wall clock then, which may have been wrong

	Reason        RecordReason `json:"reason"`
	About         string       `json:"about"`    // heartbeat | task_wait | task_result | task | identity | update | boot | record | agent
	Decision      string       `json:"decision"` // start | enroll | enrolled | retry | suppress | stop | quarantine | refuse | drop | report | update | ...
	Attempt       int          `json:"attempt,omitempty"`
	DelayMS       int64        `json:"delay_ms,omitempty"`
	CeilingMS     int64        `json:"ceiling_ms,omitempty"`
	Failure       Failure      `json:"failure,omitempty"`
	Status        int          `json:"status,omitempty"` // HTTP status
	Code          string       `json:"code,omitempty"`   // error.code of the platform, or of a task
	Detail        string       `json:"detail,omitempty"` // scrubbed, cut to fit a slot
	CorrelationID string       `json:"correlation_id,omitempty"`
	TaskID        string       `json:"task_id,omitempty"`

	NodeID     string            `json:"node_id,omitempty"`
	InstanceID string            `json:"node_instance_id,omitempty"`
	Agent      string            `json:"agent,omitempty"`      // version
	Generation int64             `json:"generation,omitempty"` // of the node's certificate
	Facts      map[string]string `json:"facts,omitempty"`      // further evidence of this decision: digests, fingerprints, endpoints, dates

	// Count, First and Last tell of identical decisions that one slot stands for; absent where there was one.
	Count int64 `json:"count,omitempty"`
	First Time  `json:"first,omitzero"`
	Last  Time  `json:"last,omitzero"`

	Pin string `json:"pin,omitempty"` // of a pinned slot: first | last (of its reason) | contact | update
}

// RecordFacts is what was read of a diagnostic record.
type RecordFacts struct {
	Source   string        `json:"source"`             // disk | mirror
	Path     string        `json:"path"`               // of the folder that was read
	Slots    int           `json:"slots"`              // of both rings
	Valid    int           `json:"valid"`              // slots that hold an entry
	Damaged  []DamagedSlot `json:"damaged,omitempty"`  // reported, never trusted
	Degraded string        `json:"degraded,omitempty"` // why the record cannot keep its promise, "" when it can
	Promise  string        `json:"promise,omitempty"`  // what this file system cannot promise, e.g. copy-on-write
	Newest   uint64        `json:"newest_seq,omitempty"`
	Missing  int           `json:"missing,omitempty"` // sequence numbers of the ring's last round that no slot holds
	Entries  []RecordEntry `json:"entries,omitempty"` // the newest Request.Limit ones, oldest first
	Pinned   []RecordEntry `json:"pinned,omitempty"`  // first and last per reason, last good contact, last update attempt
}

// InTime merges both rings, each entry once, as it was last told, in the order in which they were last written: by boot,
// and within a boot by its monotonic clock, since a slot that stands for many identical decisions keeps the number of the
// first. A contact has the number of the entry that it follows, and is another one.
func (f *RecordFacts) InTime() []RecordEntry {
	if f == nil {
		return nil
	}
	all := slices.Concat(f.Entries, f.Pinned)
	slices.SortFunc(all, func(a, b RecordEntry) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.BootID, b.BootID), cmp.Compare(a.Decision, b.Decision),
			cmp.Compare(b.MonoNS, a.MonoNS), cmp.Compare(b.Count, a.Count))
	})
	all = slices.CompactFunc(all, func(a, b RecordEntry) bool {
		return a.Seq == b.Seq && a.BootID == b.BootID && a.Decision == b.Decision
	})
	var boots []string
	for i := range all {
		if !slices.Contains(boots, all[i].BootID) {
			boots = append(boots, all[i].BootID)
		}
	}
	slices.SortStableFunc(all, func(a, b RecordEntry) int {
		return cmp.Or(slices.Index(boots, a.BootID)-slices.Index(boots, b.BootID), cmp.Compare(a.MonoNS, b.MonoNS))
	})
	return all
}

// DamagedSlot is a slot whose text does not hold.
type DamagedSlot struct {
	File string `json:"file"` // record | pinned
	Slot int    `json:"slot"`
	Why  string `json:"why"` // torn | checksum | format | empty header; ", in memory" behind it where the disk is told by its copy
}

// JournalFacts is what a unit said.
type JournalFacts struct {
	Unit      string        `json:"unit"`
	Lines     []JournalLine `json:"lines,omitempty"`     // oldest first
	Truncated bool          `json:"truncated,omitempty"` // there was more: the oldest lines, or ends of long ones, are left out
	// Redacted counts what each rule of redaction took out of the lines.
	Redacted map[string]int `json:"redacted,omitempty"`
}

// JournalLine is one line of a journal or log file, scrubbed.
type JournalLine struct {
	At       Time   `json:"at"`
	Boot     string `json:"boot_id,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Text     string `json:"text"`
}
