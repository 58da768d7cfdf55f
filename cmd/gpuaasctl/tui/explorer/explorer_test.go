package explorer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops/explain"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// patience is the timeout for expected output, on a machine that is busy with other tests.
const patience = time.Minute

// recorded is a report of real machines.
func recorded(t *testing.T, name string) *diag.Report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "golden", "reports", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &diag.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// meanings are the words of all outputs.
var meanings = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, e := range explain.All() {
		all[e.Word] = e.Title
	}
	return all
})

func explained(word string) []page.Block {
	if title := meanings()[word]; title != "" {
		return []page.Block{page.Para{Text: title}}
	}
	return nil
}

// screen is an explorer on a pseudo-terminal: keys are written to its far end. It keeps complete frames.
type screen struct {
	t   *testing.T
	far *os.File
	end chan error

	mu    sync.Mutex // guards frame, raw
	frame string
	raw   strings.Builder
}

// open shows a document on a terminal of 80 by 24.
func open(t *testing.T, d Document, o Options) *screen {
	t.Helper()
	far, tty, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: no pseudo-terminal: %v", err)
	}
	if err := pty.Setsize(far, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, far: far, end: make(chan error, 1)}
	o.In, o.Out, o.Explain = tty, tty, explained
	o.drawn = func(frame string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.frame = frame
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, far) // ends with EIO when the near end is closed
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.end <- Run(ctx, d, o) }()
	t.Cleanup(func() {
		cancel()
		tty.Close()
		far.Close()
		<-read
	})
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.Write(p)
}

// wrote returns everything sent to the terminal.
func (s *screen) wrote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

func (s *screen) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ansi.Strip(s.frame)
}

// await returns when text is on the screen.
func (s *screen) await(text string) {
	s.t.Helper()
	s.awaits(text, func() bool { return strings.Contains(s.seen(), text) })
}

func (s *screen) awaits(what string, is func() bool) {
	s.t.Helper()
	if !wait.Until(s.t, is) {
		s.t.Fatalf("%q is not on the screen:\n%s", what, s.seen())
	}
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.far, keys); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the end.
func (s *screen) ended() error {
	s.t.Helper()
	select {
	case err := <-s.end:
		return err
	case <-time.After(patience):
		s.t.Fatal("it does not end")
		return nil
	}
}

func TestKeys(t *testing.T) {
	r := recorded(t, "stale-ca-bundle")
	s := open(t, Walk(r), Options{NoAgain: "no profile is chosen"})
	s.await("› ✘  6 node_runtime_api")
	s.await("[found]")
	for _, step := range []struct{ keys, want string }{
		{"l", "[time]"}, {"\t", "[asked]"}, {"\x1b[C", "[proof]"}, {"h", "[asked]"}, {"l", "[proof]"},
		{"l", "[changed]"}, {"l", "[next]"}, {"\x1b[D", "[changed]"},
		{"j", "› ·  7 node_recovery_status"}, {"k", "› ✘  6 node_runtime"}, {"\x1b[A", "› ✔  5 node_readiness"},
		{"\x1b[B", "› ✘  6 node_runtime"}, {"g", "› ✘ the walk: fail"}, {"G", "› ✔ 18 gpu_health"}, {"b", "› ✘  6 "},
		{"e", "[node_agent_api_tls_failed]"}, {"l", "[tls_unknown_ca]"}, {"\x1b", "[found]"},
		{"?", "[keys]"}, {"q", "[found]"},
		{"/unknown authority\r", "match 1 of "}, {"n", "match 2 of "}, {"N", "match 1 of "}, {"\x1b", "? help"},
		{"/no such text\r", "nothing here has no such text"},
		{"r", "not walked again: no profile is chosen"},
		{"9", "there is no command [9]"},
	} {
		s.press(step.keys)
		s.await(step.want)
	}
	commands := render.Commands(&r.Verdict)
	for n, key := range []string{"1", "y", "y"} {
		s.press(key)
		s.await("copied [" + string(rune('1'+n)) + "]")
		sequence := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(commands[n]))
		s.awaits("OSC 52", func() bool { return strings.Contains(s.wrote(), sequence) })
	}
	s.press("q")
	if err := s.ended(); err != nil {
		t.Error(err)
	}
	s.awaits("the screen before", func() bool { return strings.Contains(s.wrote(), "\x1b[?1049l") })
}

// TestWalkedAgain: a repeated hop is shown above the report's result, a failed repetition shows its error, esc cancels
// one, and quitting waits for one.
func TestWalkedAgain(t *testing.T) {
	healthy := recorded(t, "healthy")
	asked, returned := make(chan string, 9), make(chan struct{}, 9)
	again := func(ctx context.Context, what string) (*Item, error) {
		asked <- what
		switch what {
		case "node_task_roundtrip":
			return nil, errors.New("the node is unknown")
		case "node_heartbeat":
			<-ctx.Done()
			defer func() { returned <- struct{}{} }()
			return nil, ctx.Err()
		}
		item := Hop(healthy, 5)
		return &item, nil
	}
	s := open(t, Walk(recorded(t, "stale-ca-bundle")), Options{Again: again})
	s.await("[found]")
	s.press("r")
	s.await("[now found]")
	s.await("now ✔")
	if what := <-asked; what != "node_runtime_api_reachability" {
		t.Errorf("%s was walked again", what)
	}
	s.press("jj")
	s.await("› ✘  8 node_task")
	s.press("r")
	s.await("not walked again: the node is unknown")
	s.press("gr")
	s.await("choose a hop")
	s.press("jjj")
	s.await("› ✔  3 node_heartbeat")
	s.press("r")
	s.await("walking node_heartbeat again")
	s.press("\x1b")
	<-returned
	s.await("not walked again: context canceled")
	s.press("r")
	s.await("walking node_heartbeat again")
	s.press("q")
	if err := s.ended(); err != nil {
		t.Error(err)
	}
	select {
	case <-returned:
	default:
		t.Error("the end did not wait for the walk")
	}
}

// TestAClosedTerminalEndsIt: it ends without any key or signal.
func TestAClosedTerminalEndsIt(t *testing.T) {
	s := open(t, Walk(recorded(t, "healthy")), Options{})
	s.await("[found]")
	s.far.Close()
	_ = s.ended()
}

// TestTheEndOfTheContextEndsIt: as a signal does.
func TestTheEndOfTheContextEndsIt(t *testing.T) {
	far, tty, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: no pseudo-terminal: %v", err)
	}
	defer far.Close()
	defer tty.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{In: tty, Out: tty, Explain: explained, drawn: func(string) { cancel() }}
	if err := Run(ctx, Walk(recorded(t, "healthy")), o); err != nil {
		t.Error(err)
	}
}

// play sends keys to a model.
func play(m *model, keys ...string) {
	for _, k := range keys {
		m.pressed(k)
	}
}

// TestEverySizeFits: on every terminal the screen is not wider and not higher, and its last line has the keys.
func TestEverySizeFits(t *testing.T) {
	for _, name := range []string{"stale-ca-bundle", "healthy"} {
		r := recorded(t, name)
		for _, look := range []render.Options{{}, {Color: true}, {ASCII: true}} {
			m := newModel(Walk(r), Options{Display: look, Explain: explained, NoAgain: "x"}, nil)
			for _, size := range [][2]int{{80, 24}, {200, 50}, {120, 30}, {69, 20}, {40, 10}, {20, 5}, {10, 2}, {1, 1}, {0, 0}} {
				m.resize(size[0], size[1])
				for _, key := range []string{"b", "l", "l", "l", "?", "e", "esc", "g", "space"} {
					play(m, key)
					frame := m.text()
					lines := strings.Split(frame, "\n")
					if len(lines) > max(size[1], 1) {
						t.Fatalf("%s at %v, %s: %d lines", name, size, key, len(lines))
					}
					for _, l := range lines {
						if w := ansi.StringWidth(l); w > size[0] {
							t.Fatalf("%s at %v, %s: %d columns: %q", name, size, key, w, l)
						}
					}
					if !look.Color && strings.Contains(frame, "\x1b") {
						t.Fatalf("%s at %v, %s: colours that are off: %q", name, size, key, frame)
					}
					if i := strings.IndexFunc(frame, func(c rune) bool { return c > 0x7e }); look.ASCII && i >= 0 {
						t.Fatalf("%s at %v, %s: not ASCII: %q", name, size, key, frame[i:])
					}
					if size[0] >= 40 && !strings.HasPrefix(ansi.Strip(lines[len(lines)-1]), "? help") {
						t.Fatalf("%s at %v, %s: the last line is %q", name, size, key, lines[len(lines)-1])
					}
				}
			}
		}
	}
}

// hostile is text that a terminal interprets.
const hostile = "X\x1b[31mX\x1b[2J\x1b]52;c;cHduZWQ=\x07\x1b]0;t\x1b\\" +
	"\u009b2J\u0085\u202eX\u2066\u200bX\rX\x00\x08\x07\x7f\n"

// TestHostileText: no control sequence in a report or a repeated walk reaches the terminal or the clipboard.
func TestHostileText(t *testing.T) {
	r := recorded(t, "stale-ca-bundle")
	r.Subject.NodeID += hostile
	for i := range r.Hops {
		h := &r.Hops[i]
		h.Text, h.Because, h.Title = h.Text+hostile, h.Because+hostile, h.Title+hostile
		h.Culprit, h.Vantage = hostile, h.Vantage+hostile
		for k := range h.Steps {
			st := &h.Steps[k]
			st.Name, st.Because, st.Vantage = st.Name+hostile, hostile, st.Vantage+hostile
		}
	}
	for i := range r.Facts {
		f := &r.Facts[i]
		f.Detail, f.Target, f.Phase, f.Vantage = f.Detail+hostile, f.Target+hostile, f.Phase+hostile, f.Vantage+hostile
		f.Request.Target, f.Request.Header = f.Request.Target+hostile, map[string]string{"X" + hostile: hostile}
	}
	v := &r.Verdict
	v.Proof.Text, v.RepairProof, v.Owner = hostile, "x "+hostile, v.Owner+hostile
	v.Recovery[0] += hostile + "`rm " + hostile + "`"
	r.Diff = &diag.Diff{Comparable: true, Baseline: diag.Baseline{From: hostile}, Changes: []diag.Change{
		{Kind: diag.ChangeRoute, Hop: v.Blame.Hop, Before: hostile, After: hostile, Facts: []string{hostile}}}}
	d := Walk(r)
	m := newModel(d, Options{Display: render.Options{Color: true}, Explain: explained, NoAgain: hostile}, nil)
	shown := false
	check := func() {
		t.Helper()
		frame := m.text()
		if strings.Contains(frame, "X\x1b[31mX") || strings.Contains(frame, "\x1b]") || strings.Contains(frame, "\x1b[2J") {
			t.Fatalf("a foreign sequence is in the frame: %.200q", frame)
		}
		rest := ansi.Strip(frame)
		if i := strings.IndexFunc(rest, func(c rune) bool { return c != '\n' && clean.Hidden(c) }); i >= 0 {
			t.Fatalf("a hidden rune is in the frame: %q", rest[max(0, i-40):min(len(rest), i+20)])
		}
		shown = shown || strings.Contains(frame, `\x1b`)
	}
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		m.resize(size[0], size[1])
		for i := range d.Items {
			m.choose(i)
			for range 12 {
				check()
				play(m, "space")
			}
		}
	}
	for _, key := range []string{"r", "1", "2", "3", "y", "e", "?"} {
		play(m, key)
		check()
	}
	m.Update(againMsg{0, nil, errors.New(hostile)})
	check()
	m.query = "x" + hostile
	m.find()
	check()
	if !shown {
		t.Error("nothing of what was planted is shown")
	}
	for _, c := range d.Commands {
		if strings.IndexFunc(c, clean.Hidden) >= 0 {
			t.Errorf("a copied command would be obeyed: %q", c)
		}
	}
}

// TestASearchFindsWrappedText: a text that continues on the next line is found, and its line has a mark without
// colours.
func TestASearchFindsWrappedText(t *testing.T) {
	m := newModel(Walk(recorded(t, "stale-ca-bundle")), Options{Explain: explained}, nil)
	m.query = "does not trust https://node-api"
	m.find()
	if len(m.matches) == 0 || !strings.Contains(m.text(), "│ › ") {
		t.Errorf("%d matches\n%s", len(m.matches), m.text())
	}
}

// TestAKeyHasOneMeaning: no key is in two rows, and each row is explained.
func TestAKeyHasOneMeaning(t *testing.T) {
	is := map[string]string{}
	open := func() (Document, error) { return Document{}, nil }
	for _, b := range bindings(&Document{Items: []Item{{Again: "x", Open: open}}}) {
		for _, name := range b.names {
			if is[name] != "" {
				t.Errorf("%s is %s and %s", name, is[name], b.does)
			}
			is[name] = b.does
		}
		if b.shown == "" || b.does == "" || b.do == nil {
			t.Errorf("%v has no words, or does nothing", b.names)
		}
	}
}

var _ tea.Model = (*model)(nil)
