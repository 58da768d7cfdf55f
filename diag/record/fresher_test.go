package record

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestFresherTakesCountsAndTheLastContact(t *testing.T) {
	at := func(s int) diag.Time { return diag.At(time.Date(2026, 5, 21, 10, 0, s, 0, time.UTC)) }
	repeat := diag.RecordEntry{Seq: 7, BootID: "b", Reason: diag.RecAPIUnreachable, First: at(1), Last: at(2), Count: 2}
	contact := diag.RecordEntry{Seq: 3, BootID: "b", Reason: diag.RecProcessAlive, Pin: PinContact, First: at(0), Last: at(0), Count: 1}
	more, later := repeat, contact
	more.Count, more.Last = 9, at(30)
	later.Seq, later.First, later.Last = 8, at(40), at(50)
	stranger := more
	stranger.BootID = "another"

	got := Fresher(diag.RecordFacts{Entries: []diag.RecordEntry{repeat}, Pinned: []diag.RecordEntry{contact}},
		diag.RecordFacts{Entries: []diag.RecordEntry{more}, Pinned: []diag.RecordEntry{later}})
	if got.Entries[0].Count != 9 || !got.Pinned[0].Last.Equal(at(50).Time) {
		t.Errorf("memory knows more, and got %+v", got)
	}
	got = Fresher(diag.RecordFacts{Entries: []diag.RecordEntry{repeat}}, diag.RecordFacts{Entries: []diag.RecordEntry{stranger}})
	if got.Entries[0].Count != 2 {
		t.Errorf("another boot's entry was taken: %+v", got.Entries[0])
	}
	older := repeat
	older.Count, older.Last = 1, at(1)
	got = Fresher(diag.RecordFacts{Entries: []diag.RecordEntry{repeat}}, diag.RecordFacts{Entries: []diag.RecordEntry{older}})
	if got.Entries[0].Count != 2 {
		t.Errorf("an older count was taken: %+v", got.Entries[0])
	}
}
