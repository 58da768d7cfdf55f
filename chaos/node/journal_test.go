//go:build linux

package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// failing is a journal's file of which one operation fails.
type failing struct {
	disk
	read, write, sync error
	reads             int
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	if f.read != nil {
		return 0, f.read
	}
	return copy(p, f.cache[off:]), nil
}

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.write != nil {
		return 0, f.write
	}
	return copy(f.cache[off:], p), nil
}

func (f *failing) Sync() error { return f.sync }

// TestJournalErrors: an entry that may not be on the disk does not count, and the next one takes its place.
func TestJournalErrors(t *testing.T) {
	no := errors.New("no")
	f := &failing{disk: disk{cache: make([]byte, 16<<10)}}
	j, err := OpenJournal(f, 16<<10)
	fine(t, err, j.Append(step.Entry{Event: step.EventGuard}))
	f.write = no
	if err := j.Append(step.Entry{Event: step.EventGuard}); !errors.Is(err, no) || j.Ledger.Guards != 1 {
		t.Errorf("not written: %v, %d entries", err, j.Ledger.Guards)
	}
	f.write, f.sync = nil, no
	if err := j.Append(step.Entry{Event: step.EventGuard}); !errors.Is(err, no) || j.Ledger.Guards != 1 {
		t.Errorf("not synced: %v, %d entries", err, j.Ledger.Guards)
	}
	f.sync = nil
	fine(t, j.Append(step.Entry{Event: step.EventArmed}))
	if got, err := OpenJournal(f, 16<<10); err != nil || got.Ledger.Guards != 1 || !got.Ledger.Armed ||
		got.Ledger.Last != 2 {
		t.Errorf("%+v, %v", got.Ledger, err)
	}
	f.read = no
	if err := j.Refresh(); !errors.Is(err, no) || !j.Stale() {
		t.Errorf("not read: %v, news %v", err, j.Stale())
	}
	if _, err := OpenJournal(f, 16<<10); !errors.Is(err, no) {
		t.Errorf("not read: %v", err)
	}
}

// TestJournalNews: what another process wrote is seen, with one read if there is none.
func TestJournalNews(t *testing.T) {
	f := &failing{disk: disk{cache: make([]byte, 4*step.BlockSize)}}
	mine, err := OpenJournal(f, 4*step.BlockSize)
	fine(t, err)
	theirs, err := OpenJournal(f, 4*step.BlockSize)
	fine(t, err)
	if mine.Stale() {
		t.Error("news in an empty journal")
	}
	fine(t, theirs.Append(step.Entry{Event: step.EventGuard}))
	if !mine.Stale() || theirs.Stale() {
		t.Error("no news of the other one's entry, or news of the own one")
	}
	fine(t, mine.Refresh())
	if mine.Ledger.Guards != 1 || len(mine.Entries) != 1 || mine.Stale() {
		t.Errorf("%+v", mine.Ledger)
	}
	f.reads = 0
	if fine(t, mine.Refresh()); f.reads != 1 {
		t.Errorf("%d reads of nothing new", f.reads)
	}
	// A lost first block does not hide the entries after it.
	fine(t, theirs.Append(step.Entry{Event: step.EventGuard}))
	clear(f.cache[:step.BlockSize])
	if again, err := OpenJournal(f, 4*step.BlockSize); err != nil || again.Ledger.Last != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	theirs.Ledger.Why = step.WhyTTL // so that it may use the last block
	fine(t, mine.Refresh(), theirs.Append(step.Entry{Event: step.EventGuard}), mine.Refresh(),
		theirs.Append(step.Entry{Event: step.EventGuard}), mine.Refresh())
	if mine.Ledger.Guards != 4 {
		t.Errorf("the entry in the last block is not seen: %d entries", mine.Ledger.Guards)
	}
	full := &Journal{file: f, size: 4 * step.BlockSize, end: 4*step.BlockSize - step.BlockSize + 1}
	if f.read = errors.New("no"); full.Stale() || full.Refresh() != nil {
		t.Error("a full journal is read")
	}
	clear(f.cache)
	last := &Journal{file: f, size: 4 * step.BlockSize, end: 3 * step.BlockSize}
	if f.read = nil; last.Stale() {
		t.Error("news in an empty last block")
	}
	f.cache[3*step.BlockSize] = 'g'
	if !last.Stale() {
		t.Error("no news in the last block")
	}
}

// TestJournalReserve: only an undo may fill the last quarter of a journal, to its last byte.
func TestJournalReserve(t *testing.T) {
	const blocks = 16
	fill := func(why string, e step.Entry) (n int) {
		f := &failing{disk: disk{cache: make([]byte, blocks*step.BlockSize)}}
		j, err := OpenJournal(f, blocks*step.BlockSize)
		fine(t, err)
		for j.Ledger.Why = why; ; n++ {
			if err := j.Append(e); errors.Is(err, errFull) {
				return n
			} else if err != nil || n > blocks {
				t.Fatal(n, err)
			}
		}
	}
	for name, tc := range map[string]struct {
		why  string
		e    step.Entry
		want int
	}{
		"of a step":        {"", step.Entry{Event: step.EventGuard}, 12},
		"of an undo":       {step.WhyTTL, step.Entry{Event: step.EventGuard}, 16},
		"asks for an undo": {"", step.Entry{Event: step.EventRevert}, 16},
	} {
		if got := fill(tc.why, tc.e); got != tc.want {
			t.Errorf("%s: %d entries, want %d", name, got, tc.want)
		}
	}
}

// TestLeaseErrors: what cannot be read, or is of another format, is no renewal.
func TestLeaseErrors(t *testing.T) {
	p := filepath.Join(t.TempDir(), "lease")
	l := lease{p, "b"}
	if l.Renewed() != 0 || l.renew(5) == nil {
		t.Error("a lease that is not there")
	}
	for _, text := range []string{"", "x", "gpuaas-lease 1 boot=b ns=", "gpuaas-lease 1 boot=b ns=x",
		"gpuaas-lease 1 ns=5", "gpuaas-lease 1 boot=bb ns=5"} {
		fine(t, os.WriteFile(p, []byte(text+" "+l.sum(text)+"\n"), 0o600))
		if got := l.Renewed(); got != 0 {
			t.Errorf("%q: %d", text, got)
		}
	}
}
