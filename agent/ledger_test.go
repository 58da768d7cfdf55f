package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

func TestLedgerIsKept(t *testing.T) {
	f := ledgerFile{dir: filepath.Join(t.TempDir(), "state"), mirror: t.TempDir()}
	l := Ledger{}.begin(testWall, diag.RecCertExpired, "a").finish(attemptRefused, wire.DenyTokenConsumed).spend("a")
	l.Cordoned = Hold{Since: testWall, Why: "memory"}
	must(t, f.save(l, nil))
	got := f.load(testWall)
	if len(got.Attempts) != 1 || got.Attempts[0] != l.Attempts[0] || !got.isSpent("a") || !got.Cordoned.Active() ||
		got.Quarantined.Active() {
		t.Errorf("%+v", got)
	}
	must(t, os.WriteFile(filepath.Join(f.dir, fileLedger), []byte("torn"), 0o600))
	if got := f.load(testWall); len(got.Attempts) != 0 {
		t.Errorf("a damaged file: %+v", got)
	}
}

// TestLedgerGoesToTheMirrorWhenTheDiskTakesNothing: with a broken disk the ledger still survives a crash of the
// process.
func TestLedgerGoesToTheMirrorWhenTheDiskTakesNothing(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	f := ledgerFile{dir: filepath.Join(blocked, "state"), mirror: t.TempDir()}
	must(t, f.save(Ledger{}.begin(testWall, diag.RecCertExpired, "a"), nil))
	if got := f.load(testWall); len(got.Attempts) != 1 {
		t.Errorf("%+v", got)
	}
	f.mirror = ""
	if err := f.save(Ledger{}, nil); err == nil {
		t.Error("it was kept nowhere, and nobody said so")
	}
}

// TestTheLedgerThatWasWrittenLastCounts: the newer copy wins. A cordon does not count as an attempt, an
// acknowledged state survives the process even if only the mirror has it, and an older copy in the mirror does not
// revert a later state on the disk.
func TestTheLedgerThatWasWrittenLastCounts(t *testing.T) {
	f := ledgerFile{dir: filepath.Join(t.TempDir(), "state"), mirror: t.TempDir()}
	again := func() Ledger { // the next process
		f = ledgerFile{dir: f.dir, mirror: f.mirror}
		return f.load(testWall)
	}
	must(t, f.save(Ledger{}.begin(testWall, diag.RecCertExpired, "a"), nil))
	l := again()
	disk := f.dir
	f.dir = filepath.Join(disk, fileLedger) // not a folder: like a read-only disk
	l.Cordoned = Hold{Since: testWall, Why: "memory"}
	must(t, f.save(l, nil))
	kept, err := os.ReadFile(filepath.Join(f.mirror, fileLedger))
	must(t, err)
	f.dir = disk
	if l = again(); !l.Cordoned.Active() || len(l.Attempts) != 1 {
		t.Fatalf("the cordon is forgotten: %+v", l)
	}
	l.Cordoned = Hold{}
	must(t, f.save(l, nil))
	// killed before the mirror's copy was removed
	must(t, os.WriteFile(filepath.Join(f.mirror, fileLedger), kept, 0o600))
	if l = again(); l.Cordoned.Active() {
		t.Errorf("what was lifted holds again: %+v", l)
	}
}

func TestReserveIsUsedForAFullDiskOnly(t *testing.T) {
	r := &scarce{}
	calls := 0
	used, err := withReserve(r, func() error { calls++; return r.before("", "") })
	if !used || err != nil || calls != 2 || r.room {
		t.Errorf("used %v, %v, %d calls, room kept %v", used, err, calls, r.room)
	}
	if used, err := withReserve(r, func() error { return syscall.EROFS }); used || err == nil || r.released != 1 {
		t.Errorf("used %v, %v, released %d times", used, err, r.released)
	}
}

// TestAttemptsFromTheFutureCountAsNow: a clock that was ahead must neither reset the budget nor block it for
// years.
func TestAttemptsFromTheFutureCountAsNow(t *testing.T) {
	l := Ledger{}
	for range perHour {
		l = l.begin(testWall.Add(100*24*time.Hour), diag.RecCertExpired, "a").finish(attemptRefused, "")
	}
	l = l.normal(testWall)
	if wait, _ := l.overspent(testWall, "a"); wait <= 0 || wait > time.Hour {
		t.Errorf("wait %v", wait)
	}
}

// TestANoteIsTakenOnce: if the disk becomes read-only after a bundle was applied, each start finds its note again,
// but that renews the budget only once.
func TestANoteIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	f := ledgerFile{dir: filepath.Join(dir, "disk"), mirror: filepath.Join(dir, "memory")}
	must(t, f.storeNote(Decision{Reason: diag.RecRecoveryBundle, What: "update"}))
	must(t, os.MkdirAll(filepath.Join(f.dir, fileLedger, "x"), 0o755)) // takes no file's place
	for n := range 3 {
		next := ledgerFile{dir: f.dir, mirror: f.mirror}
		l := next.load(testWall)
		if len(l.Attempts) != n || (len(l.Notes) == 1) != (n == 0) {
			t.Fatalf("start %d: %d attempts, %d notes", n, len(l.Attempts), len(l.Notes))
		}
		l.Notes = nil
		must(t, next.save(l.begin(testWall, diag.RecCertExpired, "a"), nil))
	}
}
