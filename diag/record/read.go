package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Source of RecordFacts.
const (
	SourceDisk   = "disk"
	SourceMirror = "mirror"
)

// Values of entries about the record itself, with Reason record_degraded.
const (
	AboutRecord       = "record"
	DecisionDegraded  = "degraded"
	DecisionRecovered = "recovered"
)

// FactPromise names a fact of a start entry: a guarantee that the record's file system does not give.
const FactPromise = "record_promise"

// Read reads both files of a record's folder. It fails only if neither can be read; if one cannot, Degraded names it.
// The caller sets Source and Path.
func Read(fsys fs.FS) (diag.RecordFacts, error) {
	r, err := folder(fsys)
	return r.facts(), err
}

// folder reads both files of a record's folder.
func folder(fsys fs.FS) (reading, error) {
	var r reading
	errRecord := r.file(fsys, FileRecord, FileRecord, Slots)
	errPinned := r.file(fsys, FilePinned, FilePinned, PinnedSlots)
	switch {
	case errRecord != nil && errPinned != nil:
		return reading{}, fmt.Errorf("read the record: %w", &fileError{FileRecord, errRecord})
	case errRecord != nil:
		r.lacks = (&fileError{FileRecord, errRecord}).Error()
	case errPinned != nil:
		r.lacks = (&fileError{FilePinned, errPinned}).Error()
	}
	return r, nil
}

// fileError is the error of one file of a record that cannot be read.
type fileError struct {
	name string
	err  error
}

func (e *fileError) Unwrap() error { return e.err }

func (e *fileError) Error() string {
	var at *fs.PathError
	switch {
	case errors.Is(e.err, fs.ErrNotExist):
		return "its file " + e.name + " is missing"
	case errors.Is(e.err, fs.ErrPermission):
		return "its file " + e.name + " may not be read"
	case errors.As(e.err, &at):
		return "its file " + e.name + ": " + at.Err.Error()
	}
	return "its file " + e.name + ": " + e.err.Error()
}

// ReadFile reads one file of a record, whatever its name.
func ReadFile(fsys fs.FS, name string) (diag.RecordFacts, error) {
	var r reading
	if err := r.file(fsys, name, "", Slots); err != nil {
		return diag.RecordFacts{}, fmt.Errorf("read the record: %w", err)
	}
	return r.facts(), nil
}

// Newest returns f with only the newest n entries; 0 keeps all.
func Newest(f diag.RecordFacts, n int) diag.RecordFacts {
	if n > 0 && len(f.Entries) > n {
		f.Entries = f.Entries[len(f.Entries)-n:]
	}
	return f
}

// reading is what was decoded from the slots so far.
type reading struct {
	slots   int
	valid   int
	damaged []diag.DamagedSlot
	ring    []*diag.RecordEntry
	pinned  []*diag.RecordEntry
	lacks   string // names the files that could not be read
}

// file reads the slots of one file. of is the ring that their entries must name, "" for either.
func (r *reading) file(fsys fs.FS, name, of string, slots int) error {
	if st, err := fs.Stat(fsys, name); err != nil { // checked before the file is opened: opening a pipe would block
		return err
	} else if !st.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	b := make([]byte, Size)
	for slot := range slots {
		n, err := io.ReadFull(file, b)
		if n == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			r.slots++
			r.damaged = append(r.damaged, diag.DamagedSlot{File: cmp.Or(of, name), Slot: slot, Why: string(Torn)})
			return nil // keep what was read before the disk failed
		}
		r.slot(cmp.Or(of, name), of, slot, b[:n], reread(file, slot))
	}
	return nil
}

// reread reads a slot a second time if the file supports it: the agent may be in the middle of a write.
func reread(file fs.File, slot int) func([]byte) bool {
	return func(b []byte) bool {
		at, ok := file.(io.ReaderAt)
		if !ok {
			return false
		}
		n, err := at.ReadAt(b, int64(slot)*Size)
		return n == len(b) && err == nil
	}
}

func (r *reading) slot(name, of string, slot int, b []byte, reread func([]byte) bool) {
	r.slots++
	e, v := Decode(of, slot, b)
	if v != Valid && v != Empty && reread(b) {
		e, v = Decode(of, slot, b)
	}
	switch v {
	case Valid:
		r.valid++
		if e.Pin != "" {
			r.pinned = append(r.pinned, &e)
		} else {
			r.ring = append(r.ring, &e)
		}
	case Empty:
	default:
		r.damaged = append(r.damaged, diag.DamagedSlot{File: name, Slot: slot, Why: string(v)})
	}
}

// facts returns what was read, sorted.
func (r *reading) facts() diag.RecordFacts {
	ring, pinned := sorted(r.ring), sorted(r.pinned)
	f := diag.RecordFacts{Slots: r.slots, Valid: r.valid, Damaged: r.damaged, Missing: missing(ring)}
	for _, e := range slices.Concat(pinned, ring) {
		f.Newest = max(f.Newest, e.Seq)
	}
	f.Degraded, f.Promise = standing(slices.Concat(pinned, ring))
	if r.lacks != "" && f.Degraded != "" {
		f.Degraded = ": " + f.Degraded
	}
	f.Degraded = r.lacks + f.Degraded
	f.Pinned, f.Entries = values(complete(pinned, ring)), values(ring)
	return f
}

func values(entries []*diag.RecordEntry) []diag.RecordEntry {
	var out []diag.RecordEntry
	for _, e := range entries {
		out = append(out, *e)
	}
	return out
}

// sorted sorts by sequence number, and drops all copies of an entry except the one with the highest count.
func sorted(entries []*diag.RecordEntry) []*diag.RecordEntry {
	// a ring is two sorted halves, and small; the generic sort would add more code than this package has
	for i := range entries {
		for k := i; k > 0 && before(entries[k], entries[k-1]); k-- {
			entries[k], entries[k-1] = entries[k-1], entries[k]
		}
	}
	return slices.CompactFunc(entries, func(a, b *diag.RecordEntry) bool { return a.Seq == b.Seq && a.Pin == b.Pin })
}

func before(a, b *diag.RecordEntry) bool {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Pin, b.Pin), cmp.Compare(b.Count, a.Count)) < 0
}

// missing counts sequence numbers in the last round of the ring that no slot holds. An entry that repeats uses two
// slots.
func missing(ring []*diag.RecordEntry) int {
	if len(ring) == 0 {
		return 0
	}
	newest, n := ring[len(ring)-1].Seq, 0
	var next uint64
	for _, e := range ring {
		if e.Seq+Slots <= newest {
			continue // left over from an earlier round
		}
		if next > 0 && e.Seq > next {
			n += int(e.Seq - next)
		}
		next = e.Seq + 1
		if e.Count > 0 {
			next++
		}
	}
	return n
}

// complete computes the pinned entries from both rings: the first and the last of each reason, whichever ring has it,
// and one entry per other role.
func complete(pinned, ring []*diag.RecordEntry) []*diag.RecordEntry {
	best := map[string]*diag.RecordEntry{} // by role
	role := func(pin string, e *diag.RecordEntry) string {
		if pin == PinContact || pin == PinUpdate {
			return pin
		}
		return pin + " " + string(e.Reason)
	}
	keep := func(pin string, e *diag.RecordEntry) {
		k := role(pin, e)
		if have := best[k]; have == nil || e.Seq > have.Seq || (e.Seq == have.Seq && e.Count > have.Count) {
			as := *e
			as.Pin = pin
			best[k] = &as
		}
	}
	for _, e := range pinned {
		keep(e.Pin, e)
	}
	for _, e := range ring {
		if best[role(PinFirst, e)] == nil {
			keep(PinFirst, e)
		}
		keep(PinLast, e)
	}
	var out []*diag.RecordEntry
	for _, e := range best {
		if first := best[role(PinFirst, e)]; e.Pin != PinLast || first == nil || first.Seq != e.Seq {
			out = append(out, e) // an entry that is both first and last of its reason appears once
		}
	}
	return sorted(out)
}

// standing returns the latest state of the record, by its own entries.
func standing(entries []*diag.RecordEntry) (degraded, promise string) {
	var about, start uint64
	for _, e := range entries {
		if e.Reason == diag.RecRecordDegraded && e.About == AboutRecord && e.Seq >= about {
			about, degraded = e.Seq, ""
			if e.Decision != DecisionRecovered {
				degraded = cmp.Or(e.Detail, "degraded")
			}
		}
		if p, ok := e.Facts[FactPromise]; ok && e.Seq >= start {
			start, promise = e.Seq, p
		}
	}
	return degraded, promise
}
