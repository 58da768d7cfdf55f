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
	fileApplied = "recovery-applied.json" // what another program did to this node, for the agent's next start
)

// Reserve is disk space that is held for the one file that must still be written on a full disk: a node that cannot
// keep its new certificate is lost.
type Reserve interface {
	ReleaseReserve() error
	RefillReserve() error
}

// ledgerFile keeps the ledger on disk, and where the disk takes nothing any more, in memory that outlives the process.
type ledgerFile struct {
	dir, mirror string // mirror may be empty
	taken       bool   // load has taken what another program left
	written     uint64 // number of the newest copy
}

// applied is what another program did: the ledger is the running agent's alone.
type applied struct {
	Version int      `json:"version"`
	Note    Decision `json:"note"`
}

// load reads what was kept: of two copies the one that was written last. A copy that cannot be read is as none; so a
// damaged file costs the memory of the last day, and the platform stays the authority.
func (f *ledgerFile) load(now time.Time) Ledger {
	l := readLedger(filepath.Join(f.dir, fileLedger))
	if f.mirror != "" {
		m := readLedger(filepath.Join(f.mirror, fileLedger))
		// an older build numbers nothing
		if m.Written > l.Written || (m.Written == l.Written && m.Counters.Attempts > l.Counters.Attempts) {
			l = m
		}
	}
	f.written = l.Written
	var a applied
	path := filepath.Join(f.dir, fileApplied)
	text, err := os.ReadFile(path)
	f.taken = err == nil
	// An allowance that could not be removed counts once: otherwise a crash loop on a read-only disk would count as
	// an operator each time.
	if sum := digest(path); err == nil && json.Unmarshal(text, &a) == nil && sum != l.Applied {
		l.Applied = sum
		l.Attempts, l.Suppressed, l.Quarantined = nil, Hold{}, Hold{} // an operator has acted: what held recovery off is over
		l.Notes = append(l.Notes, a.Note)
	}
	return l.normal(now)
}

// leave keeps a note for the agent's next start.
func (f ledgerFile) leave(note Decision) error {
	text, err := json.Marshal(applied{Version: 1, Note: note})
	if err == nil {
		err = os.MkdirAll(f.dir, 0o755)
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

// save returns once the ledger is kept somewhere that a crash of the process leaves alone. A nil reserve stays as it
// is.
func (f *ledgerFile) save(l Ledger, reserve Reserve) error {
	f.written++
	l.Written = f.written
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("keep the recovery ledger: %w", err)
	}
	write := func(dir string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return durable.Replace(filepath.Join(dir, fileLedger), append(text, '\n'), 0o600)
	}
	_, err = withReserve(reserve, func() error { return write(f.dir) })
	if err != nil && f.mirror != "" {
		if again := write(f.mirror); again != nil {
			return fmt.Errorf("keep the recovery ledger: %w", errors.Join(err, again))
		}
		return nil
	}
	if err == nil && f.mirror != "" {
		_ = os.Remove(filepath.Join(f.mirror, fileLedger)) // an older build, which numbers nothing, may write the next one
	}
	if err == nil && f.taken && len(l.Notes) == 0 { // it is recorded, and its effect is in the ledger
		f.taken = false
		return os.Remove(filepath.Join(f.dir, fileApplied))
	}
	return err
}

// full reports whether an error is a disk that has no room.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// withReserve does f, and where the disk is full, once more in the room that the reserve gives. It reports whether that
// was needed.
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

// ignoreFull passes over a reserve that cannot be taken back while the disk is full: the record reports that by itself.
func ignoreFull(err error) error {
	if full(err) {
		return nil
	}
	return err
}

// ReleaseReserve and RefillReserve make the host's record a Reserve.
func (h HostRecord) ReleaseReserve() error { return h.record.ReleaseReserve() }

// RefillReserve takes the room back.
func (h HostRecord) RefillReserve() error { return h.record.RefillReserve() }
