package drill

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// KeptRun is a run whose log is on this machine.
type KeptRun struct {
	diag.Head

	Run      string    `json:"run"`
	Began    diag.Time `json:"began,omitzero"`
	Scenario string    `json:"scenario,omitempty"`
	Node     string    `json:"node,omitempty"`
	TookMS   int64     `json:"took_ms"`
	Verdict  Verdict   `json:"verdict"`
	Folder   string    `json:"folder"`
}

// ListKept lists the runs whose folders are in a folder, newest first, including those whose log cannot be read.
func ListKept(folder string) (diag.Documents[KeptRun], error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	kept := diag.Documents[KeptRun]{}
	for _, e := range entries {
		if e.IsDir() {
			kept = append(kept, readKept(e.Name(), filepath.Join(folder, e.Name())))
		}
	}
	slices.SortStableFunc(kept, func(x, y KeptRun) int {
		if c := y.Began.Compare(x.Began.Time); c != 0 {
			return c
		}
		return strings.Compare(y.Run, x.Run)
	})
	return kept, nil
}

func readKept(run, folder string) KeptRun {
	k := KeptRun{Head: diag.NewHead("DrillRun"), Run: run, Folder: folder}
	_, data, err := readSource(folder)
	var events []Event
	if err == nil {
		events, _, err = readLog(data)
	}
	if err != nil {
		k.Verdict = Verdict{Word: Infra, Text: "its log cannot be read: " + err.Error()}
		return k
	}
	s := Fold(events)
	d := s.Drill()
	k.Began, k.Scenario, k.Node, k.TookMS, k.Verdict = d.StartedAt, d.Scenario, d.Node, d.DurationMS, d.Verdict
	return k
}

// FindKept returns the folder of the run that is called name, or the folders of those whose name ends in it.
func FindKept(kept []KeptRun, name string) (folders []string) {
	for _, k := range kept {
		if k.Run == name {
			return []string{k.Folder}
		}
		if strings.HasSuffix(k.Run, name) {
			folders = append(folders, k.Folder)
		}
	}
	return folders
}

// journalFile is the name of a machine's journal in a drill's folder on it.
const journalFile = "journal"

// readSource reads a file, or the log or journal in a folder, and returns its path.
func readSource(path string) (string, []byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		inside := filepath.Join(path, EventsFile)
		if _, err := os.Stat(inside); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(filepath.Join(path, journalFile)); err != nil {
				return path, nil, fmt.Errorf("the folder has neither %s nor %s", EventsFile, journalFile)
			}
			inside = filepath.Join(path, journalFile)
		}
		path = inside
	}
	if err != nil {
		return path, nil, err
	}
	data, err := bounded.ReadFile(path)
	return path, data, err
}

// readLog parses a log that has at least the run's id.
func readLog(data []byte) ([]Event, bool, error) {
	events, torn, err := ReadEvents(bytes.NewReader(data))
	if err != nil {
		return nil, false, err
	}
	if len(events) == 0 || events[0].Plan == nil {
		return nil, false, errors.New("the log ends before the run's id: nothing was changed by then")
	}
	return events, torn, nil
}
