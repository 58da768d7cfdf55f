package chaoscmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/xunit"
)

// TestWhatAFileIs: by its first bytes.
func TestWhatAFileIs(t *testing.T) {
	journal := recording.MachineJournal()
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

// TestReportOfAGameDay: a report made again from the logs of one game day's runs still has its seed; one from runs of
// several game days has none.
func TestReportOfAGameDay(t *testing.T) {
	day, other := &drill.Game{ID: "everything", Seed: 7, Order: []string{"b", "a"}}, &drill.Game{ID: "everything", Seed: 8}
	of := func(run string, game *drill.Game) *source {
		return &source{run: run, events: []drill.Event{{Seq: 1, Kind: drill.Begun, Game: game, Plan: &chaos.Plan{Run: run}},
			{Seq: 2, Kind: drill.Ended}}}
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
		if err != nil || len(r.Drills) != len(tc.runs) || (r.Game != nil) != tc.want || (tc.want && r.Game.Seed != 7) {
			t.Errorf("%s: %v, game day %+v", name, err, r.Game)
		}
	}
}

// TestReportNamesTheToolThatRan: the version in a report is the one in its log, never the reader's, which is
// rendered_by.
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
		r, err := (&sources{tool: "v9", runs: tc.runs}).report()
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

// TestJUnitOfEveryDrill: Jenkins accepts the file for each recorded drill.
func TestJUnitOfEveryDrill(t *testing.T) {
	drills, _ := filepath.Glob("../../../../../golden/drills/*.ndjson")
	if len(drills) < 20 {
		t.Fatalf("%d drills are recorded", len(drills))
	}
	for _, path := range drills {
		var all sources
		if err := all.add(path, false); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r, err := all.report()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var b bytes.Buffer
		if err := drillrender.Report(&b, r, render.Options{Format: render.JUnit}); err != nil {
			t.Fatal(err)
		}
		if err := xunit.Check(b.Bytes()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestFactsAreBounded: a plan that would decode into gigabytes is refused for its contents, with its name.
func TestFactsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	text := `{"kind":"DrillPlan","facts":{"machines":[{}` + strings.Repeat(",{}", 500_000) + "]}}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFacts(t.Context(), &cmdutil.App{}, path); cmdutil.CodeOf(err) != cmdutil.ExitUsage ||
		!strings.Contains(err.Error(), "list elements") || !strings.Contains(err.Error(), path) {
		t.Errorf("facts of a plan: %v", err)
	}
}
