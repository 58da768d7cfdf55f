package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/internal/xunit"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

func rendered(t *testing.T, r *drill.Report, o render.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Report(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}

// TestGolden compares complete renderings of a pass, of residue and of a game day in every format, and the events
// and JSON of all runs, which other tests read. What the other runs must show in every format is compared by
// fields, below.
func TestGolden(t *testing.T) {
	extension := map[render.Format]string{render.Table: "txt", render.Short: "short.txt", render.JUnit: "xml",
		render.Markdown: "md"}
	all := reports(t)
	for _, name := range []string{"pass", "residue", "game-day"} {
		for f, ext := range extension {
			golden(t, name+"."+ext, rendered(t, all[name], render.Options{Format: f}))
		}
	}
	for name, r := range all {
		golden(t, name+".json", rendered(t, r, render.Options{Format: render.JSON}))
	}
	for name, recording := range recordings(t) { // what the tool would have logged, for other tests
		var b bytes.Buffer
		for _, e := range recording.events {
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(text, '\n'))
		}
		golden(t, name+".events.ndjson", b.String())
	}
	for _, w := range []int{60, 120, 200} {
		golden(t, fmt.Sprintf("game-day.%d.txt", w), rendered(t, all["game-day"], render.Options{Width: w}))
	}
	golden(t, "pass.200.txt", rendered(t, all["pass"], render.Options{Width: 200}))
	golden(t, "residue.color.txt", rendered(t, all["residue"], render.Options{Color: true}))
	golden(t, "residue.ascii.txt", rendered(t, all["residue"], render.Options{ASCII: true}))
}

// TestWhatIsLeftHasACommand: the page of a drill that left a machine or the chain changed begins its next steps
// with the command for that.
func TestWhatIsLeftHasACommand(t *testing.T) {
	all := reports(t)
	for name, want := range map[string]string{
		"residue":     "$ gpuaasctl chaos residue --profile lab",
		"no_recovery": "$ gpuaasctl preflight compute-node-01 alloc-01 --profile lab",
		"conflict":    "$ gpuaasctl chaos status --profile lab",
		"pass":        "$ gpuaasctl chaos report ",
		"late":        "$ gpuaasctl chaos report ",
	} {
		_, next, _ := strings.Cut(rendered(t, all[name], render.Options{Format: render.Table, Width: 80}), "\nnext ")
		if _, command, _ := strings.Cut(next, "\n"); !strings.HasPrefix(strings.TrimSpace(command), want) {
			t.Errorf("%s: next is %q, want %q first", name, next, want)
		}
	}
}

// TestEveryVerdictInEveryFormat: the fold gives each run the verdict of its word; each format shows exactly that
// word, and is green only for a pass.
func TestEveryVerdictInEveryFormat(t *testing.T) {
	all := reports(t)
	for _, w := range drill.Words() {
		r := all[string(w)]
		if r == nil {
			t.Errorf("no run ends as %s", w)
			continue
		}
		if got := r.Drills[0].Verdict.Word; got != w {
			t.Errorf("the run of %s is judged %s: %s", w, got, r.Drills[0].Verdict.Text)
			continue
		}
		for _, f := range Formats {
			out := rendered(t, r, render.Options{Format: f})
			if !strings.Contains(out, string(w)) && !strings.Contains(out, strings.ToUpper(string(w))) {
				t.Errorf("%s as %s does not say its verdict", w, f)
			}
		}
		symbol := Status(w).Symbol()
		if out := rendered(t, r, render.Options{Format: render.Short}); !strings.HasPrefix(out, symbol+" "+string(w)+"  ") {
			t.Errorf("%s in short begins with %q", w, out[:min(20, len(out))])
		}
		if err := xunit.Check([]byte(rendered(t, r, render.Options{Format: render.JUnit}))); err != nil {
			t.Errorf("%s: %v", w, err)
		}
		var s render.JUnitSuites
		if err := xml.Unmarshal([]byte(rendered(t, r, render.Options{Format: render.JUnit})), &s); err != nil {
			t.Fatal(err)
		}
		if green := s.Failures+s.Errors == 0; green != (w == drill.Pass) {
			t.Errorf("%s: junit has %d failures and %d errors", w, s.Failures, s.Errors)
		}
	}
}

// TestEveryFormatStatesInsecureHTTP: each format of each run, once a walk of it had a profile with insecure_http: true.
func TestEveryFormatStatesInsecureHTTP(t *testing.T) {
	insecure := drill.NewWalkView(&diag.Report{Plan: diag.Plan{InsecureHTTP: true}}, "")
	for name, r := range reports(t) {
		for _, f := range Formats {
			if len(r.Drills) == 0 {
				continue
			}
			if out := rendered(t, r, render.Options{Format: f}); strings.Contains(out, "insecure") {
				t.Errorf("%s as %s, of another profile: %s", name, f, out)
			}
			own := *r
			own.Drills = slices.Clone(r.Drills)
			d := &own.Drills[len(own.Drills)-1]
			d.Walks = append(slices.Clone(d.Walks), insecure)
			if out := rendered(t, &own, render.Options{Format: f}); !strings.Contains(out, "insecure_http") {
				t.Errorf("%s as %s: %s", name, f, out)
			}
		}
	}
}

// TestJUnitOfADay: a report of several drills, some of which were not run, is accepted by a strict parser.
func TestJUnitOfADay(t *testing.T) {
	for name, r := range reports(t) {
		r.NotRun = append(r.NotRun, "one", "two")
		if err := xunit.Check([]byte(rendered(t, r, render.Options{Format: render.JUnit}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryVerdictInTheMatrix: in one table, each row has its own verdict and symbol, at every width.
func TestEveryVerdictInTheMatrix(t *testing.T) {
	day := reports(t)["game-day"]
	for _, width := range []int{40, 60, 80, 120, 200} {
		lines := strings.Split(rendered(t, day, render.Options{Width: width}), "\n")
		for _, w := range drill.Words() {
			want := Status(w).Symbol() + " " + string(w)
			if !slices.ContainsFunc(lines, func(l string) bool {
				return strings.HasPrefix(l, "api-egre") &&
					strings.HasSuffix(l, want)
			}) {
				t.Errorf("at %d no row says %q", width, want)
			}
		}
	}
}

// TestEveryClaimInEveryFormat: each claim is shown with its state, and in JUnit with its problem.
func TestEveryClaimInEveryFormat(t *testing.T) {
	for name, r := range reports(t) {
		var s render.JUnitSuites
		if err := xml.Unmarshal([]byte(rendered(t, r, render.Options{Format: render.JUnit})), &s); err != nil {
			t.Fatal(err)
		}
		text, markdown := flat(rendered(t, r, render.Options{Format: render.Full})),
			rendered(t, r, render.Options{Format: render.Markdown})
		for i, d := range r.Drills {
			for n, c := range d.Claims {
				symbol := ClaimStatus(c.Outcome()).Symbol()
				if want := symbol + " " + stateWords(c.Outcome()) + " "; !strings.Contains(text, want+strings.Fields(c.Title)[0]) {
					t.Errorf("%s: the page lacks %q of claim %s", name, want, c.ID)
				}
				if want := symbol + " " + stateWords(c.Outcome()) + " " +
					page.Escaped(c.Title); !strings.Contains(flat(markdown), want) {
					t.Errorf("%s: markdown lacks %q", name, want)
				}
				k := s.Suites[i].Cases[n]
				if k.Name != c.ID || (k.Failure != nil) != (c.State == drill.Violated) ||
					(k.Error != nil) != (c.Outcome() == drill.NotSeen) {
					t.Errorf("%s: junit case %+v is not claim %+v", name, k, c)
				}
			}
		}
	}
}

// flat returns text with white space collapsed.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestTheColumnsAreClaims: the claims that the renderer uses by id exist in the fold.
func TestTheColumnsAreClaims(t *testing.T) {
	var ids []string
	for _, c := range new(drill.Story).Claims() {
		ids = append(ids, c.ID)
	}
	for _, id := range []string{drill.ClaimInjected, drill.ClaimDetected, drill.ClaimInTime, drill.ClaimReverted,
		drill.ClaimGreenAfter, drill.ClaimClean} {
		if !slices.Contains(ids, id) {
			t.Errorf("no claim is called %q (there are %v)", id, ids)
		}
	}
}

func TestNoLineIsWiderThanThePage(t *testing.T) {
	all := reports(t)
	all["hostile"] = hostile(t)
	for name, r := range all {
		for _, w := range []int{40, 60, 80, 100, 132, 200} {
			for _, f := range []render.Format{render.Table, render.Wide, render.Full} {
				for _, line := range strings.Split(rendered(t, r, render.Options{Format: f, Width: w, Color: true}), "\n") {
					if got := ansi.StringWidth(line); got > w {
						t.Errorf("%s as %s at %d: %d columns: %q", name, f, w, got, line)
					}
				}
			}
		}
	}
}

func TestColourIsOnlyColour(t *testing.T) {
	for name, r := range reports(t) {
		for _, f := range []render.Format{render.Table, render.Wide, render.Full, render.Short} {
			out := rendered(t, r, render.Options{Format: f})
			if strings.Contains(out, "\x1b") || ansi.Strip(rendered(t, r, render.Options{Format: f, Color: true})) != out {
				t.Errorf("%s as %s: colour is more than colour", name, f)
			}
		}
	}
}

func TestASCIIKeepsTheLayout(t *testing.T) {
	for name, r := range reports(t) {
		uni := strings.Split(rendered(t, r, render.Options{Format: render.Full}), "\n")
		asc := strings.Split(rendered(t, r, render.Options{Format: render.Full, ASCII: true}), "\n")
		for i := range asc {
			if len(asc[i]) != ansi.StringWidth(uni[i]) || (strings.ContainsRune(asc[i], '?') &&
				!strings.ContainsRune(uni[i], '?')) {
				t.Errorf("%s: %q is not %q in ASCII", name, asc[i], uni[i])
			}
		}
	}
}

// hostile is a report of a machine that tries to control the terminal.
func hostile(t *testing.T) *drill.Report {
	const evil = "\x1b[2J\x07\u202ex|y`z<b>"
	r := reports(t)["residue"]
	d := &r.Drills[0]
	d.Title, d.Verdict.Text, d.Node, d.Log, d.Owner = evil, evil, evil, evil, evil
	d.Trouble = []string{evil}
	d.Observed.UserSaw = evil
	d.Claims[0].Text = evil
	d.Machines[0].Residue[0].After = evil
	d.Machines[0].Steps[0].Text = evil
	r.Game = &drill.Game{ID: evil, Title: evil, Order: []string{evil}}
	return r
}

func TestHostileTextObeysNobody(t *testing.T) {
	r := hostile(t)
	for _, notRun := range [][]string{nil, {"\x1b]0;x\x07"}} {
		r.NotRun = notRun
		for _, f := range Formats {
			for _, c := range rendered(t, r, render.Options{Format: f, Width: 200}) {
				if c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) {
					t.Errorf("%s lets %U through", f, c)
					break
				}
			}
		}
	}
	for line := range strings.Lines(rendered(t, r, render.Options{Format: render.Markdown})) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| time") && strings.Count(line, "|") != 3 &&
			strings.Count(line, "|") != len(matrixColumns())+1 {
			t.Errorf("a cell breaks its row: %s", line)
		}
	}
}

func TestSameTwiceAndJSONReadsBack(t *testing.T) {
	again := reports(t)
	for name, r := range reports(t) {
		for _, f := range Formats {
			if rendered(t, r, render.Options{Format: f}) != rendered(t, again[name], render.Options{Format: f}) {
				t.Errorf("%s as %s is not stable", name, f)
			}
		}
		out := rendered(t, r, render.Options{Format: render.JSON})
		var back drill.Report
		if err := json.Unmarshal([]byte(out), &back); err != nil {
			t.Fatal(err)
		}
		if rendered(t, &back, render.Options{Format: render.JSON}) != out {
			t.Errorf("%s is another document after reading it back", name)
		}
	}
}

// TestSpanHoldsWhatWasMeasured: rounding never makes an interval narrower.
func TestSpanHoldsWhatWasMeasured(t *testing.T) {
	for _, c := range []struct {
		after, within int64
		want          string
	}{
		{0, 1, "≤0.01 s"}, {0, 310, "≤0.31 s"}, {0, 999, "≤1.00 s"}, {404, 1101, "0.40–1.2 s"}, {999, 1000, "0.99–1 s"},
		{9_999, 10_001, "9.9–10.1 s"}, {30_999, 124_001, "30.9–125 s"},
	} {
		if got := span(drill.Timing{Seen: true, AfterMS: c.after, WithinMS: c.within}); got != c.want {
			t.Errorf("%d to %d ms is %q, want %q", c.after, c.within, got, c.want)
		}
	}
	for want, unseen := range map[string]drill.Timing{"–": {}, "not in 31.9 s": {AfterMS: 31_900}} {
		if got := span(unseen); got != want {
			t.Errorf("%+v is %q, want %q", unseen, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	budget := chaos.Duration(10 * time.Second)
	for _, c := range []struct {
		t    drill.Timing
		want string
	}{
		{drill.Timing{Budget: budget}, "──────────"},
		{drill.Timing{Budget: budget, Seen: true, WithinMS: 1}, "█─────────"},
		{drill.Timing{Budget: budget, Seen: true, AfterMS: 2000, WithinMS: 3500}, "··██──────"},
		{drill.Timing{Budget: budget, Seen: true, AfterMS: 9999, WithinMS: 10_000}, "·········█"},
		{drill.Timing{Budget: budget, AfterMS: 10_000}, "··········"},
		{drill.Timing{Budget: budget, Seen: true, AfterMS: 18_000, WithinMS: 20_000}, "·····│···█"},
		{drill.Timing{Seen: true, WithinMS: 5}, ""},
	} {
		if got := bar(c.t, 10); got != c.want {
			t.Errorf("%+v is %s, want %s", c.t, got, c.want)
		}
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	var b bytes.Buffer
	if err := Report(&b, reports(t)["pass"], render.Options{Format: "yaml"}); err == nil || b.Len() > 0 ||
		!strings.Contains(err.Error(), "junit") {
		t.Errorf("err %v, %d bytes written", err, b.Len())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAWriteErrorIsReturned(t *testing.T) {
	for _, f := range Formats {
		if err := Report(brokenPipe{}, reports(t)["pass"], render.Options{Format: f}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestWhatIsMissingIsNotGreen renders empty reports, those of a machine alone, and those with an unknown word.
func TestWhatIsMissingIsNotGreen(t *testing.T) {
	empty := &drill.Report{Drills: []drill.Drill{{}}}
	odd := &drill.Report{EndedBy: diag.EndedCompleted, Verdict: drill.Verdict{Word: "splendid"},
		Drills: []drill.Drill{{Verdict: drill.Verdict{Word: "splendid"}}}}
	lone := &drill.Report{Drills: []drill.Drill{{Machines: []drill.MachineResult{{ID: node, Armed: true,
		State: step.Done}}}}}
	for name, r := range map[string]*drill.Report{"empty": empty, "odd": odd, "lone": lone, "none": {}} {
		for _, f := range Formats {
			out := rendered(t, r, render.Options{Format: f})
			if (out == "" && name != "none") || strings.Contains(out, diag.StatusPass.Symbol()) {
				t.Errorf("%s as %s:\n%s", name, f, out)
			}
		}
		var s render.JUnitSuites
		if err := xml.Unmarshal([]byte(rendered(t, r, render.Options{Format: render.JUnit})), &s); err != nil {
			t.Fatal(err)
		}
		if s.Failures+s.Errors == 0 {
			t.Errorf("%s is green in JUnit", name)
		}
	}
}
