package golden

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// The standard screen; its last line is for the prompt.
const screenWidth, screenHeight = 80, 24

// TestTheScreenEndsWithTheAnswer: for every recorded walk that does not pass, in every look, a screen of 80x24 shows
// outcome, blamed hop, owner and a command, ends with the verdict, and has no line that the terminal would wrap except
// for a command's long word.
func TestTheScreenEndsWithTheAnswer(t *testing.T) {
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		v := &r.Verdict
		if v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn {
			continue
		}
		want := []string{strings.ToUpper(string(v.Outcome)), v.Owner}
		if v.Blame != nil {
			want = append(want, string(v.Blame.Hop), string(v.Blame.Signal))
		}
		if len(v.Recovery) > 0 || v.RepairProof != "" {
			want = append(want, "$ ")
		}
		for _, look := range []render.Options{{}, {Color: true}, {ASCII: true}} {
			look.Width, look.Height = screenWidth, screenHeight
			endsWith(t, path, walked(t, r, look), string(v.Outcome), want)
		}
	}
}

// TestADrillEndsWithTheAnswer: the same for every recorded drill.
func TestADrillEndsWithTheAnswer(t *testing.T) {
	paths, err := filepath.Glob("drills/*.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		r := drilled(t, path)
		d := &r.Drills[0]
		want := []string{d.Owner, "$ gpuaasctl chaos ", d.Run}
		if d.Observed != nil && d.Observed.Blame != nil {
			want = append(want, string(d.Observed.Blame.Hop))
		}
		for _, look := range []render.Options{{}, {Color: true}, {ASCII: true}} {
			look.Width, look.Height = screenWidth, screenHeight
			endsWith(t, path, drillPage(t, r, look), string(d.Verdict.Word), want)
		}
	}
}

// endsWith fails if the last screen of a page lacks a text, or does not end with the verdict.
func endsWith(t *testing.T, path, text, verdict string, want []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(ansi.Strip(text), "\n"), "\n")
	last := lines[max(0, len(lines)-screenHeight+1):]
	screen := strings.Join(strings.Fields(strings.Join(last, " ")), " ")
	for _, w := range want {
		if !strings.Contains(screen+" ", strings.Join(strings.Fields(w), " ")) {
			t.Errorf("%s: the last screen lacks %q:\n%s", path, w, strings.Join(last, "\n"))
		}
	}
	if end := strings.Join(lines[len(lines)-min(3, len(lines)):], " "); !strings.Contains(end,
		" "+strings.ToUpper(verdict)+" ") {
		t.Errorf("%s: the page ends with %q", path, end)
	}
	for _, l := range lines {
		if got := ansi.StringWidth(l); got > screenWidth && len(strings.Fields(l)) > 3 {
			t.Errorf("%s: %d columns: %q", path, got, l)
		}
	}
}

// TestNothingIsCutOnAPipe: on a pipe each hop has one line with its complete text, and nothing ends with an ellipsis.
func TestNothingIsCutOnAPipe(t *testing.T) {
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		text := walked(t, r, render.Options{})
		for i := range r.Hops {
			h := &r.Hops[i]
			if h.Status == diag.StatusPass && !strings.Contains(text, h.Text) {
				t.Errorf("%s: %q is cut", path, h.Text)
			}
		}
		if b := r.Verdict.Blame; b != nil && !strings.Contains(text, b.Text) {
			t.Errorf("%s: %q is cut", path, b.Text)
		}
		if given := string(asDocument(t, r)); strings.Contains(text, "…") && !strings.Contains(given, "…") {
			t.Errorf("%s has an ellipsis:\n%s", path, text)
		}
	}
	paths, err := filepath.Glob("drills/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if text := drillPage(t, drilled(t, path), render.Options{}); strings.Contains(text, "…") {
			t.Errorf("%s has an ellipsis:\n%s", path, text)
		}
	}
}

func walked(t *testing.T, r *diag.Report, o render.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := render.Report(&out, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func drillPage(t *testing.T, r *drill.Report, o render.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := drillrender.Report(&out, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// drilled folds a recorded run's events.
func drilled(t *testing.T, path string) *drill.Report {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	events, _, err := drill.ReadEvents(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	story := drill.Fold(events)
	r := &drill.Report{EndedBy: diag.EndedCompleted, Drills: []drill.Drill{story.Drill()}}
	r.SetVerdict()
	return r
}
