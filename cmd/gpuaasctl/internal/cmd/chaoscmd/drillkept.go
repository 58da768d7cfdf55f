package chaoscmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/history"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// keptRun is a run whose log is on this machine.
type keptRun struct {
	diag.Head

	Run      string        `json:"run"`
	Began    diag.Time     `json:"began,omitzero"`
	Scenario string        `json:"scenario,omitempty"`
	Node     string        `json:"node,omitempty"`
	TookMS   int64         `json:"took_ms"`
	Verdict  drill.Verdict `json:"verdict"`
	Folder   string        `json:"folder"`
}

// keptRuns lists this user's runs, newest first, including those whose log cannot be read.
func keptRuns(a *cmdutil.App) (diag.Documents[keptRun], error) {
	folder, err := drillsFolder(a)
	if err != nil {
		return nil, &cmdutil.UsageError{Err: err}
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	kept := diag.Documents[keptRun]{}
	for _, e := range entries {
		if e.IsDir() {
			kept = append(kept, readKept(e.Name(), filepath.Join(folder, e.Name())))
		}
	}
	slices.SortStableFunc(kept, func(x, y keptRun) int {
		if c := y.Began.Compare(x.Began.Time); c != 0 {
			return c
		}
		return strings.Compare(y.Run, x.Run)
	})
	return kept, nil
}

func readKept(run, folder string) keptRun {
	k := keptRun{Head: diag.NewHead("DrillRun"), Run: run, Folder: folder}
	_, data, err := readSource(folder)
	var events []drill.Event
	if err == nil {
		events, _, err = readEvents(data)
	}
	if err != nil {
		k.Verdict = drill.Verdict{Word: drill.Infra, Text: "its log cannot be read: " + err.Error()}
		return k
	}
	s := drill.Tell(events)
	d := s.Drill()
	k.Began, k.Scenario, k.Node, k.TookMS, k.Verdict = d.StartedAt, d.Scenario, d.Node, d.DurationMS, d.Verdict
	return k
}

// runFolder returns the folder of a run, by its id or a suffix of it.
func runFolder(a *cmdutil.App, name string) (string, error) {
	kept, err := keptRuns(a)
	if err != nil {
		return "", err
	}
	var found []string
	for _, k := range kept {
		if k.Run == name {
			return k.Folder, nil
		}
		if strings.HasSuffix(k.Run, name) {
			found = append(found, k.Folder)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return "", cmdutil.Usagef("%s is the end of %d runs: give more of it", name, len(found))
	}
	return "", &cmdutil.UsageError{
		Err:     fmt.Errorf("neither a file nor a kept run is called %q (--list lists the runs)", name),
		Command: "gpuaasctl chaos report",
	}
}

func completeDrillRuns(a *cmdutil.App) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		kept, err := keptRuns(a)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		for _, k := range kept {
			words = append(words, k.Run+"\t"+k.Scenario+" "+string(k.Verdict.Word))
		}
		return words, cobra.ShellCompDirectiveDefault // or the path of a file
	}
}

// journalFile is the name of a machine's journal in a drill's folder on it.
const journalFile = "journal"

// readSource reads a file, or the log or journal in a folder, and returns its path.
func readSource(path string) (string, []byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		inside := filepath.Join(path, drill.EventsFile)
		if _, err := os.Stat(inside); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(filepath.Join(path, journalFile)); err != nil {
				return path, nil, fmt.Errorf("the folder has neither %s nor %s", drill.EventsFile, journalFile)
			}
			inside = filepath.Join(path, journalFile)
		}
		path = inside
	}
	if err != nil {
		return path, nil, err
	}
	data, err := readBounded(path)
	return path, data, err
}

// readBounded reads a file whose path may come from foreign data.
func readBounded(path string) ([]byte, error) {
	f, err := cmdutil.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded.Read(f, bounded.DocumentBytes)
}

// readEvents parses a log that has at least the run's id.
func readEvents(data []byte) ([]drill.Event, bool, error) {
	events, torn, err := drill.ReadEvents(bytes.NewReader(data))
	if err != nil {
		return nil, false, err
	}
	if len(events) == 0 || events[0].Plan == nil {
		return nil, false, errors.New("the log ends before the run's id: nothing was changed by then")
	}
	return events, torn, nil
}

// What a file may be.
const (
	aReport = iota
	aLog
	aJournal
)

// kindOf decides by the first bytes. A journal is recognized even if its first entry was lost.
func kindOf(data []byte) int {
	head := data[:min(len(data), 512)]
	line, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.HasPrefix(data, []byte("gpuaas-drill ")), len(head) > 0 && head[0] == 0:
		return aJournal
	case bytes.HasPrefix(line, []byte(`{"seq":`)):
		return aLog
	}
	return aReport
}

// drillsFolder returns the folder of runs: next to the history of walks.
func drillsFolder(a *cmdutil.App) (string, error) {
	path, err := history.Path(a.Env, os.Geteuid() == 0)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "drills"), nil
}
