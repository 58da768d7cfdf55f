package update

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Names below the state folder.
const (
	fileJournal = "update.json"
	fileDamaged = "update.json.damaged"
)

// Keeper stores the journal. It is safe for concurrent use.
type Keeper struct {
	disk  durable.Dir
	store func(Note) error
	why   error // no step can be taken

	mu sync.Mutex // guards j
	j  Journal
}

// Open reads the journal and reports the notes of an interrupted step. store stores one note durably; it may be
// called twice with the same key. An unparseable journal is moved aside and a new one begins, so that the
// installed program runs.
func Open(d durable.Dir, store func(Note) error) (*Keeper, error) {
	k := &Keeper{disk: d, store: store}
	var err error
	if k.j, err = read(d); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.storeNotes()
}

func read(d durable.Dir) (Journal, error) {
	text, err := d.Read(fileJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return New(rand.Text()), nil
	}
	if err != nil {
		return Journal{}, fmt.Errorf("read the update journal: %w", err)
	}
	var j Journal
	if json.Unmarshal(text, &j) == nil && j.Format == 1 && j.ID != "" {
		return j, nil
	}
	if err := d.Write(fileDamaged, text, 0o600); err != nil { // kept as the reason
		return Journal{}, fmt.Errorf("put a damaged update journal aside: %w", err)
	}
	return New(rand.Text()), nil
}

// Journal returns the current journal.
func (k *Keeper) Journal() Journal {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.j.clone()
}

// Do takes one step: before Do returns, the step and its notes are on the disk, and the notes were reported. If
// the journal cannot be written, Do returns an error and the step is not taken.
func (k *Keeper) Do(step func(Journal) Journal) (Journal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := step(k.j)
	if same(k.j, next) {
		return k.j.clone(), nil
	}
	if err := k.write(next); err != nil {
		return k.j.clone(), err
	}
	k.j = next
	return k.j.clone(), k.storeNotes()
}

// storeNotes stores the notes, then removes them from the journal. A note that could not be stored stays, and is
// retried with the next step and the next start.
func (k *Keeper) storeNotes() error {
	if len(k.j.Notes) == 0 {
		return nil
	}
	for _, n := range k.j.Notes {
		if err := k.store(n); err != nil {
			return fmt.Errorf("keep the evidence of %s: %w", n.Decision, err)
		}
	}
	stored := k.j.clone()
	stored.Notes = nil
	if err := k.write(stored); err != nil {
		return err
	}
	k.j = stored
	return nil
}

func (k *Keeper) write(j Journal) error {
	if k.why != nil {
		return k.why
	}
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write the update journal: %w", err)
	}
	if err := k.disk.Write(fileJournal, append(text, '\n'), 0o600); err != nil { // a task's payload may hold a token
		return fmt.Errorf("write the update journal: %w", err)
	}
	return nil
}

func same(a, b Journal) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// Unreadable returns a keeper for a journal that cannot be read at the moment: it takes no step and overwrites
// nothing.
func Unreadable(why error) *Keeper {
	return &Keeper{why: why, j: New(rand.Text())}
}
