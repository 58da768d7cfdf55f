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

// EventsFile and WalksFolder are the contents of a run's folder.
const (
	EventsFile  = "events.ndjson"
	WalksFolder = "walks"
)

// WalkFile returns the file name of a walk's report in WalksFolder.
func WalkFile(n int) string { return fmt.Sprintf("%03d.json", n) }

// Log stores a run's events in a folder: one line of JSON per event, and each walk's complete report.
type Log struct {
	dir string
	f   *os.File
}

// CreateLog creates the folder, readable only by this user. It fails if the folder exists.
func CreateLog(dir string) (*Log, error) {
	if err := os.MkdirAll(filepath.Join(dir, WalksFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, EventsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the run's log: %w", err)
	}
	// sync the parent as well: the log must survive a crash before the first action
	if err := errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, errors.Join(fmt.Errorf("make the run's log: %w", err), f.Close())
	}
	return &Log{dir, f}, nil
}

// Kept is the number of runs that are kept, at half a megabyte each.
const Kept = 200

// Prune removes the oldest runs' folders until at most Kept are left. A run's name begins with its time.
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

// Dir returns the run's folder.
func (l *Log) Dir() string { return l.dir }

// Write stores an event and, if it has one, its walk's report; both are on the disk when it returns.
func (l *Log) Write(e Event, walk *diag.Report) error {
	if walk != nil && e.WalkView != nil {
		b, err := json.Marshal(walk)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.dir, WalksFolder, WalkFile(e.WalkView.N)),
				append(clean.JSON(b), '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("keep walk %d: %w", e.WalkView.N, err)
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

// ReadEvents reads a run's events. If a killed run left a torn last line, that line is skipped and reported. Any
// other unreadable line is an error.
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
