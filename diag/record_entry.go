package diag

import (
	"cmp"
	"slices"
	"strings"
)

// RecordEntry is one slot of a node's diagnostic record: a decision that the agent wrote and synced before it acted on
// it. Package diag/record has the format; package agent decides what is written.
type RecordEntry struct {
	Seq    uint64 `json:"seq"`
	BootID string `json:"boot_id"`
	MonoNS int64  `json:"mono_ns"` // CLOCK_BOOTTIME when the entry was written
	At     Time   `json:"at"`      // the node's wall clock at that time, which may have been wrong

	Reason RecordReason `json:"reason"`
	// heartbeat | task_wait | task_result | task | identity | update | boot | record | agent
	About string `json:"about"`
	// start | enroll | enrolled | retry | suppress | stop | quarantine | refuse | drop | report | update | ...
	Decision      string  `json:"decision"`
	Attempt       int     `json:"attempt,omitempty"`
	DelayMS       int64   `json:"delay_ms,omitempty"`
	CeilingMS     int64   `json:"ceiling_ms,omitempty"`
	Failure       Failure `json:"failure,omitempty"`
	Status        int     `json:"status,omitempty"` // HTTP status
	Code          string  `json:"code,omitempty"`   // error.code of the platform's answer, or of a task
	Detail        string  `json:"detail,omitempty"` // scrubbed, shortened to fit a slot
	CorrelationID string  `json:"correlation_id,omitempty"`
	TaskID        string  `json:"task_id,omitempty"`

	NodeID     string `json:"node_id,omitempty"`
	InstanceID string `json:"node_instance_id,omitempty"`
	Agent      string `json:"agent,omitempty"`      // version
	Generation int64  `json:"generation,omitempty"` // of the node's certificate
	// further evidence for the decision: digests, fingerprints, endpoints, dates
	Facts map[string]string `json:"facts,omitempty"`

	// Count, First and Last describe identical decisions kept in one slot; absent if there was only one.
	Count int64 `json:"count,omitempty"`
	First Time  `json:"first,omitzero"`
	Last  Time  `json:"last,omitzero"`

	Pin string `json:"pin,omitempty"` // of a pinned slot: first | last (of its reason) | contact | update
}

// RecordFacts is the content of a diagnostic record.
type RecordFacts struct {
	Source   string        `json:"source"`             // disk | mirror
	Path     string        `json:"path"`               // folder that was read
	Slots    int           `json:"slots"`              // of both rings
	Valid    int           `json:"valid"`              // slots that hold an entry
	Damaged  []DamagedSlot `json:"damaged,omitempty"`  // reported, never trusted
	Degraded string        `json:"degraded,omitempty"` // why the record cannot be kept as designed; "" if it can
	// guarantee that its file system does not give, e.g. because it is copy-on-write
	Promise string        `json:"promise,omitempty"`
	Newest  uint64        `json:"newest_seq,omitempty"`
	Missing int           `json:"missing,omitempty"` // sequence numbers of the ring's last round that are in no slot
	Entries []RecordEntry `json:"entries,omitempty"` // the newest Request.Limit ones, oldest first
	Pinned  []RecordEntry `json:"pinned,omitempty"`  // first and last per reason, last good contact, last update attempt
}

// InTime merges both rings, each entry once in its newest version, in the order in which they were last written: by
// boot, and within a boot by its monotonic clock, since a slot that counts identical decisions keeps the number of the
// first. A contact entry has the number of the entry that it follows, but is a separate entry. The entries are shared
// with the record and must not be modified.
func (f *RecordFacts) InTime() []*RecordEntry {
	if f == nil {
		return nil
	}
	all := merged(f.Entries, f.Pinned)
	all = slices.CompactFunc(all, func(a, b *RecordEntry) bool {
		return a.Seq == b.Seq && a.BootID == b.BootID && a.Decision == b.Decision
	})
	var boots []string
	inTime := true // as most records are
	for i, e := range all {
		switch {
		case i > 0 && e.BootID == all[i-1].BootID:
			inTime = inTime && all[i-1].MonoNS <= e.MonoNS
		case slices.Contains(boots, e.BootID):
			inTime = false
		default:
			boots = append(boots, e.BootID)
		}
	}
	if inTime {
		return all
	}
	slices.SortStableFunc(all, func(a, b *RecordEntry) int {
		if a.BootID != b.BootID {
			return slices.Index(boots, a.BootID) - slices.Index(boots, b.BootID)
		}
		return cmp.Compare(a.MonoNS, b.MonoNS)
	})
	return all
}

// merged returns the entries of both rings by number, the newest version of each first.
func merged(a, b []RecordEntry) []*RecordEntry {
	all := make([]*RecordEntry, 0, len(a)+len(b))
	for i, k := 0, 0; i+k < cap(all); {
		if k == len(b) || (i < len(a) && byNumber(&a[i], &b[k]) <= 0) {
			all = append(all, &a[i])
			i++
		} else {
			all = append(all, &b[k])
			k++
		}
	}
	if slices.IsSortedFunc(all, byNumber) {
		return all
	}
	all = all[:0]
	for _, ring := range [...][]RecordEntry{a, b} {
		for i := range ring {
			all = append(all, &ring[i])
		}
	}
	slices.SortStableFunc(all, byNumber)
	return all
}

func byNumber(a, b *RecordEntry) int {
	if a.Seq != b.Seq { // most often
		return cmp.Compare(a.Seq, b.Seq)
	}
	return cmp.Or(strings.Compare(a.BootID, b.BootID), strings.Compare(a.Decision, b.Decision),
		cmp.Compare(b.MonoNS, a.MonoNS), cmp.Compare(b.Count, a.Count))
}

// DamagedSlot is a slot whose content is invalid.
type DamagedSlot struct {
	File string `json:"file"` // record | pinned
	Slot int    `json:"slot"`
	// torn | checksum | format | empty header; with the suffix ", in memory" if the copy in memory was read
	Why string `json:"why"`
}

// JournalFacts is the part of the journal about one unit.
type JournalFacts struct {
	Unit  string        `json:"unit"`
	Lines []JournalLine `json:"lines,omitempty"` // oldest first
	// the oldest lines, or the ends of long lines, are left out
	Truncated bool `json:"truncated,omitempty"`
	Foreign   int  `json:"foreign,omitempty"` // number of omitted lines that another process wrote in the unit's name
	// Redacted counts the redactions in the lines, by rule.
	Redacted map[string]int `json:"redacted,omitempty"`
}

// JournalLine is one line of a journal or log file, scrubbed.
type JournalLine struct {
	At       Time   `json:"at"`
	Boot     string `json:"boot_id,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Text     string `json:"text"`
}

// RecordReason is why the agent made a decision that it recorded: low cardinality, readable without the platform. The
// zero value means that nothing was wrong.
type RecordReason string

// The closed list of record reasons. Rows are only added; names never change.
const (
	RecProcessAlive              RecordReason = "process_alive"
	RecServerTLSUntrusted        RecordReason = "server_tls_untrusted"
	RecEndpointProfileDrift      RecordReason = "endpoint_profile_drift"
	RecRecoveryEnrollmentBlocked RecordReason = "recovery_enrollment_blocked"
	RecIdentityRevoked           RecordReason = "identity_revoked"
	// refused without an error code, e.g. by an ingress with 400
	RecIdentityRejected RecordReason = "identity_rejected"
	RecEdgeRateLimited  RecordReason = "edge_rate_limited"
	RecTaskPollFailed   RecordReason = "task_poll_failed"

	RecAPIUnreachable       RecordReason = "api_unreachable"
	RecDNSFailed            RecordReason = "dns_failed"
	RecCertExpired          RecordReason = "cert_expired"
	RecCertNotYetValid      RecordReason = "cert_not_yet_valid"
	RecCertKeyMismatch      RecordReason = "cert_key_mismatch"
	RecCertMissing          RecordReason = "cert_missing"
	RecRecoveryTokenMissing RecordReason = "recovery_token_missing"
	RecRecoveryTokenExpired RecordReason = "recovery_token_expired"
	RecRecoveryEnrolled     RecordReason = "recovery_enrolled"
	RecRecoverySuppressed   RecordReason = "recovery_suppressed"
	// the certificate is in the last third of its life; facts have what is done about it
	RecCertExpiring         RecordReason = "cert_expiring"
	RecRecoveryTokenRotated RecordReason = "recovery_token_rotated"  // by a task
	RecRecoveryBundle       RecordReason = "recovery_bundle_applied" // by an operator
	RecNodeCordoned         RecordReason = "node_cordoned"           // or uncordoned, by a task

	RecTaskResultPostFailed RecordReason = "task_result_post_failed"
	RecTaskClaimFailed      RecordReason = "task_claim_failed"
	RecTerminalStreamFailed RecordReason = "terminal_stream_failed"
	RecTerminalPTYFailed    RecordReason = "terminal_pty_failed"

	RecDiskFull            RecordReason = "disk_full"
	RecClockSkew           RecordReason = "clock_skew"
	RecClonedIdentity      RecordReason = "cloned_identity_detected"
	RecSelfUpdateStarted   RecordReason = "self_update_started"
	RecSelfUpdateCommitted RecordReason = "self_update_committed"
	RecSelfUpdateReverted  RecordReason = "self_update_reverted"
	RecBootRecovery        RecordReason = "boot_recovery"
	RecRecordDegraded      RecordReason = "record_degraded"
	RecShutdown            RecordReason = "shutdown"
)

// RecordReasons lists every reason once, in the order of the catalogue.
var RecordReasons = [...]RecordReason{
	RecProcessAlive, RecServerTLSUntrusted, RecEndpointProfileDrift, RecRecoveryEnrollmentBlocked, RecIdentityRevoked,
	RecIdentityRejected, RecEdgeRateLimited, RecTaskPollFailed,
	RecAPIUnreachable, RecDNSFailed, RecCertExpired, RecCertNotYetValid, RecCertKeyMismatch, RecCertMissing,
	RecRecoveryTokenMissing, RecRecoveryTokenExpired, RecRecoveryEnrolled, RecRecoverySuppressed,
	RecCertExpiring, RecRecoveryTokenRotated, RecRecoveryBundle, RecNodeCordoned,
	RecTaskResultPostFailed, RecTaskClaimFailed, RecTerminalStreamFailed, RecTerminalPTYFailed,
	RecDiskFull, RecClockSkew, RecClonedIdentity, RecSelfUpdateStarted, RecSelfUpdateCommitted, RecSelfUpdateReverted,
	RecBootRecovery, RecRecordDegraded, RecShutdown,
}
