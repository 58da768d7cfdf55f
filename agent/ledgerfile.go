package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Files in the state folder.
const (
	fileLedger  = "recovery.json"         // also in the mirror
	fileApplied = "recovery-applied.json" // written by another program for the agent's next start
)

// stateMode is the mode of the state folders: no tenant opens or searches them.
const stateMode = 0o700

// ledgerWait bounds the wait for another program that writes the ledger: the agent's loop waits for it, and so do the
// heartbeats.
const ledgerWait = 100 * time.Millisecond

// Reserve is disk space that is set aside for a new certificate on a full disk: a node that cannot store its new
// certificate is lost.
type Reserve interface {
	ReleaseReserve() error
	RefillReserve() error
}

// ledgerFile stores the ledger on disk or, if the disk takes no writes, on a tmpfs that outlives the process.
type ledgerFile struct {
	dir, mirror string // mirror may be empty
	taken       bool   // load has read another program's note
	written     uint64 // number of the newest copy
}

// applied is another program's note to the agent, which is the ledger's only writer.
type applied struct {
	Version int      `json:"version"`
	Note    Decision `json:"note"`
}

// load reads the newer of the two copies. An unreadable copy is ignored: a damaged file costs the memory of the
// last day, and the platform's decisions remain authoritative.
func (f *ledgerFile) load(now time.Time) Ledger {
	l := readLedger(filepath.Join(f.dir, fileLedger))
	if f.mirror != "" {
		m := readLedger(filepath.Join(f.mirror, fileLedger))
		// an older build does not number its copies
		if m.Written > l.Written || (m.Written == l.Written && m.Counters.Attempts > l.Counters.Attempts) {
			l = m
		}
	}
	f.written = l.Written
	var a applied
	path := filepath.Join(f.dir, fileApplied)
	text, err := os.ReadFile(path)
	f.taken = err == nil
	// A note that could not be removed counts once: otherwise each restart in a crash loop on a read-only disk
	// would count as an operator's action.
	if sum := digest(path); err == nil && json.Unmarshal(text, &a) == nil && sum != l.Applied {
		l.Applied = sum
		l.Attempts, l.Suppressed, l.Quarantined = nil, Hold{}, Hold{} // an operator has acted, so all holds are lifted
		l.Notes = append(l.Notes, a.Note)
	}
	return l.normal(now)
}

// storeNote stores a note for the agent's next start.
func (f ledgerFile) storeNote(note Decision) error {
	text, err := json.Marshal(applied{Version: 1, Note: note})
	if err == nil {
		err = os.MkdirAll(f.dir, stateMode)
	}
	if err == nil {
		err = durable.Replace(filepath.Join(f.dir, fileApplied), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("leave a note for the agent: %w", err)
	}
	return nil
}

func readLedger(path string) (l Ledger) {
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &l) != nil {
		return Ledger{}
	}
	return l
}

// save returns once the ledger is stored where it survives a crash of the process. A nil reserve is not used.
func (f *ledgerFile) save(l Ledger, reserve Reserve) error {
	f.written++
	l.Written = f.written
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("keep the recovery ledger: %w", err)
	}
	write := func(dir string) error {
		if err := os.MkdirAll(dir, stateMode); err != nil {
			return err
		}
		return durable.ReplaceWithin(ledgerWait, filepath.Join(dir, fileLedger), append(text, '\n'), 0o600)
	}
	_, err = withReserve(reserve, func() error { return write(f.dir) })
	if err != nil && f.mirror != "" {
		if again := write(f.mirror); again != nil {
			return fmt.Errorf("keep the recovery ledger: %w", errors.Join(err, again))
		}
		return nil
	}
	if err == nil && f.mirror != "" {
		// an older build, which does not number its copies, may write the next one
		_ = os.Remove(filepath.Join(f.mirror, fileLedger))
	}
	if err == nil && f.taken && len(l.Notes) == 0 { // recorded, and in effect in the ledger
		f.taken = false
		return os.Remove(filepath.Join(f.dir, fileApplied))
	}
	return err
}

// full reports whether an error means that the disk is full.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// withReserve calls f and, if the disk is full, calls it again with the reserve released. It reports whether the
// reserve was used.
func withReserve(r Reserve, f func() error) (used bool, err error) {
	err = f()
	if r == nil || !full(err) {
		return false, err
	}
	if release := r.ReleaseReserve(); release != nil {
		return false, errors.Join(err, release)
	}
	err = f()
	return true, errors.Join(err, ignoreFull(r.RefillReserve()))
}

// ignoreFull drops the error of a reserve that cannot be refilled on a full disk: the record reports that by
// itself.
func ignoreFull(err error) error {
	if full(err) {
		return nil
	}
	return err
}
