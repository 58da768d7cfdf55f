package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func entry(seq, size int) Entry {
	n := 3
	return Entry{Seq: seq, At: time.Date(2026, 11, 21, 7, 0, seq, 0, time.UTC), Boot: "b", BootNS: 42, By: ByWatchdog,
		PID: 7, Event: EventChange, Step: "s", Change: &n, State: Done, Text: strings.Repeat("x", size),
		Note: json.RawMessage(`{"a":1}`)}
}

// journalOf is a small journal with entries of these sizes.
func journalOf(sizes ...int) []byte {
	b := make([]byte, 64*BlockSize)
	at := 0
	for i, s := range sizes {
		at += copy(b[at:], EncodeEntry(entry(i+1, s)))
	}
	return b
}

func TestJournalRoundTrip(t *testing.T) {
	sizes := []int{0, 1, 300, 511, 512, 5000, 3}
	got, end, torn := DecodeJournal(journalOf(sizes...))
	if len(got) != len(sizes) || torn != 0 || end%BlockSize != 0 {
		t.Fatalf("%d entries, %d torn, end %d", len(got), torn, end)
	}
	for i, s := range sizes {
		if want := entry(i+1, s); !reflect.DeepEqual(got[i], want) {
			t.Errorf("%+v\n%+v", got[i], want)
		}
	}
	if b := EncodeEntry(entry(1, 600)); len(b)%BlockSize != 0 || b[len(b)-1] != '\n' || bytes.Count(b, []byte("\n")) != 1 {
		t.Errorf("%d bytes, %d lines", len(b), bytes.Count(b, []byte("\n")))
	}
}

// TestJournalTorn cuts the last entry at every block: earlier entries stay, and the next one replaces it.
func TestJournalTorn(t *testing.T) {
	whole := journalOf(10, 3000)
	_, end, _ := DecodeJournal(whole)
	first := len(EncodeEntry(entry(1, 10)))
	for lost := first; lost < end; lost += BlockSize {
		b := bytes.Clone(whole)
		clear(b[lost : lost+BlockSize])
		got, at, _ := DecodeJournal(b)
		if len(got) != 1 || at != first {
			t.Fatalf("without block %d: %d entries, the next goes to %d", lost/BlockSize, len(got), at)
		}
		copy(b[at:], EncodeEntry(entry(2, 0)))
		if got, _, torn := DecodeJournal(b); len(got) != 2 || (torn == 0 && lost > first) {
			t.Fatalf("written over block %d: %d entries, %d torn", lost/BlockSize, len(got), torn)
		}
	}
}

// TestJournalFlipped flips every bit of a small journal: no entry is accepted that was not written.
func TestJournalFlipped(t *testing.T) {
	whole := journalOf(5, 5)
	_, end, _ := DecodeJournal(whole)
	for i := range end * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		got, _, torn := DecodeJournal(b)
		if len(got) == 2 || torn == 0 {
			t.Fatalf("bit %d: %d entries, %d torn", i, len(got), torn)
		}
	}
}

// TestJournalHole: a corrupt entry affects no other one, or an undo would be lost.
func TestJournalHole(t *testing.T) {
	b := journalOf(700, 700, 700)
	b[len(EncodeEntry(entry(1, 700)))+100] ^= 1
	got, end, torn := DecodeJournal(b)
	if len(got) != 2 || got[1].Seq != 3 || torn == 0 || end != 3*len(EncodeEntry(entry(1, 700))) {
		t.Fatalf("%d entries, %d torn, end %d", len(got), torn, end)
	}
}

// TestJournalSize: an entry has as many blocks as its text needs, and no more, around every bound of a block.
func TestJournalSize(t *testing.T) {
	for size := range 2 * BlockSize {
		b := EncodeEntry(entry(1, size))
		used := len(bytes.TrimRight(b[:len(b)-1], " ")) + 1
		if len(b)-used >= BlockSize {
			t.Fatalf("%d bytes are in %d", used, len(b))
		}
		got, end, torn := DecodeJournal(b) // the last block of a file is read as well
		if len(got) != 1 || end != len(b) || torn != 0 {
			t.Fatalf("%d bytes: %d entries, end %d of %d, torn %d", size, len(got), end, len(b), torn)
		}
	}
}

// TestJournalOrder: an entry that was read before is not read again.
func TestJournalOrder(t *testing.T) {
	var b []byte
	for _, seq := range []int{4, 4, 3, 6} {
		b = append(b, EncodeEntry(entry(seq, 0))...)
	}
	for last, want := range map[int][]int{0: {4, 6}, 3: {4, 6}, 4: {6}, 5: {6}, 6: nil} {
		var seqs []int
		got, _, torn := DecodeAfter(b, last)
		for _, e := range got {
			seqs = append(seqs, e.Seq)
		}
		if !slices.Equal(seqs, want) || torn != 4-len(want) {
			t.Errorf("after %d: %v, %d torn", last, seqs, torn)
		}
	}
}

// TestJournalForged: blocks whose checksum is right, but which EncodeEntry does not write, are no entries.
func TestJournalForged(t *testing.T) {
	forge := func(head, text string, last byte) []byte {
		b := bytes.Repeat([]byte{' '}, BlockSize)
		copy(b, head)
		copy(b[len(head)+9:], text)
		b[BlockSize-1] = last
		copy(b[len(head):], fmt.Sprintf("%08x", sumOf(b, len(head))))
		return b
	}
	for name, tc := range map[string]struct {
		b    []byte
		want int
	}{
		"as it is written":   {forge(journalMagic+"1"+journalSum, `{"seq":1}`, '\n'), 1},
		"another program":    {forge("gpuaas-drill 2 blocks=1"+journalSum, `{"seq":1}`, '\n'), 0},
		"no line":            {forge(journalMagic+"1"+journalSum, `{"seq":1}`, ' '), 0},
		"no JSON":            {forge(journalMagic+"1"+journalSum, `{"seq":1`, '\n'), 0},
		"a field more":       {forge(journalMagic+"1"+journalSum, `{"seq":1,"undo":7}`, '\n'), 0},
		"no number":          {forge(journalMagic+"x"+journalSum, `{"seq":1}`, '\n'), 0},
		"no blocks":          {forge(journalMagic+"0"+journalSum, `{"seq":1}`, '\n'), 0},
		"less than none":     {forge(journalMagic+"-1"+journalSum, `{"seq":1}`, '\n'), 0},
		"more than is left":  {slices.Clip(forge(journalMagic+"2"+journalSum, `{"seq":1}`, '\n')), 0},
		"no name of the sum": {forge(journalMagic+"0000000000000001"+"=======:", `{"seq":1}`, '\n'), 0},
		"a long number":      {forge(journalMagic+strings.Repeat("0", 30)+"1"+journalSum, `{"seq":1}`, '\n'), 0},
	} {
		if got, _, torn := DecodeJournal(tc.b); len(got) != tc.want || torn != 1-tc.want {
			t.Errorf("%s: %d entries, %d torn", name, len(got), torn)
		}
	}
}

func FuzzDecodeJournal(f *testing.F) {
	f.Add(journalOf(1, 600, 3))
	f.Add([]byte(journalMagic + "1" + journalSum + "00000000 {}"))
	f.Add([]byte(journalMagic + "99999999999999999999" + journalSum))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, end, torn := DecodeJournal(b)
		if end > len(b) || end%BlockSize != 0 || torn < 0 {
			t.Fatalf("end %d of %d, torn %d", end, len(b), torn)
		}
		last := 0
		for _, e := range entries {
			if e.Seq <= last {
				t.Fatalf("number %d follows %d", e.Seq, last)
			}
			last = e.Seq
		}
		Read(entries).Status() // any content has a valid fold
	})
}
