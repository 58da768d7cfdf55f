package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// A journal is a file of fixed length, created full of zeros, so that a full disk cannot stop it. Entries are written
// one after the other. Each is a line of text that is padded to whole blocks, so that grep and less can read it, and so
// that the entry after a torn one can be found:
//
//	gpuaas-drill 1 blocks=2 crc32c=1a2b3c4d {"seq":7,…}
//
// The checksum covers the whole entry except its own eight digits.
const (
	BlockSize   = 512 // the smallest unit that a disk writes atomically
	JournalSize = 1 << 20

	journalMagic = "gpuaas-drill 1 blocks="
	journalSum   = " crc32c="
)

// EncodeEntry returns e in the format of the journal.
func EncodeEntry(e Entry) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic("an entry is plain data: " + err.Error())
	}
	for blocks := 1; ; blocks++ {
		head := journalMagic + strconv.Itoa(blocks) + journalSum
		if need := len(head) + 8 + 1 + len(text) + 1; need > blocks*BlockSize {
			blocks = max(blocks, need/BlockSize-1)
			continue
		}
		b := bytes.Repeat([]byte{' '}, blocks*BlockSize)
		copy(b, head)
		copy(b[len(head)+9:], text)
		b[len(b)-1] = '\n'
		copy(b[len(head):], fmt.Sprintf("%08x", sumOf(b, len(head))))
		return b
	}
}

// sumOf returns the checksum of b without the eight bytes at skip.
func sumOf(b []byte, skip int) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(b[:skip], t), t, b[skip+8:])
}

// DecodeJournal reads entries in order. end is the offset of the next entry; torn counts non-empty blocks that are
// not a complete entry: a crash leaves them, and they are ignored. A lost entry affects no other one.
func DecodeJournal(b []byte) (entries []Entry, end, torn int) { return DecodeAfter(b, 0) }

// DecodeAfter reads the entries after number last (0: all) from the part of a journal that follows it.
func DecodeAfter(b []byte, last int) (entries []Entry, end, torn int) {
	for at := 0; at+BlockSize <= len(b); {
		e, n := decodeEntry(b[at:])
		switch {
		case e.Seq > last:
			entries, at, last = append(entries, e), at+n, e.Seq
			end = at
			continue
		case !zeros(b[at : at+BlockSize]):
			torn++
		}
		at += BlockSize
	}
	return entries, end, torn
}

// decodeEntry decodes the entry at the start of b and returns its length; 0 if b does not start with one.
func decodeEntry(b []byte) (Entry, int) {
	rest, ok := bytes.CutPrefix(b, []byte(journalMagic))
	if !ok {
		return Entry{}, 0
	}
	digits, _, ok := bytes.Cut(rest[:min(len(rest), 16)], []byte(journalSum))
	blocks, _ := strconv.Atoi(string(digits)) // 0 if it is no number
	size := blocks * BlockSize
	if !ok || blocks < 1 || size > len(b) {
		return Entry{}, 0
	}
	b = b[:size]
	skip := len(journalMagic) + len(digits) + len(journalSum)
	if string(b[skip:skip+8]) != fmt.Sprintf("%08x", sumOf(b, skip)) || b[size-1] != '\n' {
		return Entry{}, 0
	}
	var e Entry
	if bounded.Strict(b[skip+8:], &e, bounded.Line()) != nil {
		return Entry{}, 0
	}
	return e, size
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// RedactEntries returns the entries without the drill's secret texts, as they may leave the machine.
func RedactEntries(entries []Entry) []Entry {
	all := slices.Clone(entries)
	for i, e := range all {
		if e.Event != EventDrill {
			continue
		}
		var d Drill
		if bounded.Unmarshal(e.Note, &d, bounded.Line()) == nil {
			all[i].Note = d.Redacted().Encode()
		}
	}
	return all
}
