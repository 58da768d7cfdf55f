package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// drillFiles gives a script reports and logs of drills ($DRILLS), and what a machine wrote down of the run that was killed
// there (infra.events.ndjson): machine/journal, as a whole; torn.journal, where a crash hit the last entry.
func drillFiles(e *testscript.Env) error {
	folder, err := filepath.Abs(filepath.Join("..", "..", "chaos", "render", "testdata"))
	if err != nil {
		return err
	}
	e.Setenv("DRILLS", folder)
	if err := os.Mkdir(filepath.Join(e.WorkDir, "machine"), 0o700); err != nil {
		return err
	}
	b := machineJournal()
	if err := os.WriteFile(filepath.Join(e.WorkDir, "machine", "journal"), b, 0o600); err != nil {
		return err
	}
	_, end, _ := step.DecodeJournal(b)
	copy(b[end-step.BlockSize/2:], make([]byte, step.BlockSize/2))
	return os.WriteFile(filepath.Join(e.WorkDir, "torn.journal"), b, 0o600)
}

// machineJournal is a machine's that put itself back because nobody renewed the lease.
func machineJournal() []byte {
	d := step.Drill{
		Schema: step.Schema, Run: "261121-090000-ab12", Scenario: "api-egress-blocked", Node: "compute-node-01", By: "ann@laptop", TTL: 90_000,
		Steps: []step.Step{{ID: "block", Fault: "net-block", Tier: step.TierKernel, Changes: []step.Change{{Block: &step.Block{}}}}},
	}
	n, began := 0, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := make([]byte, 64*step.BlockSize)
	at := 0
	for i, e := range []struct {
		ms int64
		step.Entry
	}{
		{900, step.Entry{Event: step.EventDrill, Note: d.Encode(), By: step.ByCLI}},
		{1100, step.Entry{Event: step.EventArmed, By: step.ByCLI}},
		{1200, step.Entry{Event: step.EventChange, Step: "block", Change: &n, State: step.Done, By: step.ByWatchdog}},
		{24_000, step.Entry{Event: step.EventRevert, Text: step.WhyLease, By: step.ByWatchdog}},
		{24_031, step.Entry{Event: step.EventChange, Step: "block", Change: &n, State: step.Reverted, By: step.ByWatchdog}},
	} {
		e.Seq, e.At, e.Boot, e.BootNS = i+1, began.Add(time.Duration(e.ms)*time.Millisecond), "b1", e.ms*int64(time.Millisecond)
		at += copy(b[at:], step.EncodeEntry(e.Entry))
	}
	return b
}

// TestWhatAFileIs: by its first bytes.
func TestWhatAFileIs(t *testing.T) {
	journal := machineJournal()
	lost := append(make([]byte, step.BlockSize), journal[step.BlockSize:]...)
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"a journal", journal, aJournal}, {"a journal without its first block", lost, aJournal},
		{"a log", []byte(`{"seq":1,"at":"2026-11-21T09:00:00.000Z","ms":0,"event":"` + string(drill.Begun) + `"}` + "\n"), aLog},
		{"a report", []byte("{\n  \"apiVersion\": \"gpuaasctl/v1\"\n}\n"), aReport}, {"nothing", nil, aReport},
	} {
		if got := kindOf(c.data); got != c.want {
			t.Errorf("%s is %d, want %d", c.name, got, c.want)
		}
	}
}

// TestReportOfAGameDay: runs of one game day, told again from their logs, still have its seed; runs of several have none.
func TestReportOfAGameDay(t *testing.T) {
	day, other := &drill.Game{ID: "everything", Seed: 7, Order: []string{"b", "a"}}, &drill.Game{ID: "everything", Seed: 8}
	of := func(run string, game *drill.Game) *source {
		return &source{run: run, events: []drill.Event{{Seq: 1, Kind: drill.Begun, Book: game, Plan: &chaos.Plan{Run: run}}, {Seq: 2, Kind: drill.Ended}}}
	}
	for name, tc := range map[string]struct {
		runs []*source
		want bool
	}{
		"one":               {[]*source{of("r1", day)}, true},
		"two of one":        {[]*source{of("r1", day), of("r2", &drill.Game{ID: "everything", Seed: 7})}, true},
		"of two days":       {[]*source{of("r1", day), of("r2", other)}, false},
		"and one by itself": {[]*source{of("r1", day), of("r2", nil)}, false},
	} {
		r, err := (&sources{runs: tc.runs}).report()
		if err != nil || len(r.Drills) != len(tc.runs) || (r.Book != nil) != tc.want || tc.want && r.Book.Seed != 7 {
			t.Errorf("%s: %v, book %+v", name, err, r.Book)
		}
	}
}

// TestReportNamesTheToolThatRan: the version in a report is that of its log, and never the reader's, which is rendered_by.
func TestReportNamesTheToolThatRan(t *testing.T) {
	of := func(run, tool string) *source {
		begun := drill.Event{Seq: 1, Kind: drill.Begun, Tool: tool, Rules: "1", Plan: &chaos.Plan{Run: run}}
		if tool == "" {
			begun.Rules = ""
		}
		return &source{run: run, events: []drill.Event{begun, {Seq: 2, Kind: drill.Ended}}}
	}
	for name, tc := range map[string]struct {
		runs []*source
		want string
	}{
		"a log with a version":     {[]*source{of("r1", "v0.1")}, "v0.1"},
		"a log of an older tool":   {[]*source{of("r1", "")}, ""},
		"two of one version":       {[]*source{of("r1", "v0.1"), of("r2", "v0.1")}, "v0.1"},
		"two of two versions":      {[]*source{of("r1", "v0.1"), of("r2", "v0.2")}, ""},
		"one has none":             {[]*source{of("r1", ""), of("r2", "v0.2")}, ""},
		"the first has one":        {[]*source{of("r1", "v0.1"), of("r2", "")}, ""},
		"three, the last as first": {[]*source{of("r1", "v0.1"), of("r2", "v0.2"), of("r3", "v0.1")}, ""},
	} {
		r, err := (&sources{runs: tc.runs}).report()
		if err != nil || r.ToolVersion != tc.want || r.RenderedBy != toolVersion() {
			t.Errorf("%s: %v, run by %q (want %q), rendered by %q (want %q)", name, err, r.ToolVersion, tc.want, r.RenderedBy, toolVersion())
			continue
		}
		for i, d := range r.Drills {
			if d.Tool != tc.runs[i].events[0].Tool || d.Rules != tc.runs[i].events[0].Rules {
				t.Errorf("%s: %s was run by %q, rules %q; its log says %+v", name, d.Run, d.Tool, d.Rules, tc.runs[i].events[0])
			}
		}
	}
}
