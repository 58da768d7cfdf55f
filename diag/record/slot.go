// Package record is the format of a node's diagnostic record, and its reader.
//
// The record is two files of 4096-byte slots that are made once and written in place ever after, so that a full disk
// cannot stop them. A slot is one line of text, padded with spaces, so that grep, strings and less read it:
//
//	gpuaas-record 1 slot=record/017 seq=273 boot=5f… mono=81… at=2026-11-21T06:20:00.000Z crc32c=1a2b3c4d {"reason":…}
//
// The sum is over the whole slot but its own eight digits. What it does not cover is reported and never trusted.
//
// This package writes nothing: agent/recorder does. The probe, the agent's `diag` and `gpuaasctl diag` read by it.
package record

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The layout, which never changes: a change would need another version.
const (
	Size        = 4096 // bytes per slot: a page, and a multiple of every disk's sector size
	Slots       = 256  // number of slots in the ring
	PinnedSlots = 64

	magic   = "gpuaas-record "
	version = "1"
	sector  = 512 // the smallest unit that a disk writes atomically
)

// The files of a record's folder.
const (
	FileRecord = "record"
	FilePinned = "pinned"
	DirReserve = "reserve" // files of zeros, deleted when a more important write needs the space
)

// Pins are the roles of pinned slots (RecordEntry.Pin).
const (
	PinFirst   = "first"   // first of its reason in the current episode
	PinLast    = "last"    // last of its reason
	PinContact = "contact" // the platform answered a heartbeat
	PinUpdate  = "update"  // the last update attempt
)

// DecisionContact marks the entry of the last good contact; it is pinned, and is not in the ring.
const DecisionContact = "contact"

// Verdict is what a slot holds. The zero value is an entry.
type Verdict string

// The verdicts.
const (
	Valid       Verdict = ""
	Empty       Verdict = "empty"        // nothing but zeros: never written, and not damaged
	EmptyHeader Verdict = "empty header" // its first sector is zeros, and another is not
	Torn        Verdict = "torn"         // parts of two writes, or a part of one
	Checksum    Verdict = "checksum"     // a complete line with a wrong checksum
	Format      Verdict = "format"       // not a slot of this version, or not of this position
)

// castagnoli is a function because package variables must not be writable by other code.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

const sumKey = " crc32c="

// body is an entry without the fields of the header.
type body struct {
	diag.RecordEntry
	Seq    *struct{} `json:"seq,omitempty"`
	BootID *struct{} `json:"boot_id,omitempty"`
	MonoNS *struct{} `json:"mono_ns,omitempty"`
	At     *struct{} `json:"at,omitempty"`
}

// Encode returns e as slot number slot of a file (FileRecord or FilePinned). It always fits: an entry that is too long
// is shortened, with a mark where text is missing.
func Encode(file string, slot int, e diag.RecordEntry) (b [Size]byte) {
	e = plain(e)
	head := header(file, slot, e)
	room := Size - len(head) - len("00000000 ") - 1
	line := append(append(b[:0], head...), "00000000 "...)
	line = append(line, fit(e, room)...)
	for i := len(line); i < Size-1; i++ {
		b[i] = ' '
	}
	b[Size-1] = '\n'
	copy(b[len(head):], hex8(sum(b[:], len(head))))
	return b
}

// header returns the line up to its checksum.
func header(file string, slot int, e diag.RecordEntry) string {
	number := strconv.Itoa(slot)
	return magic + version + " slot=" + file + "/" + strings.Repeat("0", max(0, 3-len(number))) + number +
		" seq=" + strconv.FormatUint(e.Seq, 10) + " boot=" + e.BootID + " mono=" + strconv.FormatInt(e.MonoNS, 10) +
		" at=" + e.At.UTC().Format(diag.TimeLayout) + sumKey
}

func hex8(v uint32) string {
	s := strconv.FormatUint(uint64(v), 16)
	return strings.Repeat("0", 8-len(s)) + s
}

// sum computes the checksum of b without the eight bytes at skip.
func sum(b []byte, skip int) uint32 {
	t := castagnoli()
	return crc32.Update(crc32.Checksum(b[:skip], t), t, b[skip+8:])
}

// Decode reads slot number slot of a file; an empty file name accepts a slot of either. It returns an entry only if
// every byte of the slot is as it was written.
func Decode(file string, slot int, b []byte) (diag.RecordEntry, Verdict) {
	var none diag.RecordEntry
	switch {
	case len(b) != Size:
		return none, Torn
	case zeros(b):
		return none, Empty
	case zeros(b[:sector]):
		return none, EmptyHeader
	case !bytes.HasPrefix(b, []byte(magic)):
		return none, Format
	case !bytes.HasPrefix(b[len(magic):], []byte(version+" ")):
		return none, Format
	}
	e, from, head, ok := parse(b)
	if i := bytes.Index(b, []byte(sumKey)); i < 0 || i+len(sumKey)+8 > Size ||
		hex8(sum(b, i+len(sumKey))) != string(b[i+len(sumKey):i+len(sumKey)+8]) {
		if ok && b[Size-1] == '\n' {
			return none, Checksum
		}
		return none, Torn
	}
	if !ok || (file != "" && from != file) || head != header(from, slot, e) || !belongs(from, slot, e) {
		return none, Format
	}
	return e, Valid
}

// belongs reports whether the entry belongs in this slot. A repeated entry is rewritten in two slots in turn: its own
// and the next.
func belongs(file string, slot int, e diag.RecordEntry) bool {
	switch file {
	case FileRecord:
		return e.Seq > 0 && (slot == SlotOf(e.Seq) || (e.Count > 0 && slot == SlotOf(e.Seq+1))) && e.Pin == ""
	case FilePinned:
		return e.Seq > 0 && slot >= 0 && slot < PinnedSlots && e.Pin != ""
	}
	return false
}

// SlotOf returns the slot of the ring for a sequence number.
func SlotOf(seq uint64) int { return int(seq % Slots) }

// parse splits a line into the entry, the file that it names, and its header, without checking the checksum.
func parse(b []byte) (e diag.RecordEntry, file, head string, ok bool) {
	i := bytes.Index(b, []byte(sumKey))
	if i < 0 || i+len(sumKey)+9 > len(b) {
		return e, "", "", false
	}
	head = string(b[:i+len(sumKey)])
	fields := strings.Split(head[:i], " ")
	if len(fields) != 7 {
		return e, "", "", false
	}
	value := func(n int, key string) string {
		v, found := strings.CutPrefix(fields[n], key+"=")
		if !found {
			fields = make([]string, 7) // nothing more is found
		}
		return v
	}
	where, seq, boot, mono, at := value(2, "slot"), value(3, "seq"), value(4, "boot"), value(5, "mono"), value(6, "at")
	file, _, _ = strings.Cut(where, "/")
	text := bytes.TrimRight(b[i+len(sumKey)+8:], " \n")
	if len(text) < 2 || text[0] != ' ' {
		return e, file, head, false
	}
	var in body
	if json.Unmarshal(text[1:], &in) != nil || in.Seq != nil || in.BootID != nil || in.MonoNS != nil || in.At != nil {
		return e, file, head, false
	}
	e = in.RecordEntry
	var errs [3]error
	e.Seq, errs[0] = strconv.ParseUint(seq, 10, 64)
	e.MonoNS, errs[1] = strconv.ParseInt(mono, 10, 64)
	var wall time.Time
	wall, errs[2] = time.Parse(diag.TimeLayout, at)
	e.BootID, e.At = boot, diag.At(wall)
	return e, file, head, errs == [3]error{}
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
