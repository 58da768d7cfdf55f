package drill

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// logText returns the log of a run.
func logText(t *testing.T, run string, events ...Event) string {
	t.Helper()
	var b strings.Builder
	for i, e := range append([]Event{{Kind: Begun, At: diag.At(noon), Plan: &chaos.Plan{Run: run}}}, events...) {
		e.Seq = i + 1
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// file writes a file below a folder of the test, and returns its path.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSources: what each input of a report is read as, and what is refused.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	ended := Event{Kind: Ended, MS: 1000, At: diag.At(noon.Add(time.Second))}
	log := file(t, dir, "r1/"+EventsFile, logText(t, "r1", ended))
	journal := file(t, dir, "on-node/"+journalFile, string(injected().bytes()))
	report := file(t, dir, "report.json", "{}\n")
	file(t, dir, "empty/notes", "")
	torn := file(t, dir, "r3/"+EventsFile, logText(t, "r3")+`{"seq":2,"at`)
	stopped := file(t, dir, "r4/"+EventsFile, logText(t, "r4", Event{Kind: Interrupt, Text: "by hand"}, ended))
	none := file(t, dir, "none.ndjson", `{"seq":1,"event":"begun"}`+"\n")
	finished := &Report{Profile: "lab", Drills: []Drill{{Run: "r9", Log: filepath.Dir(log)}}}
	parse := func([]byte) (*Report, error) { return finished, nil }

	s := &Sources{Tool: "v9", Parse: parse}
	for name, tc := range map[string]struct {
		path     string
		evidence bool
		want     string
	}{
		"no such file":        {filepath.Join(dir, "nothing"), false, "stat "},
		"an empty folder":     {filepath.Join(dir, "empty"), false, "the folder has neither"},
		"a report as a proof": {report, true, "it is neither a machine's journal nor"},
		"no plan":             {none, false, "before the run's id"},
	} {
		if err := s.Add(tc.path, tc.evidence); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	s.Parse = func([]byte) (*Report, error) { return nil, errors.New("another kind") }
	if err := s.Add(report, false); err == nil || len(s.reports) > 0 {
		t.Errorf("what is no report is added: %v", err)
	}
	s.Parse = parse
	if err := s.Add(report, false); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Report(); err != nil || r != finished {
		t.Errorf("a finished report is changed: %+v, %v", r, err)
	}
	for _, path := range []string{filepath.Dir(log), torn, stopped} {
		if err := s.Add(path, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(log, false); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("the same log again: %v", err)
	}
	r, err := s.Report()
	if err != nil || len(r.Drills) != 4 || r.RenderedBy != "v9" || r.Profile != "" || r.EndedBy != diag.EndedInterrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := r.Drills[1]; d.Run != "r1" || d.Log != filepath.Dir(log) || len(d.Trouble) != 0 {
		t.Errorf("%+v", d)
	}
	if d := r.Drills[2]; len(d.Trouble) != 1 || !strings.Contains(d.Trouble[0], "is torn") {
		t.Errorf("trouble of a torn log: %q", d.Trouble)
	}
	for run, want := range map[string]int{"r1": 2, "r4": 3} {
		if got := s.Events(&Drill{Run: run}); len(got) != want {
			t.Errorf("%s: %d events, want %d", run, len(got), want)
		}
	}
	// A finished report names the folder of its run's log.
	empty := &Sources{}
	t.Chdir(filepath.Dir(log)) // a report without a folder does not name this one
	for name, tc := range map[string]struct {
		d    Drill
		want int
	}{
		"its log":            {Drill{Run: "r1", Log: filepath.Dir(log)}, 2},
		"another run's":      {Drill{Run: "r2", Log: filepath.Dir(log)}, 0},
		"no log":             {Drill{Run: "r1"}, 0},
		"a log that is gone": {Drill{Run: "r1", Log: filepath.Join(dir, "gone")}, 0},
	} {
		if got := empty.Events(&tc.d); len(got) != tc.want {
			t.Errorf("%s: %d events, want %d", name, len(got), tc.want)
		}
	}
	s = &Sources{}
	if err := s.Add(filepath.Dir(journal), true); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Report(); err != nil || len(r.Drills) != 1 || r.Drills[0].Node != "" || r.EndedBy != diag.EndedError {
		t.Errorf("a journal alone: %+v, %v", r, err)
	}
	s.runs[0].journals = append(s.runs[0].journals, Journal{Drill: step.Drill{Run: "r2", Node: "n1"},
		Entries: []step.Entry{{Seq: 1}}})
	if _, err := s.Report(); err == nil {
		t.Error("a journal of another run is accepted")
	}
}

// TestReportOfReports: fields in which reports differ are cleared, and the interval covers all.
func TestReportOfReports(t *testing.T) {
	at := func(n int) diag.Time { return diag.At(noon.Add(time.Duration(n) * time.Second)) }
	one := func(profile string, from, to int, by diag.EndedBy) *Report {
		r := &Report{Profile: profile, StartedAt: at(from), EndedBy: by, Drills: []Drill{{Verdict: Verdict{Word: Pass}}}}
		if to > 0 {
			r.EndedAt = at(to)
		}
		return r
	}
	for name, tc := range map[string]struct {
		all      []*Report
		profile  string
		from, to int
		by       diag.EndedBy
	}{
		"one after the other": {[]*Report{one("lab", 1, 2, diag.EndedCompleted), one("lab", 3, 4, diag.EndedCompleted)},
			"lab", 1, 4, diag.EndedCompleted},
		"the other way round": {[]*Report{one("lab", 3, 4, diag.EndedCompleted), one("lab", 1, 2, diag.EndedCompleted)},
			"lab", 1, 4, diag.EndedCompleted},
		"two profiles": {[]*Report{one("lab", 1, 2, diag.EndedCompleted), one("test", 3, 4, diag.EndedCompleted)},
			"", 1, 4, diag.EndedCompleted},
		"the first runs": {[]*Report{one("lab", 1, 0, diag.EndedError), one("lab", 3, 4, diag.EndedCompleted)},
			"lab", 1, 0, diag.EndedError},
		"the second runs": {[]*Report{one("lab", 1, 2, diag.EndedCompleted), one("lab", 3, 0, diag.EndedError)},
			"lab", 1, 0, diag.EndedError},
		"interrupted, then an error": {[]*Report{one("lab", 1, 2, diag.EndedInterrupted),
			one("lab", 3, 4, diag.EndedError)},
			"lab", 1, 4, diag.EndedInterrupted},
		"an error, then interrupted": {[]*Report{one("lab", 1, 2, diag.EndedError),
			one("lab", 3, 4, diag.EndedInterrupted)},
			"lab", 1, 4, diag.EndedInterrupted},
	} {
		s := Sources{reports: tc.all}
		r, err := s.Report()
		if err != nil || r.Profile != tc.profile || r.EndedBy != tc.by || !r.StartedAt.Equal(at(tc.from).Time) ||
			r.EndedAt.IsZero() != (tc.to == 0) || (tc.to > 0 && !r.EndedAt.Equal(at(tc.to).Time)) || len(r.Drills) != 2 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	// A report before runs: what is of the report stays only if the runs agree.
	run := &source{run: "r1", events: []Event{{Kind: Begun, At: at(5), Plan: &chaos.Plan{Run: "r1", Profile: "lab"}}}}
	s := Sources{reports: []*Report{one("lab", 1, 2, diag.EndedCompleted)}, runs: []*source{run}}
	if r, err := s.Report(); err != nil || r.Profile != "lab" || !r.StartedAt.Equal(at(1).Time) || len(r.Drills) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, tc := range []struct {
		a, b *Game
		want bool
	}{{&Game{ID: "g", Seed: 1}, &Game{ID: "h", Seed: 1}, false}, {nil, &Game{ID: "g"}, false},
		{&Game{ID: "g", Seed: 1}, &Game{ID: "g", Seed: 1}, true}} {
		s := Sources{reports: []*Report{{Game: tc.a}, {Game: tc.b}}}
		if r, err := s.Report(); err != nil || (r.Game != nil) != tc.want {
			t.Errorf("%+v and %+v: %+v, %v", tc.a, tc.b, r.Game, err)
		}
	}
}

// TestKept: runs on this machine, newest first; one whose log cannot be read is listed, and says so.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	for _, run := range []string{"1121-a", "1121-b"} {
		file(t, dir, run+"/"+EventsFile, logText(t, run, Event{Kind: Ended, MS: 1234}))
	}
	file(t, dir, "1122-c/"+EventsFile, "")
	file(t, dir, "1123-d/notes", "")
	file(t, dir, "1120-e/"+EventsFile, "x\ny\n")
	file(t, dir, "a-file", "")
	kept, err := ListKept(dir)
	var runs []string
	for _, k := range kept {
		runs = append(runs, k.Run)
	}
	if err != nil || !slices.Equal(runs, []string{"1121-b", "1121-a", "1123-d", "1122-c", "1120-e"}) {
		t.Errorf("%q, %v", runs, err)
	}
	if k := kept[0]; k.TookMS != 1234 || k.Began.IsZero() || k.Folder != filepath.Join(dir, "1121-b") {
		t.Errorf("%+v", k)
	}
	for i, want := range []string{"the folder has neither", "the log ends before", "line 1: "} {
		if v := kept[2+i].Verdict; v.Word != Infra || !strings.HasPrefix(v.Text, "its log cannot be read: "+want) {
			t.Errorf("%+v", v)
		}
	}
	for name, want := range map[string]int{"1121-a": 1, "a": 1, "d": 1, "121-b": 1, "x": 0, "": 5} {
		if got := FindKept(kept, name); len(got) != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := FindKept([]KeptRun{{Run: "x-a", Folder: "1"}, {Run: "a", Folder: "2"}}, "a"); !slices.Equal(got,
		[]string{"2"}) {
		t.Errorf("the run with exactly that name: %q", got)
	}
	if kept, err := ListKept(filepath.Join(dir, "nowhere")); err != nil || len(kept) != 0 {
		t.Errorf("%v, %v", kept, err)
	}
	if _, err := ListKept(filepath.Join(dir, "a-file")); err == nil {
		t.Error("a file is a list of runs")
	}
}

// TestPrune: as many runs are kept as are to be, the newest; what is no run stays.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "0-file", "")
	for i := range Kept + 2 {
		if err := os.Mkdir(filepath.Join(dir, "r"+string(rune('a'+i/26))+string(rune('a'+i%26))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "0 no run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != Kept+2 || entries[2].Name() != "rac" {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if err := Prune(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder that is not there was pruned")
	}
}
