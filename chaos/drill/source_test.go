package drill

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestWhatAFileIs: by its first bytes.
func TestWhatAFileIs(t *testing.T) {
	journal := step.EncodeEntry(step.Entry{Seq: 1, Event: step.EventDrill})
	lost := make([]byte, 2*step.BlockSize)
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"a journal", journal, aJournal}, {"a journal without its first block", lost, aJournal},
		{"a log", []byte(`{"seq":1,"at":"2026-11-21T09:00:00.000Z","ms":0,"event":"` + string(Begun) + `"}` + "\n"), aLog},
		{"a report", []byte("{\n  \"apiVersion\": \"gpuaasctl/v1\"\n}\n"), aReport}, {"nothing", nil, aReport},
		{"a zero byte", []byte{0}, aJournal},
	} {
		if got := kindOf(c.data); got != c.want {
			t.Errorf("%s is %d, want %d", c.name, got, c.want)
		}
	}
}

// TestReportOfAGameDay: a report made again from the logs of one game day's runs still has its seed; one from runs of
// several game days has none.
func TestReportOfAGameDay(t *testing.T) {
	day, other := &Game{ID: "everything", Seed: 7, Order: []string{"b", "a"}}, &Game{ID: "everything", Seed: 8}
	of := func(run string, game *Game) *source {
		return &source{run: run, events: []Event{{Seq: 1, Kind: Begun, Game: game, Plan: &chaos.Plan{Run: run}},
			{Seq: 2, Kind: Ended}}}
	}
	for name, tc := range map[string]struct {
		runs []*source
		want bool
	}{
		"one":               {[]*source{of("r1", day)}, true},
		"two of one":        {[]*source{of("r1", day), of("r2", &Game{ID: "everything", Seed: 7})}, true},
		"of two days":       {[]*source{of("r1", day), of("r2", other)}, false},
		"and one by itself": {[]*source{of("r1", day), of("r2", nil)}, false},
	} {
		r, err := (&Sources{runs: tc.runs}).Report()
		if err != nil || len(r.Drills) != len(tc.runs) || (r.Game != nil) != tc.want || (tc.want && r.Game.Seed != 7) {
			t.Errorf("%s: %v, game day %+v", name, err, r.Game)
		}
	}
}

// TestReportNamesTheToolThatRan: the version in a report is the one in its log, never the reader's, which is
// rendered_by.
func TestReportNamesTheToolThatRan(t *testing.T) {
	of := func(run, tool string) *source {
		begun := Event{Seq: 1, Kind: Begun, Tool: tool, Rules: "1", Plan: &chaos.Plan{Run: run}}
		if tool == "" {
			begun.Rules = ""
		}
		return &source{run: run, events: []Event{begun, {Seq: 2, Kind: Ended}}}
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
		r, err := (&Sources{Tool: "v9", runs: tc.runs}).Report()
		if err != nil || r.ToolVersion != tc.want || r.RenderedBy != "v9" {
			t.Errorf("%s: %v, run by %q (want %q), rendered by %q (want %q)", name, err, r.ToolVersion, tc.want, r.RenderedBy,
				"v9")
			continue
		}
		for i, d := range r.Drills {
			if d.Tool != tc.runs[i].events[0].Tool || d.Rules != tc.runs[i].events[0].Rules {
				t.Errorf("%s: %s was run by %q, rules %q; its log says %+v", name, d.Run, d.Tool, d.Rules, tc.runs[i].events[0])
			}
		}
	}
}
