package record

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// holding returns a folder with the files of a record that hold these entries, pinned ones from the first slot on.
func holding(entries ...diag.RecordEntry) fstest.MapFS {
	ring, pins, pinned := make([]byte, Slots*Size), make([]byte, PinnedSlots*Size), 0
	for _, e := range entries {
		if e.Pin != "" {
			b := Encode(FilePinned, pinned, e)
			copy(pins[pinned*Size:], b[:])
			pinned++
			continue
		}
		b := Encode(FileRecord, SlotOf(e.Seq), e)
		copy(ring[SlotOf(e.Seq)*Size:], b[:])
	}
	return fstest.MapFS{FileRecord: {Data: ring}, FilePinned: {Data: pins}}
}

func second(s int) diag.Time { return diag.At(time.Date(2026, 5, 21, 10, 0, s, 0, time.UTC)) }

// entry returns an entry of node n.
func entry(boot string, seq uint64) diag.RecordEntry {
	return diag.RecordEntry{Seq: seq, BootID: boot, MonoNS: int64(seq), At: second(int(seq)), NodeID: "n", InstanceID: "m",
		Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse"}
}

// TestReadBothTakesCountsAndTheLastContact: if both copies hold an entry, the newer version is kept.
func TestReadBothTakesCountsAndTheLastContact(t *testing.T) {
	repeat := diag.RecordEntry{Seq: 7, BootID: "b", Reason: diag.RecAPIUnreachable, First: second(1), Last: second(2),
		Count: 2}
	contact := diag.RecordEntry{Seq: 3, BootID: "b", Reason: diag.RecProcessAlive, Pin: PinContact, First: second(0),
		Last: second(0), Count: 1}
	more, later := repeat, contact
	more.Count, more.Last = 9, second(30)
	later.Seq, later.First, later.Last = 8, second(40), second(50)
	for name, both := range map[string][2]fs.FS{
		"memory knows more": {holding(repeat, contact), holding(more, later)},
		"the disk does":     {holding(more, later), holding(repeat, contact)},
	} {
		f, err := ReadBoth(both[0], both[1])
		if err != nil || f.Source != SourceDisk || len(f.Entries) != 1 || f.Entries[0].Count != 9 ||
			!StoryOf(f).LastContact.Last.Equal(second(50).Time) {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
}

// TestReadBoth: which copy is shown if they differ.
func TestReadBoth(t *testing.T) {
	degraded := entry("b", 4)
	degraded.Reason, degraded.About, degraded.Decision, degraded.Detail = diag.RecRecordDegraded, AboutRecord,
		DecisionDegraded, "read-only file system"
	stranger, renamed := entry("x", 2), entry("b", 2)
	stranger.InstanceID, renamed.NodeID = "another", "another"
	onDisk := holding(entry("a", 2), entry("b", 3))
	torn := holding(entry("a", 2), entry("b", 3))
	copy(torn[FileRecord].Data[3*Size+1000:], "x")
	cutOff := fstest.MapFS{FileRecord: {}, FilePinned: {Data: make([]byte, PinnedSlots*Size)}}
	none := fstest.MapFS{}
	for name, tc := range map[string]struct {
		disk, memory fs.FS
		source, seqs string
		degraded     string // the expected reason
		damaged      int
	}{
		"the disk takes nothing any more": {onDisk, holding(entry("a", 2), entry("b", 3), degraded, entry("b", 5)),
			SourceDisk, "2 3 4 5", "read-only", 0},
		"a slot of the disk is damaged": {torn, onDisk, SourceDisk, "2 3", "", 1},
		"memory ended": {holding(entry("a", 2), entry("b", 3), entry("b", 4)), onDisk, SourceDisk,
			"2 3 4", "", 0},
		"a creation was cut off": {cutOff, holding(entry("b", 1), entry("b", 2)), SourceMirror, "1 2",
			"holds no entry", 0},
		"the disk took nothing since the boot": {holding(entry("a", 8), entry("a", 9)), holding(entry("b", 1), degraded),
			SourceMirror, "1 4", "not the one that is written now: read-only", 0},
		"another copy of this boot, and older": {holding(entry("b", 9)), holding(entry("b", 5)), SourceDisk, "9", "", 0},
		"the disk is another machine's":        {holding(stranger), onDisk, SourceDisk, "2", "", 0},
		"memory is of another node of its":     {holding(entry("a", 9)), holding(renamed), SourceDisk, "9", "", 0},
		"no copy":                              {onDisk, none, SourceDisk, "2 3", "", 0},
		"a copy that holds nothing":            {onDisk, holding(), SourceDisk, "2 3", "", 0},
		"no disk":                              {none, onDisk, SourceMirror, "2 3", "is missing", 0},
		"no disk, and damage in memory":        {none, torn, SourceMirror, "2", "is missing", 1},
		"no disk, and half of memory": {none, fstest.MapFS{FileRecord: onDisk[FileRecord]}, SourceMirror, "2 3",
			"of the copy in memory its file pinned is missing", 0},
		"half a disk": {fstest.MapFS{FileRecord: onDisk[FileRecord]}, onDisk, SourceDisk, "2 3",
			"its file pinned is missing", 0},
		"neither holds anything, yet both exist": {holding(), holding(), SourceDisk, "", "", 0},
	} {
		f, err := ReadBoth(tc.disk, tc.memory)
		var seqs []string
		for _, e := range f.Entries {
			seqs = append(seqs, string(rune('0'+e.Seq)))
		}
		if err != nil || f.Source != tc.source || strings.Join(seqs, " ") != tc.seqs || len(f.Damaged) != tc.damaged ||
			f.Valid > f.Slots ||
			(f.Degraded == "") != (tc.degraded == "") || !strings.Contains(f.Degraded, tc.degraded) {
			t.Errorf("%s: %v, %s tells %v, degraded %q, %d damaged, %d of %d", name, err, f.Source, seqs, f.Degraded,
				len(f.Damaged), f.Valid, f.Slots)
		}
	}
	if f, err := ReadBoth(none, none); err == nil || f.Valid > 0 {
		t.Errorf("nothing to read: %v %+v", err, f)
	}
}
