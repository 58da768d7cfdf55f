package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// sources are a module with tests of every kind of end. TestUnstable fails only once: it leaves a file.
var sources = map[string]string{
	"go.mod": "module example\n",
	"good/x_test.go": `package x
import ("os"; "testing")
func TestGood(t *testing.T) { for _, n := range []string{"a", "b"} { t.Run(n, func(*testing.T) {}) } }
func TestSkipped(t *testing.T) { t.Skip("needs nft") }
func TestUnstable(t *testing.T) {
	t.Run("a row (1)", func(t *testing.T) {
		if _, err := os.Stat("../once"); err != nil { os.WriteFile("../once", nil, 0o600); t.Error("for the first time") }
	})
}`,
	"bad/x_test.go": `package x
import "testing"
func TestBad(t *testing.T) { t.Run("row", func(t *testing.T) { t.Error("always") }) }
func TestRace(t *testing.T) { if false { t.Error("no") } }`,
	"panics/x_test.go": `package x
import "testing"
func TestPanics(t *testing.T) { panic("oh") }`,
	"broken/x_test.go": `package x
func f() { undefined() }`,
}

// TestRuns: of real runs of go test, what passed, what is unstable, and what failed and why.
func TestRuns(t *testing.T) {
	tier.NeedsHost(t)
	dir := t.TempDir()
	for name, text := range sources {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	for name, tc := range map[string]struct {
		packages         string
		strict           bool
		least            int
		unstable, counts string
		failed           []string // beginnings of the error's lines
		say              []string
	}{
		"good": {packages: "./good", least: 3, unstable: "example/good TestUnstable/a_row_(1)",
			counts: "3 passed, 1 skipped, 1 unstable, 0 failed", say: []string{"needs nft: example/good TestSkipped"}},
		"strict": {packages: "./good", strict: true, failed: []string{`skipped: example/good TestSkipped: "needs nft"`},
			counts: "5 passed, 1 skipped, 0 unstable, 1 failed"},
		"too few": {packages: "./good", least: 9, failed: []string{"5 tests passed, want at least 9"}},
		"bad": {packages: "./bad", failed: []string{"failed: example/bad TestBad/row"}, say: []string{"always"},
			counts: "1 passed, 0 skipped, 0 unstable, 1 failed"},
		"panics":  {packages: "./panics", failed: []string{"failed: example/panics"}, say: []string{"panic: oh"}},
		"broken":  {packages: "./broken", failed: []string{"failed: example/broken"}, say: []string{"undefined: undefined"}},
		"nowhere": {packages: "./nowhere", failed: []string{"failed:"}},
	} {
		if name == "strict" || name == "too few" { // these run after "good", which leaves the file
			defer func() { _ = os.Remove(filepath.Join(dir, "once")) }()
			_ = os.WriteFile(filepath.Join(dir, "once"), nil, 0o600)
		} else {
			_ = os.Remove(filepath.Join(dir, "once"))
		}
		var out bytes.Buffer
		u := suite{flags: []string{"-count=1", "-vet=off"}, packages: []string{tc.packages}}
		err := runSuites(t.Context(), &out, []suite{u}, bounds{strict: tc.strict, least: tc.least})
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if !slices.EqualFunc(got, tc.failed, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q\n%s", name, got, tc.failed, &out)
		}
		if tc.unstable != "" && !strings.Contains(out.String(), "unstable: "+tc.unstable+" failed") {
			t.Errorf("%s: no word of %s\n%s", name, tc.unstable, &out)
		}
		for _, want := range append(tc.say, tc.counts) {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, &out)
			}
		}
	}
}

// TestFinalFailures: a data race, a panic and a test that hangs count at once, and so do many failures.
func TestFinalFailures(t *testing.T) {
	one := ended{pkg: "p", test: "TestX"}
	for name, tc := range map[string]struct {
		pkg, output string
		leaves      int
	}{
		"a race":        {"", "WARNING: DATA RACE\n", 1},
		"a panic":       {"panic: oh\n", "", 1},
		"a hang":        {"panic: test timed out after 1s\n", "", 1},
		"many failures": {"", "", maxRetries + 1},
	} {
		s := newStream(&bytes.Buffer{})
		for range tc.leaves {
			e := one
			e.output = tc.output
			s.failed = append(s.failed, e)
		}
		s.broken = []ended{{pkg: "p", output: tc.pkg}}
		unstable, failed := suite{}.retry(t.Context(), s) // go test of no such package would pass for nothing
		if len(unstable) > 0 || len(failed) != tc.leaves {
			t.Errorf("%s: unstable %v, failed %v", name, unstable, failed)
		}
	}
}

// TestSkipReasons: a test skipped by design is not one that lacks something.
func TestSkipReasons(t *testing.T) {
	for text, lacks := range map[string]bool{
		"skipped: needs GPUAASCTL_LAB_TESTS=1 (make test-lab sets it)": false, "skipped: needs nft": true, "root may": false,
		"root may not": true, "needs a C compiler (cc)": false, "": true,
	} {
		e := ended{output: "=== RUN   TestX\n    x_test.go:20: " + text + "\n--- SKIP: TestX (0.00s)\n"}
		if e.lacks() != lacks {
			t.Errorf("%q: %q lacks something: %t", text, e.reason(), !lacks)
		}
	}
}

// TestPartsOfLines: an event that arrives in two parts is one, and a line that is no event is printed.
func TestPartsOfLines(t *testing.T) {
	var out bytes.Buffer
	s := newStream(&out)
	for _, part := range []string{`{"Action":"fail","Pack`, "age\":\"p\",\"Test\":\"TestX\"}\nmake: hello\n",
		`{"Action":"fail","Package":"p","Elapsed":2}` + "\n"} {
		if _, err := s.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.failed) != 1 || len(s.broken) != 1 || out.String() != "make: hello\nFAIL     2.0s  p, 0 passed\n" {
		t.Errorf("%v, %v, %q", s.failed, s.broken, out.String())
	}
}

// TestDeepGoesOn: what has passed is kept for the same sources and runs again for others; what failed runs again.
func TestDeepGoesOn(t *testing.T) {
	tier.NeedsHost(t)
	dir := t.TempDir()
	t.Chdir(dir)
	state := filepath.Join(dir, "state")
	parts := []part{
		{name: "good", argv: []string{"sh", "-c", "for n in 1 2; do echo tests: $n passed, 0 skipped, 0 unstable, " +
			"0 failed, 1s; done; echo >>good"}, online: true, alone: true},
		{name: "bad", argv: []string{"sh", "-c", "echo >>bad; echo why; exit 3"}, online: true},
	}
	run := func(tree string) (string, string) {
		var out bytes.Buffer
		err := runParts(t.Context(), &out, parts, state, tree)
		if err == nil || err.Error() != "failed: bad: exit status 3" {
			t.Errorf("%v", err)
		}
		good, _ := os.ReadFile("good")
		bad, _ := os.ReadFile("bad")
		return strings.Repeat("g", len(good)) + strings.Repeat("b", len(bad)), out.String()
	}
	for i, want := range []string{"gb", "gbb", "ggbbb"} {
		tree := "t1"
		if i == 2 {
			tree = "t2"
		}
		ran, out := run(tree)
		if ran != want || !strings.Contains(out, "\ntests: 3 passed, 0 skipped, 0 unstable, 0 failed, ") ||
			!strings.Contains(out, "why") {
			t.Errorf("run %d: ran %s, want %s\n%s", i, ran, want, out)
		}
	}
	summary, err := os.ReadFile(filepath.Join(state, "summary.json"))
	if err != nil || !strings.Contains(string(summary), `"part": "bad"`) || !strings.Contains(string(summary), `"tree": "t2"`) {
		t.Errorf("%v\n%s", err, summary)
	}
	if kept := keptResult(state, "bad", "t2"); kept != nil {
		t.Errorf("kept what failed: %+v", kept)
	}
	if kept := keptResult(state, "good", "t2"); kept == nil || time.Since(kept.Ended) > time.Hour {
		t.Errorf("did not keep what passed: %+v", kept)
	}
}

// TestPartOnceMore: a part that passes the second time is unstable, and one that fails twice has failed.
func TestPartOnceMore(t *testing.T) {
	tier.NeedsHost(t)
	t.Chdir(t.TempDir())
	for script, want := range map[string]string{
		"test -e once || { touch once; exit 1; }": "0 passed, 0 skipped, 1 unstable, 0 failed",
		"exit 1": "failed: p: exit status 1",
	} {
		var out bytes.Buffer
		parts := []part{{name: "p", argv: []string{"sh", "-c", script}, online: true, alone: true, twice: true}}
		if err := runParts(t.Context(), &out, parts, "", ""); err != nil {
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "begins once more") {
			t.Errorf("%s: want %q in\n%s", script, want, &out)
		}
	}
}
