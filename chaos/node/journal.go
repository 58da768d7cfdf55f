package node

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Storage is a file of fixed length.
type Storage interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// errFull means that the journal has no space for another entry. An undo continues without one.
var errFull = errors.New("the journal is full")

// reserve is the part of a journal that only an undo may fill.
const reserve = step.JournalSize / 4

// Journal appends entries, and keeps their fold. Its users hold the drill's lock.
type Journal struct {
	Ledger  step.Ledger
	Entries []step.Entry
	Torn    int

	file Storage
	size int64
	end  int64
}

// OpenJournal reads a whole journal of size bytes.
func OpenJournal(file Storage, size int64) (*Journal, error) {
	j := &Journal{file: file, size: size}
	return j, j.Refresh()
}

// Refresh reads the entries that other processes have written since.
func (j *Journal) Refresh() error {
	var block [step.BlockSize]byte
	if j.size-j.end < step.BlockSize {
		return nil
	}
	if _, err := j.file.ReadAt(block[:], j.end); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if block[0] == 0 && j.end > 0 { // the common case: nothing new
		return nil
	}
	rest := make([]byte, j.size-j.end)
	if _, err := j.file.ReadAt(rest, j.end); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	entries, end, torn := step.DecodeAfter(rest, j.Ledger.Last)
	j.end, j.Torn = j.end+int64(end), torn
	for _, e := range entries {
		j.Entries = append(j.Entries, e)
		j.Ledger.Add(e)
	}
	return nil
}

// Stale reports, with a single read, whether another process has written since.
func (j *Journal) Stale() bool {
	var b [1]byte
	if j.size-j.end < step.BlockSize {
		return false
	}
	_, err := j.file.ReadAt(b[:], j.end)
	return err != nil || b[0] != 0
}

// Append writes e as the next entry, and returns once it is on the disk. Only a revert may use the reserve.
func (j *Journal) Append(e step.Entry) error {
	e.Seq = j.Ledger.Last + 1
	b := step.EncodeEntry(e)
	room := j.size - j.end
	if j.Ledger.Why == "" && e.Event != step.EventRevert {
		room -= min(reserve, j.size/4)
	}
	if int64(len(b)) > room {
		return errFull
	}
	if _, err := j.file.WriteAt(b, j.end); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	j.end += int64(len(b))
	j.Entries = append(j.Entries, e)
	j.Ledger.Add(e)
	return nil
}

// makeZeros creates a file of zeros with every block allocated on the disk, so that later writes need no space.
func makeZeros(path string, size int) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	return f.Sync()
}
