package tui

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// testPlan has every hop, from both vantages; the last one is skipped.
func testPlan() diag.Plan {
	p := diag.Plan{Profile: "lab"}
	for _, id := range diag.HopIDs() {
		p.Hops = append(p.Hops, diag.PlannedHop{ID: id, BudgetMS: 8000, Vantages: []string{"operator", "node"},
			Steps: []string{"http", "control"}})
	}
	p.Hops[len(p.Hops)-1].Skip = "not built yet"
	return p
}

func testOptions() Options {
	return Options{Plan: testPlan(), Subject: diag.Subject{NodeID: "compute-node-01", AllocationID: "alloc-01"}}
}

// send sends messages to a model, as the program does.
func send(m model, msgs ...tea.Msg) model {
	for _, msg := range msgs {
		next, _ := m.Update(msg)
		m = next.(model)
	}
	return m
}

func started(id diag.HopID, at time.Duration) eventMsg {
	return eventMsg{Kind: walk.HopStarted, Hop: id, At: at}
}

func stepDone(id diag.HopID, name, vantage string, st diag.Status, took diag.Millis, at time.Duration) eventMsg {
	return eventMsg{Kind: walk.StepDone, Hop: id, At: at,
		Step: diag.StepResult{Name: name, Vantage: vantage, Status: st, DurationMS: took}}
}

func hopDone(id diag.HopID, st diag.Status, text string) eventMsg {
	return eventMsg{Kind: walk.HopDone, Hop: id, Result: diag.HopResult{
		ID: id, Vantage: "operator+node", Finding: diag.Finding{Status: st, Text: text}, DurationMS: 31, BudgetMS: 8000,
		Steps: []diag.StepResult{{Name: "http", Vantage: "node", Status: st, DurationMS: 31}},
	}}
}

// lineOf is the row of a hop, without colours.
func lineOf(t *testing.T, m model, id diag.HopID) string {
	t.Helper()
	for _, l := range strings.Split(ansi.Strip(m.text()), "\n") {
		if strings.Contains(l, string(id)) {
			return strings.TrimRight(l, " ")
		}
	}
	t.Fatalf("no row for %s in\n%s", id, m.text())
	return ""
}

func TestARowFillsFromPendingToDone(t *testing.T) {
	m := newModel(testOptions(), func() {})
	id := diag.HopNodeRuntimeAPI
	if got, want := lineOf(t, m, id),
		" 6   pending      node_runtime_api_reachability                       -/8 s"; got != want {
		t.Errorf("before:\n got %q\nwant %q", got, want)
	}
	m = send(m, started(id, time.Second), tickMsg(1500*time.Millisecond))
	if got, want := lineOf(t, m, id),
		" 6 ⠙ running      node_runtime_api_reachability     ⠙ 500 ms ⠙ 500 ms 500 ms/8 s"; got != want {
		t.Errorf("running:\n got %q\nwant %q", got, want)
	}
	m = send(m, stepDone(id, "http", "node", diag.StatusFail, 420, 1500*time.Millisecond), tickMsg(2*time.Second))
	if got, want := lineOf(t, m, id),
		" 6 ⠹ running      node_runtime_api_reachability     ⠹ 1.0 s  ✘ 420 ms 1.0 s/8 s"; got != want {
		t.Errorf("one vantage in:\n got %q\nwant %q", got, want)
	}
	m = send(m, hopDone(id, diag.StatusPass, "reached"))
	if got, want := lineOf(t, m, id),
		" 6 ✔ pass         node_runtime_api_reachability              ✔ 31 ms  31 ms/8 s"; got != want {
		t.Errorf("done:\n got %q\nwant %q", got, want)
	}
	if got := lineOf(t, m, diag.HopNetworkPath); !strings.HasPrefix(got, "20 – skipped      network_path") {
		t.Errorf("a skipped hop is %q", got)
	}
}

func TestAWideTableSaysWhatIsAwaited(t *testing.T) {
	id := diag.HopNodeRuntimeAPI
	m := send(newModel(testOptions(), func() {}), tea.WindowSizeMsg{Width: 200, Height: 50}, started(id, 0),
		stepDone(id, "control", "operator", diag.StatusPass, 9, 9*time.Millisecond))
	if got := lineOf(t, m, id); !strings.HasSuffix(got, "waits for http") {
		t.Errorf("%q", got)
	}
	m = send(m, hopDone(id, diag.StatusFail, "no answer"))
	if got := lineOf(t, m, id); !strings.HasSuffix(got, "no answer") {
		t.Errorf("%q", got)
	}
}

func TestABudgetOverspentIsMarked(t *testing.T) {
	o := testOptions()
	o.Report.Color = true
	id := diag.HopNodeReadiness
	m := send(newModel(o, func() {}), started(id, 0), tickMsg(9*time.Second))
	if !strings.Contains(m.text(), "\x1b[33m9.0 s/8 s") {
		t.Errorf("9 s of 8 s are not marked in\n%q", m.text())
	}
}

// TestEverySizeFits: whatever the terminal's size, the table is not wider or higher, and the footer stays.
func TestEverySizeFits(t *testing.T) {
	for _, o := range []Options{testOptions(), {Plan: testPlan(), Report: render.Options{Color: true, ASCII: true}}} {
		m := newModel(o, func() {})
		for i, id := range diag.HopIDs() {
			switch i % 3 {
			case 0:
				m = send(m, started(id, 0))
			case 1:
				m = send(m, hopDone(id, diag.Statuses[i%len(diag.Statuses)],
					"text that is long enough to be cut on any terminal, "+strings.Repeat("x", 200)))
			}
		}
		for _, size := range [][2]int{{80, 24}, {200, 50}, {80, 21}, {80, 12}, {60, 24}, {40, 10}, {20, 5}, {10, 2}, {1, 1},
			{0, 0}} {
			m = send(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]}, tickMsg(time.Second))
			lines := strings.Split(m.text(), "\n")
			if size[1] > 0 && len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > max(size[0], 1) {
					t.Errorf("%v: %d columns: %q", size, w, l)
				}
			}
			if size[0] >= 40 && !strings.Contains(ansi.Strip(lines[len(lines)-1]), "hops done") {
				t.Errorf("%v: the footer is %q", size, lines[len(lines)-1])
			}
		}
	}
}

func TestAllRowsFitOn80x24(t *testing.T) {
	m := send(newModel(testOptions(), func() {}), tea.WindowSizeMsg{Width: 80, Height: 24})
	lines := strings.Split(ansi.Strip(m.text()), "\n")
	if len(lines) != len(diag.HopIDs())+frameLines {
		t.Fatalf("%d lines", len(lines))
	}
	for _, id := range diag.HopIDs() {
		lineOf(t, m, id)
	}
	if !strings.Contains(lines[len(lines)-1], "ctrl-c") {
		t.Errorf("the footer does not say how to end: %q", lines[len(lines)-1])
	}
}

// TestALowTerminalKeepsWhatMatters: quiet rows are dropped, failing and running ones stay.
func TestALowTerminalKeepsWhatMatters(t *testing.T) {
	m := send(newModel(testOptions(), func() {}), hopDone(diag.HopNodeReadiness, diag.StatusFail, "full"),
		hopDone(diag.HopNodeOpsAccess, diag.StatusPass, ""),
		started(diag.HopAppUserRoute, 0), tea.WindowSizeMsg{Width: 80, Height: 7})
	lineOf(t, m, diag.HopNodeReadiness)
	lineOf(t, m, diag.HopAppUserRoute)
	if strings.Contains(m.text(), string(diag.HopNodeOpsAccess)) {
		t.Error("a row that passed takes the place of one that failed")
	}
}

func TestASCIIOnly(t *testing.T) {
	o := testOptions()
	o.Report.ASCII = true
	m := send(newModel(o, func() {}), started(diag.HopNodeReadiness, 0), tickMsg(time.Second),
		hopDone(diag.HopNodeHeartbeat, diag.StatusFail, "größe"))
	for _, r := range m.text() {
		if r > 0x7e {
			t.Fatalf("%q is not ASCII", r)
		}
	}
}

func TestCtrlCEndsTheWalkAndNothingElse(t *testing.T) {
	cancelled := false
	m := newModel(testOptions(), func() { cancelled = true })
	next, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	if !cancelled || cmd != nil || !strings.Contains(next.(model).text(), "partial report follows") {
		t.Errorf("cancelled %v, command %v", cancelled, cmd != nil)
	}
	if _, cmd = next.Update(doneMsg{}); cmd == nil {
		t.Error("the end of the walk does not end the program")
	}
}

func TestAnEarlierModelStaysAsItWas(t *testing.T) {
	id := diag.HopNodeReadiness
	a := send(newModel(testOptions(), func() {}), started(id, 0), stepDone(id, "http", "node", diag.StatusPass, 1, 0))
	before := a.text()
	send(a, stepDone(id, "control", "operator", diag.StatusFail, 2, 0), hopDone(id, diag.StatusFail, "x"))
	if a.text() != before {
		t.Error("an update changed the model before it")
	}
}

// terminal is a pseudo-terminal: its far end collects what is drawn.
type terminal struct {
	tty  *os.File
	far  *os.File
	done chan struct{}

	mu   sync.Mutex // guards seen
	seen strings.Builder
}

func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.Write(p)
}

// await returns when text has been drawn.
func (x *terminal) await(t *testing.T, text string) {
	t.Helper()
	if !wait.Until(t, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return strings.Contains(x.seen.String(), text)
	}) {
		t.Errorf("%q is not drawn", text)
	}
}

// interrupt presses Ctrl-C until end is closed.
func (x *terminal) interrupt(t *testing.T, end <-chan struct{}) {
	t.Helper()
	if _, err := x.far.Write([]byte{3}); err != nil {
		t.Error(err)
	}
	select {
	case <-end:
	case <-time.After(30 * time.Second):
		t.Error("Ctrl-C did nothing")
	}
}

func newTerminal(t *testing.T, columns, rows uint16) *terminal {
	t.Helper()
	tier.NeedsHost(t)
	far, tty, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: no pseudo-terminal: %v", err)
	}
	if err := pty.Setsize(far, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{tty: tty, far: far, done: make(chan struct{})}
	go func() {
		defer close(term.done)
		_, _ = io.Copy(term, far) // ends with EIO when the near end is closed
	}()
	t.Cleanup(func() { far.Close() })
	return term
}

// output closes the near end and returns everything that was written to it.
func (x *terminal) output() string {
	x.tty.Close()
	<-x.done
	return x.seen.String()
}

func reportOf(ctx context.Context) *diag.Report {
	r := &diag.Report{Run: diag.Run{EndedBy: diag.EndedCompleted, DurationMS: 42},
		Verdict: diag.Verdict{Outcome: diag.OutcomePass}}
	for _, id := range diag.HopIDs() {
		r.Hops = append(r.Hops, diag.HopResult{ID: id, Finding: diag.Finding{Status: diag.StatusPass}})
	}
	if ctx.Err() != nil {
		r.Run.EndedBy, r.Verdict.Outcome = diag.EndedInterrupted, diag.OutcomeInconclusive
	}
	return r
}

func TestRunOnATerminal(t *testing.T) {
	x := newTerminal(t, 80, 24)
	o := testOptions()
	o.In, o.Out = x.tty, x.tty
	r, err := Run(t.Context(), o, func(ctx context.Context, observe func(walk.Event)) *diag.Report {
		for _, id := range diag.HopIDs() {
			observe(walk.Event(started(id, 0)))
			observe(walk.Event(hopDone(id, diag.StatusPass, "")))
		}
		x.await(t, "hops done")
		return reportOf(ctx)
	})
	out := x.output()
	if err != nil || r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("%v, %v", r, err)
	}
	if strings.Contains(out, "\x1b[?1049h") {
		t.Error("the alternate screen was used: nothing would stay in the scrollback")
	}
	if !strings.Contains(out, "hops done") || !strings.HasSuffix(strings.TrimRight(out, "\r\n "), "hops passed · 42 ms") {
		t.Errorf("no live footer, or the report is not the last thing: %q", out[max(0, len(out)-300):])
	}
	up := "\r\x1b[2K" + strings.Repeat("\x1b[A\x1b[2K", len(diag.HopIDs())+frameLines-1)
	if i := strings.LastIndex(out, up); i < 0 || strings.Contains(out[i:], "hops done") {
		t.Error("the live table is not taken off the screen before the report")
	}
}

func TestCtrlCGivesAPartialReport(t *testing.T) {
	x := newTerminal(t, 80, 24)
	o := testOptions()
	o.In, o.Out = x.tty, x.tty
	r, err := Run(t.Context(), o, func(ctx context.Context, observe func(walk.Event)) *diag.Report {
		observe(walk.Event(started(diag.HopNodeReadiness, 0)))
		x.await(t, "hops done") // the terminal is in raw mode by then
		x.interrupt(t, ctx.Done())
		return reportOf(ctx)
	})
	if out := x.output(); err != nil || r.Run.EndedBy != diag.EndedInterrupted ||
		!strings.Contains(out, diag.EndedInterrupted.Words()) {
		t.Errorf("%+v, %v, %q", r.Run, err, out)
	}
}

func TestTheEndOfTheContextEndsTheTable(t *testing.T) {
	x := newTerminal(t, 80, 24)
	o := testOptions()
	o.In, o.Out = x.tty, x.tty
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, err := Run(ctx, o, func(ctx context.Context, _ func(walk.Event)) *diag.Report {
		<-ctx.Done()
		return reportOf(ctx)
	})
	if x.output(); err != nil || r == nil || r.Run.EndedBy != diag.EndedInterrupted {
		t.Errorf("%v, %v", r, err)
	}
}

// TestWithoutATerminalOnlyTheReportIsWritten: no escape, no spinner, and the terminal device stays closed.
func TestWithoutATerminalOnlyTheReportIsWritten(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions()
	o.Out = out
	if Possible(o.In, o.Out) {
		t.Fatal("a file is taken for a terminal")
	}
	if _, err := Run(t.Context(), o, func(ctx context.Context, observe func(walk.Event)) *diag.Report {
		observe(walk.Event(started(diag.HopNodeReadiness, 0)))
		return reportOf(ctx)
	}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := render.Report(&want, reportOf(t.Context()), render.Options{}); err != nil || string(b) != want.String() {
		t.Errorf("%v\n%s", err, b)
	}
}
