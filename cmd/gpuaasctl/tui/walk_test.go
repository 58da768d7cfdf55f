package tui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// duration matches a time in a row, and budget what follows a slash.
var (
	duration = regexp.MustCompile(`(\d+(?:\.\d+)?) (ms|s)\b`)
	budget   = regexp.MustCompile(`/\d+(?:\.\d+)? (ms|s)\b`)
)

// TestFramesOfRecordedWalks plays every recorded walk on a small terminal, and some on wider ones: columns keep the
// positions of the first frame, no hop took longer than the walk has run, no failed row has a green tick, and
// counter-probes are shown.
func TestFramesOfRecordedWalks(t *testing.T) {
	paths, _ := filepath.Glob("../../../golden/reports/*.json")
	asked, foretold := 0, 0
	for i, path := range paths {
		if testing.Short() && i%3 != 0 { // the race detector's run is shorter: the code is the same
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		widths := []int{80}
		if i%4 == 0 { // frames are slow under the race detector
			widths = append(widths, 120, 200)
		}
		for _, width := range widths {
			o := Options{Plan: r.Plan, Subject: r.Subject, Report: render.Options{Color: true}}
			m := send(newModel(o, func() {}), tea.WindowSizeMsg{Width: width, Height: 40})
			head := header(m)
			now := time.Duration(0)
			for _, e := range recording.Walk(&r) {
				for ; now < e.At; now += 700 * time.Millisecond {
					m = send(m, tickMsg(now))
					checkFrame(t, name, m, head)
				}
				m = send(m, eventMsg(e))
				checkFrame(t, name, m, head)
				if e.Kind == walk.CountersStarted {
					asked++
					if l := lineOf(t, m, e.Hop); !strings.Contains(l, "checking why") {
						t.Errorf("%s: counter-probes are not seen: %q", name, l)
					}
				}
				if e.Kind == walk.LikelySoFar && e.Provisional.Blame != nil {
					foretold++
					b := e.Provisional.Blame
					if l := likelyLine(m); !strings.Contains(l, string(b.Signal)) || !strings.Contains(l, "wait") ||
						ansi.StringWidth(l) > width {
						t.Errorf("%s at %d columns: %q", name, width, l)
					}
				}
				if t.Failed() {
					return
				}
			}
			if last := ansi.Strip(m.text()); !strings.Contains(last, "reading evidence") {
				t.Errorf("%s: all hops are done, and nothing says what it waits for:\n%s", name, last)
			}
		}
	}
	if foretold < 20 && !testing.Short() {
		t.Errorf("%d times was something likely so far", foretold)
	}
	if asked < 10 && !testing.Short() {
		t.Errorf("counter-probes in %d walks of %d", asked, len(paths))
	}
}

// likelyLine is the line above the footer.
func likelyLine(m model) string {
	lines := strings.Split(ansi.Strip(m.text()), "\n")
	return lines[len(lines)-2]
}

func header(m model) string {
	return strings.TrimRight(ansi.Strip(strings.Split(m.text(), "\n")[1]), " ")
}

func checkFrame(t *testing.T, name string, m model, head string) {
	t.Helper()
	if got := header(m); got != head {
		t.Errorf("%s at %v: the columns are\n%q, and were\n%q", name, m.elapsed, got, head)
	}
	var starts []int
	for _, title := range [...]string{"status", "hop", "operator", "node ", "of budget"} {
		starts = append(starts, strings.Index(head, title))
	}
	lines := strings.Split(m.text(), "\n")
	for i := range m.hops {
		line := lines[i+2]
		plain := []rune(ansi.Strip(line))
		for _, at := range starts {
			if at > 0 && at < len(plain) && plain[at-1] != ' ' {
				t.Errorf("%s at %v: something crosses into column %d: %q", name, m.elapsed, at, string(plain))
			}
		}
		if h := &m.hops[i]; h.result == nil && h.started {
			for _, d := range duration.FindAllString(budget.ReplaceAllString(string(plain), ""), -1) {
				// words round
				if took, err := time.ParseDuration(strings.ReplaceAll(d, " ", "")); err != nil ||
					took > m.elapsed+99*time.Millisecond {
					t.Errorf("%s at %v: %s in %q", name, m.elapsed, d, string(plain))
				}
			}
		}
		if strings.Contains(line, "✘ fail") && strings.Contains(line, "✔") {
			t.Errorf("%s: a tick in a failed row: %q", name, string(plain))
		}
	}
}

// TestStepsSideBySideCountOnce: a hop's concurrent steps count once in its time.
func TestStepsSideBySideCountOnce(t *testing.T) {
	id := diag.HopControlPlaneAccess
	m := send(newModel(testOptions(), func() {}), started(id, 0),
		stepDone(id, "http", "operator", diag.StatusFail, 3050, 3100*time.Millisecond),
		stepDone(id, "control", "operator", diag.StatusFail, 3050, 3100*time.Millisecond), tickMsg(3400*time.Millisecond))
	if got := lineOf(t, m, id); !strings.Contains(got, "✘ 3.1 s") && !strings.Contains(got, "✘ 3.0 s") {
		t.Errorf("two steps of 3 s side by side: %q", got)
	}
	m = send(m, stepDone(id, "third", "operator", diag.StatusPass, 1000, 4400*time.Millisecond))
	if got := lineOf(t, m, id); !strings.Contains(got, "✘ 4.0 s") && !strings.Contains(got, "✘ 4.1 s") {
		t.Errorf("and one of 1 s after them: %q", got)
	}
}
