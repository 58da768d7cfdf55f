package chaoscmd

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
)

// sources are the inputs of a report: finished reports, and logs and journals of runs.
type sources struct {
	app     *cmdutil.App
	tool    string // the tool that makes a report of them
	reports []*drill.Report
	runs    []*source
}

// source is the data of one run.
type source struct {
	run      string
	log      string // folder
	events   []drill.Event
	torn     bool
	journals []drill.Journal
}

func (s *sources) run(id string) *source {
	for _, r := range s.runs {
		if r.run == id {
			return r
		}
	}
	s.runs = append(s.runs, &source{run: id})
	return s.runs[len(s.runs)-1]
}

// add reads a file, or the one in a folder; its first bytes decide its type. evidence means that a finished report is
// not allowed.
func (s *sources) add(path string, evidence bool) error {
	path, data, err := readSource(path)
	if err != nil {
		return err
	}
	switch kindOf(data) {
	case aJournal:
		j, err := drill.ReadJournal(data)
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
	r, err := parseDrillReport(s.app, data)
	if err == nil {
		s.reports = append(s.reports, r)
	}
	return err
}

func (s *sources) addLog(path string, data []byte) error {
	events, torn, err := readEvents(data)
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

// report makes one report of all sources. A single finished report is returned unchanged.
func (s *sources) report() (*drill.Report, error) {
	if len(s.reports) == 1 && len(s.runs) == 0 {
		return s.reports[0], nil
	}
	r := &drill.Report{Head: diag.NewHead(drill.ReportKind), RenderedBy: s.tool, EndedBy: diag.EndedCompleted,
		Drills: []drill.Drill{}}
	for i, one := range s.reports {
		join(r, i == 0, one)
	}
	for i, run := range s.runs {
		one, err := run.report()
		if err != nil {
			return nil, err
		}
		join(r, i == 0 && len(s.reports) == 0, one)
	}
	r.Settle()
	return r, nil
}

// join adds another report's drills. Fields in which they differ are cleared.
func join(r *drill.Report, first bool, other *drill.Report) {
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

// report folds the data of a run.
func (s *source) report() (*drill.Report, error) {
	events, err := drill.Merge(s.events, s.journals)
	if err != nil {
		return nil, err
	}
	story := drill.Tell(events)
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
	return &drill.Report{
		ToolVersion: story.Tool, Profile: story.Plan.Profile, Game: story.Game, StartedAt: d.StartedAt, EndedAt: d.EndedAt,
		EndedBy: ended, Drills: []drill.Drill{d},
	}, nil
}
