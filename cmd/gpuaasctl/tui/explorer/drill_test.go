package explorer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// drilled returns a recorded drill on real machines, with its log.
func drilled(t *testing.T, name string) (*drill.Report, DrillSource) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "..", "golden", "drills", name+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, _, err := drill.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	story := drill.Fold(events)
	r := &drill.Report{Profile: story.Plan.Profile, EndedBy: diag.EndedCompleted, Drills: []drill.Drill{story.Drill()}}
	r.SetVerdict()
	return r, DrillSource{Events: events, NoWalk: "it was not kept"}
}

// TestDrillKeys: the rows of a drill, a walk that opens like any walk, and the way back from it.
func TestDrillKeys(t *testing.T) {
	r, src := drilled(t, "stale-ca-bundle")
	src.Walk = func(w *drill.WalkView) (*diag.Report, error) {
		if w.N == 1 {
			return nil, errors.New("no such file")
		}
		return recorded(t, "stale-ca-bundle"), nil
	}
	s := open(t, Drill(r, &r.Drills[0], src), Options{})
	s.await("› ✔ the drill: pass")
	for _, step := range []struct{ keys, want string }{
		{"j", "› ✔ preconditions met"}, {"e", "[guards]"}, {"\x1b", "[found]"}, {"l", "[probes]"},
		{"G", "event 21: ended"}, {"r", "event 21: ended"},
		{"/walk 1, before\r", "match 1 of 1"}, {"\x1b", "? help"}, {"\r", "not opened: no such file"},
		{"j", "› ✘ walk 2 during"}, {"\r", "› ✘  6 node_runtime_api"}, {"j", "› ·  7 node_recovery"},
		{"\r", "› ·  7 node_recovery"}, {"?", "[keys]"}, {"q", "[found]"},
		{"q", "› ✘ walk 2 during"}, {"\r", "› ✘  6 node_runtime_api"}, {"\x1b", "› ✘ walk 2 during"},
		{"1", "copied [1]: gpuaasctl chaos report"}, {"g", "› ✔ the drill"}, {"\r", "nothing more is known"},
	} {
		s.press(step.keys)
		s.await(step.want)
	}
	s.press("q")
	if err := s.ended(); err != nil {
		t.Error(err)
	}
}

// TestDrillsOpen: each of several drills opens like a single one, and the first that did not pass is selected.
func TestDrillsOpen(t *testing.T) {
	r, src := drilled(t, "stale-ca-bundle")
	r.Drills = append(r.Drills, r.Drills[0])
	r.Drills[1].Scenario = "another"
	r.Drills[1].Verdict = drill.Verdict{Word: drill.Late, Text: "too late"}
	r.Drills[1].Claims = append([]drill.Claim{}, r.Drills[1].Claims...)
	r.Drills[1].Claims[7].State = drill.Violated
	r.SetVerdict()
	m := newModel(Drills(r, func(*drill.Drill) DrillSource { return src }), Options{Explain: explained}, nil)
	if text := m.text(); !strings.Contains(text, "› ✘ another") {
		t.Errorf("the drill that is late is not chosen:\n%s", text)
	}
	play(m, "enter")
	if text := m.text(); !strings.Contains(text, "› ✘ detected within budget") {
		t.Errorf("the claim that does not hold is not chosen:\n%s", text)
	}
	play(m, "esc")
	if text := m.text(); !strings.Contains(text, "› ✘ another") || len(m.above) != 0 {
		t.Errorf("esc does not go back:\n%s", text)
	}
}

// TestEveryDrillFits: each row of each recorded drill has something to show, and fits on every terminal.
func TestEveryDrillFits(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "golden", "drills", "*.ndjson"))
	if err != nil || len(paths) < 30 {
		t.Fatal(paths, err)
	}
	for i, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".ndjson")
		r, src := drilled(t, name)
		look := []render.Options{{}, {Color: true}, {ASCII: true}}[i%3]
		m := newModel(Drill(r, &r.Drills[0], src), Options{Display: look, Explain: explained}, nil)
		for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 10}} {
			m.resize(size[0], size[1])
			for at := range m.doc.Items {
				m.choose(at)
				if len(m.shown.lines) < 3 {
					t.Fatalf("%s: %s shows nothing: %q", name, m.doc.Items[at].Name, m.shown.plain)
				}
				frame := m.text()
				lines := strings.Split(frame, "\n")
				if len(lines) > size[1] {
					t.Fatalf("%s at %v: %d lines", name, size, len(lines))
				}
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > size[0] {
						t.Fatalf("%s at %v: %d columns: %q", name, size, w, l)
					}
				}
				if k := strings.IndexFunc(frame, func(c rune) bool { return c > 0x7e }); look.ASCII && k >= 0 {
					t.Fatalf("%s at %v: not ASCII: %q", name, size, frame[k:])
				}
				if !look.Color && strings.Contains(frame, "\x1b") {
					t.Fatalf("%s at %v: colours that are off", name, size)
				}
			}
		}
	}
}

// TestHostileDrill: no control sequence in a drill's report or log reaches the terminal.
func TestHostileDrill(t *testing.T) {
	r, src := drilled(t, "stale-ca-bundle")
	d := &r.Drills[0]
	r.Profile, d.Node, d.Title, d.Owner, d.Scenario = hostile, hostile, hostile, hostile, hostile
	d.Run, d.Log, d.Verdict.Text, d.Trouble = d.Run+hostile, hostile, hostile, []string{hostile}
	for i := range d.Claims {
		d.Claims[i].Text, d.Claims[i].Title = hostile, hostile
	}
	for i := range d.Looks {
		d.Looks[i].Why = hostile
	}
	for i := range d.Walks {
		d.Walks[i].Walk, d.Walks[i].UserSaw, d.Walks[i].ReadModel = hostile, hostile, map[string]string{hostile: hostile}
	}
	m0 := &d.Machines[0]
	m0.ID, m0.Why, m0.Steps[0].Text, m0.Steps[0].Changes[0].Place = hostile, hostile, hostile, hostile
	for i := range src.Events {
		e := &src.Events[i]
		e.Machine, e.Step, e.Text = hostile, e.Step+hostile, hostile
	}
	src.NoWalk, src.From = hostile, ""
	m := newModel(Drill(r, d, src), Options{Display: render.Options{Color: true}, Explain: explained}, nil)
	shown := 0
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		m.resize(size[0], size[1])
		for i := range m.doc.Items {
			for m.choose(i); ; {
				frame := m.text()
				if strings.Contains(frame, "X\x1b[31mX") || strings.Contains(frame, "\x1b]") || strings.Contains(frame, "\x1b[2J") {
					t.Fatalf("a foreign sequence is in the frame: %.200q", frame)
				}
				rest := ansi.Strip(frame)
				if k := strings.IndexFunc(rest, func(c rune) bool { return c != '\n' && clean.Hidden(c) }); k >= 0 {
					t.Fatalf("a hidden rune is in the frame: %q", rest[max(0, k-40):min(len(rest), k+20)])
				}
				shown += strings.Count(frame, `\x1b`)
				before := m.at
				if play(m, "space"); m.at == before {
					break
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d of what was planted is shown", shown)
	}
	for _, c := range m.doc.Commands {
		if strings.IndexFunc(c, clean.Hidden) >= 0 {
			t.Errorf("a copied command would be obeyed: %q", c)
		}
	}
}

// entries returns a document with a row for each name.
func entries(title string, names ...string) Document {
	d := Document{Title: title, Noun: "entry", Whole: "the record", Pick: "the record"}
	for _, n := range append([]string{"the record"}, names...) {
		d.Items = append(d.Items, Item{Name: n, Mark: page.Cell{Text: "·"}, Sections: func(render.Options) []render.Section {
			return []render.Section{{Title: "entry", Blocks: []page.Block{page.Para{Text: "about " + n + " of " + title}}}}
		}})
	}
	return d
}

// TestFollowed: if the report changes, the selected row stays selected, new text is found by a search, and the end
// stops following.
func TestFollowed(t *testing.T) {
	newer, over := make(chan Document), make(chan struct{})
	s := open(t, entries("first", "beta", "alpha"), Options{Follow: func(ctx context.Context, show func(Document)) {
		defer close(over)
		for {
			select {
			case <-ctx.Done():
				return
			case d := <-newer:
				show(d)
			}
		}
	}})
	s.await("about the record of first")
	s.press("j")
	s.await("› · beta")
	newer <- entries("second", "gamma", "beta", "alpha")
	s.await("about beta of second")
	s.await("  · gamma")
	s.press("/gamma\r")
	s.await("match 1 of 1")
	newer <- entries("third", "delta", "gamma", "beta")
	s.await("about gamma of third")
	s.press("?")
	s.await("[keys]")
	newer <- entries("fourth", "epsilon") // gamma is gone
	s.await("fourth")
	s.press("?")
	s.await("about epsilon of fourth")
	s.press("\x03")
	if err := s.ended(); !errors.Is(err, context.Canceled) {
		t.Errorf("Ctrl-C ends a report that is followed with %v", err)
	}
	<-over
}

// TestFollowedBelow: the report changes while one of its walks is open, and the way back leads to that walk's row.
func TestFollowedBelow(t *testing.T) {
	first := entries("first", "beta")
	first.Items[1].Open = func() (Document, error) { return entries("inner", "x"), nil }
	m := newModel(first, Options{Explain: explained}, nil)
	play(m, "j", "enter")
	m.Update(newerMsg{entries("second", "gamma", "beta")})
	if text := m.text(); !strings.Contains(text, "of inner") {
		t.Errorf("what is open is gone:\n%s", text)
	}
	play(m, "q")
	if text := m.text(); !strings.Contains(text, "about beta of second") {
		t.Errorf("the way back is to another row:\n%s", text)
	}
}

// TestAClosedTerminalEndsWhatFollows: without any key or signal, following ends.
func TestAClosedTerminalEndsWhatFollows(t *testing.T) {
	over := make(chan struct{})
	s := open(t, entries("first", "beta"), Options{Follow: func(ctx context.Context, _ func(Document)) {
		<-ctx.Done()
		close(over)
	}})
	s.await("about the record of first")
	s.far.Close()
	_ = s.ended()
	<-over
}
