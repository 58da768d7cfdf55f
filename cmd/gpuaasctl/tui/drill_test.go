package tui

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// recordings are read once: scenarios are parsed for them.
var recordings = sync.OnceValue(recording.Runs)

// pausesBetween is the time between two drills of a test.
const pausesBetween = time.Second

// played returns a model that has received the recordings up to a moment of one of them.
func played(m drillModel, upTo int, at time.Duration) drillModel {
	var began time.Duration
	for i, moments := range recordings() {
		for _, x := range moments {
			if i == upTo && x.At > at {
				return tickedTo(m, began+at)
			}
			p := ops.Progress{Index: i, Count: len(recordings()), Event: x.Event, Walk: x.Walk}
			m = sendDrill(m, drillMsg{p, began + x.At})
		}
		if i == upTo {
			return tickedTo(m, began+at)
		}
		began += moments[len(moments)-1].At + pausesBetween
	}
	return m
}

func tickedTo(m drillModel, t time.Duration) drillModel {
	return sendDrill(m, tickMsg(max(m.elapsed, t)))
}

func sendDrill(m drillModel, msgs ...tea.Msg) drillModel {
	for _, msg := range msgs {
		next, _ := m.Update(msg)
		m = next.(drillModel)
	}
	return m
}

func sized(width, height int, look render.Options) drillModel {
	return sendDrill(newDrillModel(DrillOptions{Display: look, Count: 3}, func() {}),
		tea.WindowSizeMsg{Width: width, Height: height})
}

// moments of the recordings that are worth checking: the drill's number, and the time in it.
var moments = []struct {
	name string
	run  int
	at   time.Duration
}{
	{"nothing-yet", 0, -1},
	{"walking-before", 1, 600 * time.Millisecond},
	{"broken", 1, 2800 * time.Millisecond},
	{"found", 1, 6300 * time.Millisecond},
	{"green-again", 1, 9900 * time.Millisecond},
	{"late-and-conflict", 2, 58 * time.Second},
	{"over", 2, time.Hour},
}

func TestDrillFrames(t *testing.T) {
	for _, x := range moments {
		m := played(sized(80, 24, render.Options{}), x.run, x.at)
		for _, size := range [][2]int{{80, 24}, {200, 50}} {
			m = sendDrill(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			golden(t, fmt.Sprintf("drill-%s-%dx%d.txt", x.name, size[0], size[1]), m.text()+"\n")
		}
	}
}

// golden compares with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}

// TestDrillsFitEverySize: whatever the terminal's size, the frame is not wider or higher, and shows the drill and its
// current step.
func TestDrillsFitEverySize(t *testing.T) {
	for _, x := range moments {
		m := played(sized(80, 24, render.Options{}), x.run, x.at)
		for _, m.look = range []render.Options{{}, {Color: true, ASCII: true}} {
			for _, size := range [][2]int{{80, 24}, {200, 50}, {80, 12}, {60, 24}, {40, 10}, {40, 5}, {20, 5}, {10, 2}, {1, 1}} {
				m := sendDrill(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				lines := strings.Split(m.text(), "\n")
				if len(lines) > size[1] {
					t.Errorf("%v, %s: %d lines", size, x.name, len(lines))
				}
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > size[0] {
						t.Errorf("%v, %s: %d columns: %q", size, x.name, w, l)
					}
				}
				if size[0] >= 40 &&
					(!strings.Contains(m.text(), "drill") || !strings.Contains(ansi.Strip(lines[len(lines)-1]), " s  ")) {
					t.Errorf("%v, %s: no headline or no footer in\n%s", size, x.name, m.text())
				}
			}
		}
	}
}

// TestALowTerminalKeepsWhatIsWrong: twelve lines show the machines, the chain, and what needs action.
func TestALowTerminalKeepsWhatIsWrong(t *testing.T) {
	got := played(sized(80, 12, render.Options{}), 2, 58*time.Second).text()
	for _, want := range []string{"three-faults", "platform         ✘ conflict", "chain     1", "✘ late: seen",
		"renew the lease"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "all at once") || strings.Contains(got, "walk 1 ") {
		t.Errorf("what is only good to know takes room in\n%s", got)
	}
}

// TestEveryFrameIsAsHigh: every frame is as high as the previous one, since terminals would keep what is erased for a
// change in the scrollback.
func TestEveryFrameIsAsHigh(t *testing.T) {
	for size, lines := range map[int]int{12: 12, 24: 24, 50: 50, 90: mostLines} {
		m := sized(120, size, render.Options{})
		for i, moments := range recordings() {
			for _, x := range moments {
				m = sendDrill(m, drillMsg{ops.Progress{Index: i, Count: 3, Event: x.Event, Walk: x.Walk}, x.At})
				if n := strings.Count(m.text(), "\n") + 1; n != lines {
					t.Fatalf("%d lines of %d, at %v of drill %d:\n%s", n, lines, x.At, i, m.text())
				}
			}
		}
	}
}

// TestColourOnlyAdds: without its colours a frame equals the one drawn without colour.
func TestColourOnlyAdds(t *testing.T) {
	for _, x := range moments {
		m := played(sized(80, 24, render.Options{}), x.run, x.at)
		without := m.text()
		m.look.Color = true
		with := m.text()
		if got := regexp.MustCompile(` +\n`).ReplaceAllString(ansi.Strip(with), "\n"); got != without {
			t.Errorf("%s:\n%q\n%q", x.name, got, without)
		}
		if with == without {
			t.Errorf("%s has no colour", x.name)
		}
	}
}

func TestDrillsInASCII(t *testing.T) {
	for _, x := range moments {
		for _, r := range played(sized(200, 50, render.Options{ASCII: true}), x.run, x.at).text() {
			if r > 0x7e {
				t.Fatalf("%s: %q is not ASCII", x.name, r)
			}
		}
	}
}

// TestNothingIsViolatedThatMayComeTrue: while the chain has time left, a missing detection is not a failure.
func TestNothingIsViolatedThatMayComeTrue(t *testing.T) {
	got := played(sized(80, 24, render.Options{}), 1, 3500*time.Millisecond)
	if !slices.ContainsFunc(got.now.report.Claims, func(c drill.Claim) bool { return c.Word == drill.NotDetected }) {
		t.Fatal("the story says nothing of the kind, so this shows nothing")
	}
	if strings.Contains(got.text(), "✘") {
		t.Errorf("something is violated already in\n%s", got.text())
	}
}

// TestTheTTLCountsDown: the countdown begins with the machine's own value, and then follows the clock.
func TestTheTTLCountsDown(t *testing.T) {
	m := played(sized(80, 24, render.Options{}), 1, 2800*time.Millisecond)
	for _, want := range []string{"back by itself in  88 s", "lease 19 s"} {
		if !strings.Contains(m.text(), want) {
			t.Errorf("no %q in\n%s", want, m.text())
		}
	}
	m = sendDrill(m, tickMsg(m.elapsed+12*time.Second))
	for _, want := range []string{"back by itself in  76 s", "lease  7 s !"} {
		if !strings.Contains(m.text(), want) {
			t.Errorf("no %q in\n%s", want, m.text())
		}
	}
}

// TestABudgetThatIsOver: an exceeded budget is shown before the late walk ends.
func TestABudgetThatIsOver(t *testing.T) {
	m := played(sized(80, 24, render.Options{}), 2, 50*time.Second)
	if !strings.Contains(m.text(), "✘ late, ") || !strings.Contains(m.text(), "of 45s") {
		t.Errorf("not late in\n%s", m.text())
	}
}

// TestAWalkCutShort: an interrupted walk is not merged with the next one.
func TestAWalkCutShort(t *testing.T) {
	start := func(h int) walk.Event {
		return walk.Event{Kind: walk.HopStarted, Hop: recordings()[0][2*h+1].Walk.Hop}
	}
	c := chain{}.walked(start(0)).walked(start(1))
	again := c.walked(start(0))
	if n := len(again.hops); n != 2 || !again.hops[start(0).Hop].running || again.hops[start(1).Hop].running {
		t.Errorf("%+v", again)
	}
	if !c.hops[start(1).Hop].running {
		t.Error("the earlier chain has changed")
	}
}

// TestAHopOfAProfileIsShown: the chain has a hop that is not in the catalogue, in the row and in the grid.
func TestAHopOfAProfileIsShown(t *testing.T) {
	for height, want := range map[int]string{24: "%d✘", 60: "%d ✘ x.vpn"} {
		m := played(sized(120, height, render.Options{}), 2, 50*time.Second)
		m.now.chain = m.now.chain.ended(map[diag.HopID]diag.Status{"x.vpn": diag.StatusFail})
		want = fmt.Sprintf(want, len(diag.HopsAnd(slices.Values([]diag.HopID{"x.vpn"}))))
		if !strings.Contains(m.text(), want) {
			t.Errorf("%d rows: %q is not in\n%s", height, want, m.text())
		}
	}
}

func TestCtrlCPutsBackAndTheSecondAbandons(t *testing.T) {
	cancelled, abandoned := 0, 0
	m := newDrillModel(DrillOptions{Abandon: func() { abandoned++ }}, func() { cancelled++ })
	press := tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	m = sendDrill(m, press)
	if cancelled != 1 || abandoned != 0 ||
		!strings.Contains(m.text(), "reverting everything, Ctrl-C again leaves it to the machines") {
		t.Errorf("after one: %d, %d\n%s", cancelled, abandoned, m.text())
	}
	m = sendDrill(m, endingMsg{}, press, press)
	if cancelled != 1 || abandoned != 1 || !strings.Contains(m.text(), "left to the machines") {
		t.Errorf("after three: %d, %d\n%s", cancelled, abandoned, m.text())
	}
}

// TestASignalCountsAsTheFirstCtrlC: the context may end without a key.
func TestASignalCountsAsTheFirstCtrlC(t *testing.T) {
	abandoned := false
	m := sendDrill(newDrillModel(DrillOptions{Abandon: func() { abandoned = true }}, func() {}), endingMsg{})
	if !strings.Contains(m.text(), "reverting everything") {
		t.Error(m.text())
	}
	if sendDrill(m, tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); !abandoned {
		t.Error("a Ctrl-C after it is not the second one")
	}
}

func TestAnEarlierDrillModelStaysAsItWas(t *testing.T) {
	a := played(sized(80, 24, render.Options{}), 1, 2800*time.Millisecond)
	before := a.text()
	for _, x := range recordings()[1] {
		sendDrill(a, drillMsg{ops.Progress{Index: 1, Count: 3, Event: x.Event, Walk: x.Walk}, x.At})
	}
	if a.text() != before {
		t.Error("an update changed the model before it")
	}
}

// written is the finish function of these tests.
func written(w io.Writer, width int, r *drill.Report) error {
	_, err := fmt.Fprintf(w, "the report of %d drills in %d columns\n", len(r.Drills), width)
	return err
}

// replayed runs drills that report the first recording at once.
func replayed(ctx context.Context, observe func(ops.Progress)) *drill.Report {
	r := &drill.Report{}
	for _, x := range recordings()[0] {
		observe(ops.Progress{Index: 0, Count: 1, Event: x.Event, Walk: x.Walk})
	}
	r.Drills = append(r.Drills, drill.Drill{})
	return r
}

func TestDrillsOnATerminal(t *testing.T) {
	x := newTerminal(t, 80, 24)
	r, err := RunDrills(t.Context(), DrillOptions{In: x.tty, Out: x.tty, Count: 1},
		func(ctx context.Context, observe func(ops.Progress)) *drill.Report {
			defer x.await(t, "agent-stopped")
			return replayed(ctx, observe)
		}, written)
	out := x.output()
	if err != nil || len(r.Drills) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if strings.Contains(out, "\x1b[?1049h") {
		t.Error("the alternate screen was used: nothing would stay in the scrollback")
	}
	if !strings.Contains(out, "agent-stopped") ||
		!strings.HasSuffix(strings.TrimRight(out, "\r\n"), "the report of 1 drills in 80 columns") {
		t.Errorf("no live view, or the report is not the last thing: %q", out[max(0, len(out)-300):])
	}
	last := out[strings.LastIndex(out, "agent-stopped"):]
	if !strings.Contains(last, "\r"+ansi.EraseEntireLine+ansi.CUU1+ansi.EraseEntireLine) {
		t.Error("the live view is not taken off the screen before the report")
	}
}

// TestTwoCtrlCOnATerminal: the first one ends the context, the second one calls Abandon.
func TestTwoCtrlCOnATerminal(t *testing.T) {
	x := newTerminal(t, 80, 24)
	abandoned := make(chan struct{})
	_, err := RunDrills(t.Context(), DrillOptions{In: x.tty, Out: x.tty, Count: 1, Abandon: func() { close(abandoned) }},
		func(ctx context.Context, _ func(ops.Progress)) *drill.Report {
			x.await(t, "revert everything") // the terminal is in raw mode by then
			x.interrupt(t, ctx.Done())
			x.await(t, "leaves it to the machines")
			x.interrupt(t, abandoned)
			x.await(t, "left to the machines")
			return &drill.Report{}
		}, written)
	if out := x.output(); err != nil {
		t.Errorf("%v, %q", err, out)
	}
}

func TestDrillsWithoutATerminal(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RunDrills(t.Context(), DrillOptions{Out: out, Count: 1}, replayed, written); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil || string(b) != "the report of 1 drills in 0 columns\n" {
		t.Errorf("%q, %v", b, err)
	}
}
