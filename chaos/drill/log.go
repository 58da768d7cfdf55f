package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// EventsFile and WalksFolder are what a run's folder holds.
const (
	EventsFile  = "events.ndjson"
	WalksFolder = "walks"
)

// WalkFile is the name of a walk's report in WalksFolder.
func WalkFile(n int) string { return fmt.Sprintf("%03d.json", n) }

// Log is where a run's events are written down: a folder with one line of JSON per event, and every walk's whole
// report.
type Log struct {
	dir string
	f   *os.File
}

// CreateLog makes the folder, for this user alone. A run's folder is made once.
func CreateLog(dir string) (*Log, error) {
	if err := os.MkdirAll(filepath.Join(dir, WalksFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, EventsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the run's log: %w", err)
	}
	// the run's name in its folder, too: what is about to be done is logged before it is
	if err := errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, errors.Join(fmt.Errorf("make the run's log: %w", err), f.Close())
	}
	return &Log{dir, f}, nil
}

// Kept is how many runs are kept: half a megabyte each.
const Kept = 200

// Prune takes the oldest runs' folders away until no more than Kept are left. Runs are named by their time.
func Prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var runs []string
	for _, e := range entries { // sorted by name
		if e.IsDir() && step.ValidName(e.Name()) {
			runs = append(runs, e.Name())
		}
	}
	var errs []error
	for len(runs) > Kept {
		errs, runs = append(errs, os.RemoveAll(filepath.Join(dir, runs[0]))), runs[1:]
	}
	return errors.Join(errs...)
}

// Dir is the run's folder.
func (l *Log) Dir() string { return l.dir }

// Write writes an event down, and the walk's report that it is about; it is on the disk when it returns.
func (l *Log) Write(e Event, walk *diag.Report) error {
	if walk != nil && e.Sight != nil {
		b, err := json.Marshal(walk)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.dir, WalksFolder, WalkFile(e.Sight.N)),
				append(clean.JSON(b), '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("keep walk %d: %w", e.Sight.N, err)
		}
	}
	b, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(clean.JSON(b), '\n'))
	}
	return errors.Join(err, l.f.Sync())
}

// Close closes the log.
func (l *Log) Close() error { return l.f.Close() }

// ReadEvents reads what was written down. A run that was killed may have left its last line torn: it is passed over,
// and reported. Any other line that does not read is an error.
func ReadEvents(r io.Reader) (events []Event, torn bool, err error) {
	text, err := bounded.Read(r, bounded.DocumentBytes)
	if err != nil {
		return nil, false, err
	}
	all := bounded.NewLines(bounded.Log())
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		var e Event
		if err := all.Unmarshal(line, &e); err != nil {
			if len(rest) == 0 && !errors.Is(err, bounded.ErrLimit) {
				return events, true, nil
			}
			return events, false, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Seq != n {
			return events, false, fmt.Errorf("line %d: event %d is there", n, e.Seq)
		}
		events, text = append(events, e), rest
	}
	return events, torn, nil
}
