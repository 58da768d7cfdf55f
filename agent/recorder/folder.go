package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Modes of the record's files and folders: an operators' group may read them.
const fileMode, dirMode = 0o640, 0o750

// errGone means that the open file was unlinked: writes to it are lost.
var errGone = errors.New("the record's files were removed")

// folder is one copy of the record: on the disk, or in the mirror.
type folder struct {
	fs      durable.FS
	dir     string
	record  durable.File
	pinned  durable.File
	whole   bool // both files are open and complete
	looked  bool // they are, to be read alone
	made    bool // they were, once
	promise string
	reserve int // files of it that are there
	buffer  []byte
	lent    bool // released on purpose, and not refilled yet
}

func (f *folder) usable() bool { return f.record != nil && f.pinned != nil && f.whole }

// openExisting opens existing files read-only if they cannot be opened otherwise.
func (f *folder) openExisting() {
	f.close()
	var err error
	if f.record, err = f.fs.OpenRead(filepath.Join(f.dir, record.FileRecord)); err == nil {
		f.pinned, err = f.fs.OpenRead(filepath.Join(f.dir, record.FilePinned))
	}
	f.looked = err == nil
	f.made = f.made || f.looked
}

// open opens both files, and creates or completes them if needed.
func (f *folder) open() error {
	if f.dir == "" {
		return errors.New("no folder")
	}
	if err := f.fs.MakeDir(f.dir, dirMode); err != nil {
		return fmt.Errorf("make the record's folder: %w", err)
	}
	kind, err := f.fs.Kind(f.dir)
	if err != nil {
		return err
	}
	f.promise = record.MissingGuarantee(kind)
	if f.record, err = f.file(record.FileRecord, record.Slots); err != nil {
		return err
	}
	if err := f.record.Lock(); err != nil {
		return fmt.Errorf("another process writes this record: %w", err)
	}
	if f.pinned, err = f.file(record.FilePinned, record.PinnedSlots); err != nil {
		return err
	}
	f.whole, f.made = true, true
	return nil
}

// file opens one file and completes it.
func (f *folder) file(name string, slots int) (durable.File, error) {
	path := filepath.Join(f.dir, name)
	file, err := f.fs.Open(path, fileMode)
	if err != nil {
		return nil, err
	}
	made, err := makeWhole(file, slots)
	if err == nil && made {
		err = f.fs.SyncDir(f.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %s: %w", path, err), file.Close())
	}
	return file, nil
}

// makeWhole fills every unallocated slot with zeros, and syncs. It leaves slots with an entry alone, so that an
// interrupted creation can be continued.
func makeWhole(file durable.File, slots int) (made bool, err error) {
	want := int64(slots) * record.Size
	size, real, err := file.Size()
	if err != nil || (size >= want && real >= want) {
		return false, err
	}
	var b, zero [record.Size]byte
	for off := int64(0); off < want; off += record.Size {
		n := 0
		if off < size {
			// A short read is the end of the file; after an error, the write that follows reports the cause.
			n, _ = file.ReadAt(b[:], off)
		}
		switch {
		case n == record.Size && b != zero:
			continue
		case n < record.Size && !bytes.Equal(b[:n], zero[:n]):
			_, err = file.WriteAt(zero[n:], off+int64(n))
		default:
			_, err = file.WriteAt(zero[:], off)
		}
		if err != nil {
			return false, err
		}
	}
	return true, file.Sync()
}

func (f *folder) named(file string) durable.File {
	if file == record.FilePinned {
		return f.pinned
	}
	return f.record
}

// get reads one slot; nil if it holds no entry.
func (f *folder) get(file string, slot int) *diag.RecordEntry {
	if !f.usable() && !f.looked {
		return nil
	}
	// shared by all slots: hundreds are read at the start, and memory that grows then stays resident
	if f.buffer == nil {
		f.buffer = make([]byte, record.Size)
	}
	if n, err := f.named(file).ReadAt(f.buffer, int64(slot)*record.Size); n < record.Size && err != nil {
		return nil
	}
	e, v := record.Decode(file, slot, f.buffer)
	if v != record.Valid {
		return nil
	}
	return &e
}

// put writes one slot and returns once it is on the disk.
func (f *folder) put(file string, slot int, b []byte) error {
	to := f.named(file)
	if to == nil {
		return errGone
	}
	if gone, err := to.Unlinked(); err != nil || gone {
		return errors.Join(err, errGone)
	}
	if _, err := to.WriteAt(b, int64(slot)*record.Size); err != nil {
		return err
	}
	return to.Sync()
}

// retryPut repeats a failed put: it reopens the files and reads the slot back. After a failed sync the kernel marks
// the written pages as clean, so that a second sync alone would succeed falsely.
func (f *folder) retryPut(file string, slot int, b []byte) error {
	f.close()
	if err := f.open(); err != nil {
		return err
	}
	if err := f.put(file, slot, b); err != nil {
		return err
	}
	back := make([]byte, record.Size)
	if _, err := f.named(file).ReadAt(back, int64(slot)*record.Size); err != nil {
		return err
	}
	if !bytes.Equal(back, b) {
		return errors.New("the slot does not read as it was written")
	}
	return nil
}

func (f *folder) close() {
	for _, file := range [...]durable.File{f.record, f.pinned} {
		if file != nil {
			_ = file.Close() // everything was synced
		}
	}
	f.record, f.pinned, f.whole, f.looked = nil, nil, false, false
}
