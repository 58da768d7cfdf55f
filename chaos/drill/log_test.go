package drill_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// TestNothingIsTouchedUnlogged: a run whose log cannot be created touches nothing.
func TestNothingIsTouchedUnlogged(t *testing.T) {
	w := newWorld("n1")
	w.fullAt = 1
	o := w.run(t, planOf("n1"))
	if asked := o.boxes["n1"].asked; len(asked) > 0 || o.walks > 0 {
		t.Errorf("asked: %v, %d walks", asked, o.walks)
	}
	if v := o.story.Verdict(); v.Word != drill.AbortedGuard ||
		strings.Count(v.Text, "the run's log cannot be written: no space left on device") != 1 {
		t.Errorf("%s: %s", v.Word, v.Text)
	}
}

// TestLogNamesTheTool: the first event has the versions of the tool that runs the drill, so that even a truncated
// log has them.
func TestLogNamesTheTool(t *testing.T) {
	o := newWorld("n1").run(t, planOf("n1"))
	first, _, _ := bytes.Cut(o.log.Bytes(), []byte("\n"))
	events, _, err := drill.ReadEvents(bytes.NewReader(append(first, '\n')))
	if err != nil || len(events) != 1 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	story := drill.Fold(events)
	if d := story.Drill(); d.Tool != "v1.2.3" || d.Rules != "7" {
		t.Errorf("the drill was run by %q, rules %q", d.Tool, d.Rules)
	}
}

// TestLogThatBreaks: if its log fails in the middle, a run begins nothing that it could not record, reverts
// everything, reports the failure, and does not pass; nor does the replayed log.
func TestLogThatBreaks(t *testing.T) {
	whole := newWorld("n1").run(t, planOf("n1"))
	for at := 2; at <= len(whole.events); at++ {
		w := newWorld("n1")
		w.fullAt = at
		o := w.run(t, planOf("n1"))
		if v := o.story.Verdict(); v.Word != drill.AbortedGuard || !strings.Contains(v.Text, "no space left on device") {
			t.Errorf("full at %d: %s: %s", at, v.Word, v.Text)
		}
		if o.story.Ended.IsZero() || len(left(o.story)) > 0 {
			t.Errorf("full at %d: left %v", at, left(o.story))
		}
		check(t, o)
	}
}

// TestKilledAnywhere: a log that was cut after any of its bytes gives a complete report, and no pass before its
// end.
func TestKilledAnywhere(t *testing.T) {
	o := newWorld("n1", "n2").run(t, planOf("n1", "n2"))
	text := o.log.Bytes()
	closed := bytes.LastIndex(text, []byte(`"event":"closed"`))
	apart := 7
	if testing.Short() { // the race detector's run: the code is the same
		apart = 70
	}
	for n := range len(text) + 1 {
		if n%apart > 0 && n < len(text)-200 && text[n-1] != '\n' {
			continue
		}
		events, torn, err := drill.ReadEvents(bytes.NewReader(text[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if whole := n == 0 || text[n-1] == '\n' || (n < len(text) && text[n] == '\n'); torn == whole {
			t.Fatalf("cut at %d: torn %v", n, torn)
		}
		s := drill.Fold(events)
		d := s.Drill()
		if _, err := json.Marshal(d); err != nil {
			t.Fatal(err)
		}
		if (d.Verdict.Word == drill.Pass && n < closed) || d.Verdict.Word == "" ||
			(d.Verdict.Word != drill.Pass && d.Verdict.Text == "") {
			t.Fatalf("cut at %d: %v", n, d.Verdict)
		}
		if ended := !d.EndedAt.IsZero(); ended && n < len(text)-1 {
			t.Fatalf("cut at %d: it says that it ended", n)
		}
	}
}

// TestLogThatIsNone: garbage or gaps between the lines are an error and not skipped.
func TestLogThatIsNone(t *testing.T) {
	o := newWorld("n1").run(t, planOf("n1"))
	lines := bytes.SplitAfter(o.log.Bytes(), []byte("\n"))
	for name, text := range map[string][]byte{
		"a line is torn in the middle": bytes.Join([][]byte{lines[0], lines[1][:20], []byte("\n"), lines[2]}, nil),
		"a line is missing":            bytes.Join([][]byte{lines[0], lines[2]}, nil),
		"a line comes twice":           bytes.Join([][]byte{lines[0], lines[0]}, nil),
		"the last line has no end, and is too deep": append(bytes.Clone(lines[0]),
			`{"seq":2,"x":`+strings.Repeat("[", 100_000)...),
	} {
		if events, torn, err := drill.ReadEvents(bytes.NewReader(text)); err == nil || len(events) != 1 || torn {
			t.Errorf("%s: %d events, torn %v, %v", name, len(events), torn, err)
		}
	}
	if _, torn, err := drill.ReadEvents(io.LimitReader(brokenReader{}, 1)); err == nil || torn {
		t.Error("a log that cannot be read is one without events")
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, os.ErrPermission }

// TestLogOnDisk: what is written is read back, and an existing run's folder is an error.
func TestLogOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", runID)
	l, err := drill.CreateLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := newWorld("n1").run(t, planOf("n1"))
	for _, e := range o.events {
		var walk *diag.Report
		if e.WalkView != nil {
			walk = &diag.Report{Run: diag.Run{ID: e.WalkView.Walk}}
		}
		if err := l.Write(e, walk); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []drill.Event{{}, {WalkView: &drill.WalkView{N: 99}}} { // a walk is kept with both of its parts
		if err := l.Write(e, map[bool]*diag.Report{true: {}}[e.WalkView == nil]); err != nil {
			t.Error(err)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, drill.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, drill.WalksFolder), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(drill.Event{WalkView: &drill.WalkView{N: 7}}, &diag.Report{}); err == nil {
		t.Error("a walk that cannot be kept is logged")
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, drill.WalksFolder)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, drill.EventsFile)); err != nil || !bytes.Equal(text, before) {
		t.Errorf("the event of a walk that is not kept is in the log: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadDir(filepath.Join(dir, drill.WalksFolder)); err != nil || len(kept) != len(o.story.Walks) {
		t.Errorf("%d walks are kept, %v", len(kept), err)
	}
	if _, err := drill.CreateLog(filepath.Join(dir, drill.EventsFile, "below")); err == nil ||
		!strings.Contains(err.Error(), "make the run's folder") {
		t.Errorf("a folder below a file: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(l.Dir(), drill.EventsFile))
	if err != nil || !bytes.HasPrefix(text, o.log.Bytes()) {
		t.Errorf("%v, or not what was written", err)
	}
	for i := range o.story.Walks {
		var r diag.Report
		b, err := os.ReadFile(filepath.Join(dir, drill.WalksFolder, fmt.Sprintf("%03d.json", i+1)))
		if err != nil || json.Unmarshal(b, &r) != nil || r.Run.ID != o.story.Walks[i].Walk {
			t.Errorf("walk %d: %v", i+1, err)
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	if _, err := drill.CreateLog(dir); err == nil {
		t.Error("another run writes into the same folder")
	}
	if err := l.Write(o.events[0], nil); err == nil {
		t.Error("what cannot be written is no error")
	}
}

// TestEmpty: even an empty list of events gives a report, and no pass.
func TestEmpty(t *testing.T) {
	for name, events := range map[string][]drill.Event{
		"nothing": nil, "no plan": {{Kind: drill.Begun}}, "an empty plan": {{Kind: drill.Begun, Plan: &chaos.Plan{}}},
		"an unknown machine": {{Kind: drill.Broken, Machine: "x"}, {Kind: "news"}},
		"hollow events":      hollow(),
	} {
		s := drill.Fold(events)
		if d := s.Drill(); d.Verdict.Word == drill.Pass || d.Verdict.Text == "" {
			t.Errorf("%s: %v", name, d.Verdict)
		}
	}
	for name, p := range map[string]chaos.Plan{"an empty plan": {},
		"no targets": of(planOf("n1"), func(p *chaos.Plan) { p.Targets = nil })(), "an unknown machine": planOf("n9")} {
		o := newWorld("n1").run(t, p)
		if v := o.story.Verdict(); v.Word == drill.Pass {
			t.Errorf("%s: %v", name, v)
		}
		check(t, o)
	}
}

// hollow returns an empty event of every kind.
func hollow() []drill.Event {
	p := planOf("n1")
	events := []drill.Event{{Kind: drill.Begun, Plan: &p}}
	for _, k := range []drill.Kind{drill.Refused, drill.Walked, drill.Arming, drill.Armed, drill.Breaking, drill.Broken,
		drill.Renewed, drill.Probed, drill.Lost, drill.Stopped, drill.Interrupt, drill.Reverting, drill.Reverted,
		drill.Decided, drill.Compared, drill.Closed, drill.Trouble, drill.Ended} {
		events = append(events, drill.Event{Kind: k, Machine: "n1", Status: &step.Status{}}, drill.Event{Kind: k})
	}
	return events
}

// TestScenariosSurviveTheLog: a report from a log has the same texts of the scenario as the file.
func TestScenariosSurviveTheLog(t *testing.T) {
	files, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, name := range files {
		text, err := scenarios.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := chaos.Parse(name, text)
		if err != nil {
			continue // a game day of drills
		}
		events := []drill.Event{{Seq: 1, Kind: drill.Begun, Plan: &chaos.Plan{Run: runID, Scenario: s}}}
		line, err := json.Marshal(events[0])
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := drill.ReadEvents(bytes.NewReader(append(line, '\n')))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, got := drill.Fold(events), drill.Fold(read)
		again, _ := json.Marshal(read[0])
		if encoded(&want) != encoded(&got) || !bytes.Equal(again, line) {
			t.Errorf("%s is reported as\n%s\nand was\n%s", name, encoded(&got), encoded(&want))
		}
	}
}
