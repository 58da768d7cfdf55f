package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// recordIn writes a record of n entries into a folder.
func recordIn(t *testing.T, n uint64) string {
	t.Helper()
	dir := t.TempDir()
	ring := make([]byte, record.Slots*record.Size)
	for seq := uint64(1); seq <= n; seq++ {
		b := record.Encode(record.FileRecord, record.SlotOf(seq),
			diag.RecordEntry{Seq: seq, BootID: "b", Reason: diag.RecDNSFailed,
				About: "heartbeat", Decision: "retry", Attempt: 1, Detail: "Authorization: Bearer canary-of-a-token"})
		copy(ring[record.SlotOf(seq)*record.Size:], b[:])
	}
	for name, data := range map[string][]byte{record.FileRecord: ring,
		record.FilePinned: make([]byte, record.PinnedSlots*record.Size)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRecord(t *testing.T) {
	dir := recordIn(t, 100)
	f := run(t, diag.Request{Op: diag.OpRecord, Target: dir, Limit: 3})
	if f.Failure != diag.OK || f.Empty() || f.Record.Source != record.SourceDisk || f.Record.Path != dir ||
		f.Record.Newest != 100 ||
		len(f.Record.Entries) != 3 || f.Record.Entries[2].Seq != 100 || len(f.Record.Pinned) != 2 || f.Record.Valid != 100 {
		t.Errorf("%+v %+v", f, f.Record)
	}
	for _, e := range append(f.Record.Entries, f.Record.Pinned...) {
		if e.Detail != "Authorization: "+diag.Redacted {
			t.Errorf("a secret that was written down is shown: %q", e.Detail)
		}
	}
	if f := run(t, diag.Request{Op: diag.OpRecord, Target: dir}); len(f.Record.Entries) != recordEntries {
		t.Errorf("%d entries where none were asked for", len(f.Record.Entries))
	}
}

// TestRecordOnADiskThatTakesNothing: entries that only memory has are shown with those of the disk, scrubbed as well.
func TestRecordOnADiskThatTakesNothing(t *testing.T) {
	p := &Prober{mirror: recordIn(t, 12)}
	f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpRecord, Target: recordIn(t, 10)})
	if f.Failure != diag.OK || f.Record.Source != record.SourceDisk || f.Record.Newest != 12 ||
		len(f.Record.Entries) != 12 ||
		f.Record.Entries[11].Detail != "Authorization: "+diag.Redacted {
		t.Errorf("%+v %+v", f, f.Record)
	}
	f = kit.Run(t.Context(), p, diag.Request{Op: diag.OpRecord, Target: recordIn(t, 0)})
	if f.Failure != diag.OK || f.Record.Source != record.SourceMirror || f.Record.Path != p.mirror ||
		f.Record.Newest != 12 || f.Record.Degraded == "" {
		t.Errorf("%+v %+v", f, f.Record)
	}
}

func TestRecordFailures(t *testing.T) {
	p := &Prober{mirror: filepath.Join(t.TempDir(), "none")} // this machine may have a record of its own
	for target, word := range map[string]diag.Failure{
		filepath.Join(t.TempDir(), "none"): diag.FileMissing,
		t.TempDir():                        diag.FileMissing,
		"relative":                         diag.Unsupported,
	} {
		if f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpRecord, Target: target}); f.Failure != word ||
			f.Record != nil {
			t.Errorf("%s: %s %+v, want %s", target, f.Failure, f.Record, word)
		}
	}
}

// TestRecordOutsideOfTheAgentsMounts: if the agent sees no record on its disk, the one outside its mounts is used.
func TestRecordOutsideOfTheAgentsMounts(t *testing.T) {
	disk := diag.Fact{Record: &diag.RecordFacts{Source: record.SourceDisk, Newest: 7}}
	mirror := diag.Fact{Record: &diag.RecordFacts{Source: record.SourceMirror, Newest: 9}}
	for name, tc := range map[string]struct {
		inside, outside diag.Fact
		newest          uint64
		failure         diag.Failure
	}{
		"the agent's own":    {disk, mirror, 7, diag.OK},
		"only outside":       {diag.Fact{Failure: diag.FileMissing}, disk, 7, diag.OK},
		"better outside":     {mirror, disk, 7, diag.OK},
		"in memory, in both": {mirror, mirror, 9, diag.OK},
	} {
		f := tc.inside
		MergeRecord(&f, tc.outside)
		if f.Failure != tc.failure || f.Record == nil || f.Record.Newest != tc.newest {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestRecordWithoutItsPins: the reason for the missing file is our own text.
func TestRecordWithoutItsPins(t *testing.T) {
	dir := recordIn(t, 3)
	if err := os.Remove(filepath.Join(dir, record.FilePinned)); err != nil {
		t.Fatal(err)
	}
	f := run(t, diag.Request{Op: diag.OpRecord, Target: dir})
	if f.Failure != diag.OK || f.Record.Valid != 3 || f.Record.Degraded != "its file pinned is missing" {
		t.Errorf("%s, %+v", f.Failure, f.Record)
	}
}
