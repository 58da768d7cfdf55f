package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/internal/xunit"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/html5"
)

func rendered(t *testing.T, r *diag.Report, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Report(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares with golden/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("golden", name), got)
}

// TestGolden compares complete renderings: two reports, a pass and a failure with a proof, in every format, and the
// default page of the others. TestEveryFormatStatesTheVerdict checks the fields of all other renderings.
func TestGolden(t *testing.T) {
	extension := map[Format]string{Table: "txt", Wide: "wide.txt", Full: "full.txt", Short: "short.txt", JSON: "json",
		NDJSON: "ndjson", JUnit: "xml", Markdown: "md", HTML: "html"}
	for _, name := range []string{"healthy", "egress-blocked"} {
		for _, f := range Formats {
			golden(t, name+"."+extension[f], rendered(t, reports()[name], Options{Format: f}))
		}
	}
	for name, r := range reports() {
		golden(t, name+".txt", rendered(t, r, Options{}))
	}
	golden(t, "egress-blocked.200.txt", rendered(t, egressBlocked(), Options{Width: 200}))
	golden(t, "egress-blocked.color.txt", rendered(t, egressBlocked(), Options{Color: true}))
	golden(t, "egress-blocked.ascii.txt", rendered(t, egressBlocked(), Options{ASCII: true}))
}

// TestEveryFormatStatesTheVerdict: outcome, blamed hop, signal, owner and first step are in every format that has room
// for them, for every report.
func TestEveryFormatStatesTheVerdict(t *testing.T) {
	for name, r := range reports() {
		want := []string{string(r.Verdict.Outcome)}
		if b := r.Verdict.Blame; b != nil {
			want = append(want, string(b.Hop), string(b.Signal))
		}
		whole := want
		if len(r.Verdict.Recovery) > 0 {
			first, _, _ := strings.Cut(r.Verdict.Recovery[0], ":")
			whole = append(append([]string{}, want...), r.Verdict.Owner, first)
		}
		for f, fields := range map[Format][]string{Table: whole, Wide: whole, JSON: whole, NDJSON: whole, Markdown: whole,
			HTML: whole, Short: want, JUnit: want[1:]} {
			out := strings.ToLower(strings.Join(strings.Fields(rendered(t, r, Options{Format: f, Width: 400})), " "))
			if f == HTML {
				out = strings.ToLower(html5.Text([]byte(out)))
			}
			for _, field := range fields {
				if !strings.Contains(out, strings.ToLower(field)) {
					t.Errorf("%s as %s does not say %q", name, f, field)
				}
			}
		}
	}
}

// TestEveryFormatStatesInsecureHTTP: also a walk that passed, and one that decided nothing.
func TestEveryFormatStatesInsecureHTTP(t *testing.T) {
	for name, r := range reports() {
		for _, f := range Formats {
			for _, width := range []int{0, 60, 100} {
				r.Plan.InsecureHTTP = false
				o := Options{Format: f, Width: width, Height: 24}
				if out := rendered(t, r, o); strings.Contains(out, "insecure") {
					t.Errorf("%s as %s, of another profile: %s", name, f, out)
				}
				r.Plan.InsecureHTTP = true
				if out := rendered(t, r, o); strings.Count(out, "insecure_http") != 1 {
					t.Errorf("%s as %s of width %d: insecure_http is there %d times: %s", name, f, width,
						strings.Count(out, "insecure_http"), out)
				}
			}
		}
	}
}

func TestSameTwice(t *testing.T) {
	for name := range reports() {
		for _, f := range Formats {
			a, b := rendered(t, reports()[name], Options{Format: f}), rendered(t, reports()[name], Options{Format: f})
			if a != b {
				t.Errorf("%s as %s is not stable", name, f)
			}
		}
	}
}

// TestNoLineIsWiderThanThePage: every line fits, except for an unbreakable word of a command.
func TestNoLineIsWiderThanThePage(t *testing.T) {
	all := reports()
	all["hostile"] = hostile()
	for name, r := range all {
		for _, w := range []int{40, 72, 80, 100, 109, 110, 132, 200} {
			for _, f := range []Format{Table, Wide, Full} {
				for _, line := range strings.Split(rendered(t, r, Options{Format: f, Width: w, Color: true}), "\n") {
					inCommand := strings.Contains(line, "$ ") || strings.HasPrefix(line, strings.Repeat(" ", 12))
					if got := ansi.StringWidth(line); got > w && !(inCommand && len(strings.Fields(ansi.Strip(line))) <= 3) {
						t.Errorf("%s as %s at %d: %d columns: %q", name, f, w, got, line)
					}
				}
			}
		}
	}
}

func TestEveryHopAndEveryCountIsThere(t *testing.T) {
	for name, r := range reports() {
		for _, f := range []Format{Table, Wide, JSON, NDJSON, JUnit, Markdown, HTML} {
			out := rendered(t, r, Options{Format: f})
			for _, h := range r.Hops {
				if !strings.Contains(out, string(h.ID)) && !strings.Contains(out, string(h.ID)[:min(31, len(h.ID))]) {
					t.Errorf("%s as %s lacks hop %s", name, f, h.ID)
				}
			}
		}
		out := rendered(t, r, Options{})
		if !strings.Contains(out, Counts(r.Hops)) {
			t.Errorf("%s lacks the counts %q", name, Counts(r.Hops))
		}
		for _, s := range diag.Statuses {
			if !strings.Contains(Counts(r.Hops), s.Words()) {
				t.Errorf("status %s is not counted", s)
			}
		}
	}
}

// TestStatusNeedsNoColour: without colour each row still shows its status as symbol and word.
func TestStatusNeedsNoColour(t *testing.T) {
	for name, r := range reports() {
		out := rendered(t, r, Options{})
		if strings.Contains(out, "\x1b") {
			t.Errorf("%s has an escape without colour", name)
		}
		if plain := ansi.Strip(rendered(t, r, Options{Color: true})); plain != out {
			t.Errorf("%s: colour changes more than colour", name)
		}
		lines := strings.Split(out, "\n")
		for _, h := range r.Hops {
			want := h.Status.Symbol() + " " + h.Status.Words()
			found := false
			for _, l := range lines {
				found = found || (strings.Contains(l, want) && strings.Contains(l, string(h.ID)[:min(14, len(h.ID))]))
			}
			if !found {
				t.Errorf("%s: no row says %q of %s", name, want, h.ID)
			}
		}
	}
}

// TestASCIIKeepsTheLayout: the ASCII output has no byte above ASCII, and every line is as wide as in UTF-8.
func TestASCIIKeepsTheLayout(t *testing.T) {
	r := egressBlocked()
	r.Verdict.RuledOut = append(r.Verdict.RuledOut, "größe 長い")
	for _, f := range []Format{Table, Wide, Full, Short} {
		uni := strings.Split(rendered(t, r, Options{Format: f}), "\n")
		asc := strings.Split(rendered(t, r, Options{Format: f, ASCII: true}), "\n")
		if len(uni) != len(asc) {
			t.Fatalf("%s: %d lines in place of %d", f, len(asc), len(uni))
		}
		for i := range asc {
			if len(asc[i]) != ansi.StringWidth(uni[i]) ||
				strings.IndexFunc(asc[i], func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
				t.Errorf("%s: %q is not %q in ASCII", f, asc[i], uni[i])
			}
		}
	}
}

// TestHostileTextObeysNobody: control characters in a node's answer never reach the terminal.
func TestHostileTextObeysNobody(t *testing.T) {
	for _, f := range Formats {
		for _, o := range []Options{{Format: f}, {Format: f, Width: 200}} {
			out := rendered(t, hostile(), o)
			for _, r := range out {
				if r != '\n' && clean.Hidden(r) {
					t.Errorf("%s lets %U through", f, r)
					break
				}
			}
		}
	}
}

func TestSecretsAreInNoFormat(t *testing.T) {
	for name, r := range reports() {
		if fact(r, "control_plane_access/healthz").Request.Token.Reveal() != canary {
			t.Fatal("the canary is not in the report")
		}
		for _, f := range Formats {
			if strings.Contains(rendered(t, r, Options{Format: f, Width: 400}), canary) {
				t.Errorf("%s as %s shows a secret", name, f)
			}
		}
	}
}

// TestJSONReadsBack: escaping changes no value.
func TestJSONReadsBack(t *testing.T) {
	for name, r := range map[string]*diag.Report{"healthy": healthy(), "hostile": hostile()} {
		out := rendered(t, r, Options{Format: JSON})
		var back diag.Report
		if err := json.Unmarshal([]byte(out), &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back.Verdict, r.Verdict) || !reflect.DeepEqual(back.Hops, r.Hops) {
			t.Errorf("%s does not read back", name)
		}
		if again := rendered(t, &back, Options{Format: JSON}); again != out {
			t.Errorf("%s is another document after reading it back", name)
		}
	}
}

func TestNDJSONIsOneObjectALine(t *testing.T) {
	r := threeFaults()
	lines := strings.Split(strings.TrimSuffix(rendered(t, r, Options{Format: NDJSON}), "\n"), "\n")
	if len(lines) != len(r.Hops)+1 {
		t.Fatalf("%d lines for %d hops", len(lines), len(r.Hops))
	}
	for i, l := range lines {
		var v struct {
			Kind    string
			Hop     diag.HopResult
			Verdict diag.Verdict
		}
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if i < len(r.Hops) && (v.Kind != KindHop || v.Hop.ID != r.Hops[i].ID || v.Hop.Status != r.Hops[i].Status) {
			t.Errorf("line %d is %s %s", i+1, v.Kind, v.Hop.ID)
		}
		if i == len(r.Hops) && (v.Kind != KindVerdict || v.Verdict.Blame == nil ||
			v.Verdict.Blame.Hop != diag.HopNodeReadiness) {
			t.Errorf("last line is %s", l)
		}
	}
}

func TestJUnitReadsBack(t *testing.T) {
	all := reports()
	all["hostile"] = hostile()
	for name, r := range all {
		var s JUnitSuites
		if err := xunit.Check([]byte(rendered(t, r, Options{Format: JUnit}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := xml.Unmarshal([]byte(rendered(t, r, Options{Format: JUnit})), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(s.Suites) != 1 || s.Suites[0].Name != "compute-node-01" || s.Tests != len(s.Suites[0].Cases) {
			t.Fatalf("%s: %d suites, %d tests", name, len(s.Suites), s.Tests)
		}
		failures, errs, skips := 0, 0, 0
		for i, c := range s.Suites[0].Cases {
			var want *JUnitProblem
			switch r.Hops[i].Status {
			case diag.StatusFail:
				want = c.Failure
				if by, symptom := parents(r)[r.Hops[i].ID]; symptom {
					want = c.Skipped
					skips++
					if want != nil && want.Message != "follows from "+string(by) {
						t.Errorf("%s: %s says %q of what follows from %s", name, c.Name, want.Message, by)
					}
					break
				}
				failures++
			case diag.StatusInconclusive:
				want = c.Error
				errs++
			case diag.StatusSkipped, diag.StatusNotReached:
				want = c.Skipped
				skips++
			default:
				if c.Failure != nil || c.Error != nil || c.Skipped != nil {
					t.Errorf("%s: %s passed and has a problem", name, c.Name)
				}
				continue
			}
			if want == nil || want.Message == "" {
				t.Errorf("%s: %s is %s and has no message", name, c.Name, r.Hops[i].Status)
			}
		}
		if skipped := s.Suites[0].Skipped; s.Failures != failures || s.Errors != errs || skipped != skips {
			t.Errorf("%s: counts %d/%d/%d, cases %d/%d/%d", name, s.Failures, s.Errors, skipped, failures, errs, skips)
		}
	}
}

// TestJUnitIsNotGreenForNothing: a walk that ended before it decided anything is an error, not an empty green suite.
func TestJUnitIsNotGreenForNothing(t *testing.T) {
	r := healthy()
	for i := range r.Hops {
		r.Hops[i].Finding = diag.Finding{Status: diag.StatusSkipped, Because: "not in --only"}
	}
	r.Verdict.Outcome = diag.OutcomeInconclusive
	var s JUnitSuites
	if err := xml.Unmarshal([]byte(rendered(t, r, Options{Format: JUnit})), &s); err != nil {
		t.Fatal(err)
	}
	if s.Errors != 1 {
		t.Errorf("%d errors", s.Errors)
	}
}

func TestMarkdownIsCapped(t *testing.T) {
	r := healthy()
	for range 40_000 {
		r.Facts = append(r.Facts, r.Facts[0])
	}
	out := rendered(t, r, Options{Format: Markdown})
	if len(out) > page.MarkdownCap || len(out) < page.MarkdownCap-4096 || !strings.HasSuffix(out, "has everything.\n") {
		t.Errorf("%d bytes, cap is %d", len(out), page.MarkdownCap)
	}
	if !strings.Contains(out, "gpu_health") {
		t.Error("the hops were cut, not the measurements")
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	var b bytes.Buffer
	if err := Report(&b, healthy(), Options{Format: "yaml"}); err == nil || b.Len() > 0 {
		t.Errorf("err %v, %d bytes written", err, b.Len())
	}
	if _, err := ParseFormat("yaml"); err == nil || !strings.Contains(err.Error(), "junit") {
		t.Errorf("%v does not list the formats", err)
	}
	for _, f := range Formats {
		if got, err := ParseFormat(string(f)); err != nil || got != f {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestHTMLIsAPage: every report is a valid HTML page, whatever a node answers.
func TestHTMLIsAPage(t *testing.T) {
	all := reports()
	all["hostile"], all["empty"] = hostile(), &diag.Report{}
	for name, r := range all {
		if err := html5.Check([]byte(rendered(t, r, Options{Format: HTML}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAWriteErrorIsReturned(t *testing.T) {
	for _, f := range Formats {
		if err := Report(brokenPipe{}, healthy(), Options{Format: f}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestEmptyReport: a walk that failed before it measured anything still renders.
func TestEmptyReport(t *testing.T) {
	for _, f := range Formats {
		if out := rendered(t, &diag.Report{Verdict: diag.Verdict{Outcome: diag.OutcomeInconclusive}},
			Options{Format: f}); out == "" {
			t.Errorf("%s writes nothing", f)
		}
	}
}

func TestUTF8(t *testing.T) {
	for locale, want := range map[string]bool{"C.UTF-8": true, "en_US.utf8": true, "C": false, "": false, "POSIX": false,
		"de_DE.ISO-8859-1": false} {
		if UTF8(locale) != want {
			t.Errorf("UTF8(%q) is %v", locale, !want)
		}
	}
}

// TestJUnitOfAForeignReport: characters that are invalid in XML, and a clock that ran backwards, still make a file that
// a CI accepts.
func TestJUnitOfAForeignReport(t *testing.T) {
	r := hostile()
	r.Run.DurationMS, hop(r, diag.HopNodeReadiness).DurationMS = -5, -7
	if err := xunit.Check([]byte(rendered(t, r, Options{Format: JUnit}))); err != nil {
		t.Error(err)
	}
}
