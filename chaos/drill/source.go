package drill

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

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

// Sources are the inputs of a report: finished reports, and logs and journals of runs.
type Sources struct {
	Tool  string                        // the tool that makes a report of them
	Parse func([]byte) (*Report, error) // parses a finished report

	reports []*Report
	runs    []*source
}

// source is the data of one run.
type source struct {
	run      string
	log      string // folder
	events   []Event
	torn     bool
	journals []Journal
}

func (s *Sources) run(id string) *source {
	for _, r := range s.runs {
		if r.run == id {
			return r
		}
	}
	s.runs = append(s.runs, &source{run: id})
	return s.runs[len(s.runs)-1]
}

// Add reads a file, or the one in a folder; its first bytes decide its type. evidence means that a finished report is
// not allowed.
func (s *Sources) Add(path string, evidence bool) error {
	path, data, err := readSource(path)
	if err != nil {
		return err
	}
	switch kindOf(data) {
	case aJournal:
		j, err := ReadJournal(data)
		if err != nil {
			return err
		}
		r := s.run(j.Drill.Run)
		r.journals = append(r.journals, j)
		return nil
	case aLog:
		return s.addLog(path, data)
	}
	if evidence {
		return errors.New("it is neither a machine's journal nor a run's events.ndjson")
	}
	r, err := s.Parse(data)
	if err == nil {
		s.reports = append(s.reports, r)
	}
	return err
}

func (s *Sources) addLog(path string, data []byte) error {
	events, torn, err := readLog(data)
	if err != nil {
		return err
	}
	r := s.run(events[0].Plan.Run)
	if r.events != nil {
		return fmt.Errorf("the events of run %s are given twice", r.run)
	}
	r.events, r.torn = events, torn
	if abs, err := filepath.Abs(path); err == nil {
		r.log = filepath.Dir(abs)
	}
	return nil
}

// Report makes one report of all sources. A single finished report is returned unchanged.
func (s *Sources) Report() (*Report, error) {
	if len(s.reports) == 1 && len(s.runs) == 0 {
		return s.reports[0], nil
	}
	r := &Report{Head: diag.NewHead(ReportKind), RenderedBy: s.Tool, EndedBy: diag.EndedCompleted,
		Drills: []Drill{}}
	for i, one := range s.reports {
		addReport(r, i == 0, one)
	}
	for i, run := range s.runs {
		one, err := run.report()
		if err != nil {
			return nil, err
		}
		addReport(r, i == 0 && len(s.reports) == 0, one)
	}
	r.SetVerdict()
	return r, nil
}

// addReport adds another report's drills. Fields in which they differ are cleared.
func addReport(r *Report, first bool, other *Report) {
	if first {
		r.Profile, r.Game, r.StartedAt, r.EndedAt = other.Profile, other.Game, other.StartedAt, other.EndedAt
		r.ToolVersion = other.ToolVersion
	} else {
		if r.ToolVersion != other.ToolVersion {
			r.ToolVersion = ""
		}
		if r.Game != nil && (other.Game == nil || r.Game.ID != other.Game.ID || r.Game.Seed != other.Game.Seed) {
			r.Game = nil
		}
		if r.Profile != other.Profile {
			r.Profile = ""
		}
		if other.StartedAt.Before(r.StartedAt.Time) {
			r.StartedAt = other.StartedAt
		}
		if r.EndedAt.IsZero() || other.EndedAt.IsZero() {
			r.EndedAt = diag.Time{}
		} else if other.EndedAt.After(r.EndedAt.Time) {
			r.EndedAt = other.EndedAt
		}
	}
	if other.EndedBy != diag.EndedCompleted && r.EndedBy != diag.EndedInterrupted {
		r.EndedBy = other.EndedBy
	}
	r.Drills, r.NotRun = append(r.Drills, other.Drills...), append(r.NotRun, other.NotRun...)
}

// Events returns the events of a drill: those of its sources, else those in the folder that its report names; none if
// that belongs to another run.
func (s *Sources) Events(d *Drill) (events []Event) {
	for _, r := range s.runs {
		if r.run == d.Run {
			events, _ = Merge(r.events, r.journals) // it was merged before, to make the report
		}
	}
	if events != nil || d.Log == "" {
		return events
	}
	data, err := bounded.ReadFile(filepath.Join(d.Log, EventsFile))
	if err != nil {
		return nil
	}
	if events, _, err = readLog(data); err != nil || events[0].Plan.Run != d.Run {
		return nil
	}
	return events
}

// report folds the data of a run.
func (s *source) report() (*Report, error) {
	events, err := Merge(s.events, s.journals)
	if err != nil {
		return nil, err
	}
	story := Fold(events)
	d := story.Drill()
	d.Log = s.log
	if s.torn {
		d.Trouble = append(d.Trouble, "the last line of the log is torn: the tool was killed while it wrote it")
	}
	ended := diag.EndedCompleted
	switch {
	case story.Interrupted != "":
		ended = diag.EndedInterrupted
	case story.Ended.IsZero():
		ended = diag.EndedError
	}
	return &Report{
		ToolVersion: story.Tool, Profile: story.Plan.Profile, Game: story.Game, StartedAt: d.StartedAt, EndedAt: d.EndedAt,
		EndedBy: ended, Drills: []Drill{d},
	}, nil
}
