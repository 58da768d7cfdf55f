package mutanttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatATestShows breaks a small module and judges what its tests print. A mutant whose test was skipped was once
// reported as alive.
func TestWhatATestShows(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc Two() int { return 2 }\n",
		"m_test.go": tests,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		test, replacement string
		want              result
		why               string
	}{
		{"TestTwo", "return 3", killed, "it failed"},
		{"TestTwo", `panic("broken")`, killed, "it failed"},
		{"TestOther", "return 3", lives, "it passed"},
		{"TestTwo", "return nil", lives, "it does not compile"},
		{"TestThree", "return 3", lives, "the test did not run to its end"},
		{"TestTwo", "select {}", lives, "the test did not run to its end"}, // killed by its time limit: shows nothing
		{"TestSkipped", "return 3", skipped, "needs nft"},
		{"TestPartSkipped", "return 3", skipped, "TestPartSkipped/filter: needs nft"},
		{"TestPartSkipped", "return 4", killed, "it failed"},
	} {
		t.Run(tc.test+" "+tc.replacement, func(t *testing.T) {
			m := Mutant{File: "m.go", Old: "return 2", New: tc.replacement, Package: "./...", Test: tc.test}
			if tc.replacement == "select {}" {
				m.Args = []string{"-timeout=5s"}
			}
			out := run(t, root, m, overlay(t, filepath.Join(root, m.File), m))
			if got, why := judge(out, m.Test); got != tc.want || why != tc.why {
				t.Errorf("%s (%s), want %s (%s)\n%s", got, why, tc.want, tc.why, printed(out))
			}
		})
	}
}

// tests of the small module: one that can fail, one that cannot, and two that this machine cannot run.
const tests = `package m

import "testing"

func TestTwo(t *testing.T) {
	if Two() != 2 {
		t.Fatal("not two")
	}
}

func TestOther(t *testing.T) { Two() }

func TestSkipped(t *testing.T) {
	t.Log("skipped: by nobody yet")
	t.Skip("skipped: needs nft")
}

func TestPartSkipped(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if Two() > 3 {
			t.Error("too much")
		}
	})
	t.Run("filter", func(t *testing.T) { t.Skip("skipped: needs nft") })
}
`

// TestPrintedKeepsPlainLines: the failure includes the go command's own output.
func TestPrintedKeepsPlainLines(t *testing.T) {
	got := printed([]byte("go: no such tool\n{\"Action\":\"output\",\"Test\":\"TestX\",\"Output\":\"hello\\n\"}\n"))
	if !strings.Contains(got, "no such tool") || !strings.HasSuffix(got, "hello\n") {
		t.Errorf("%q", got)
	}
}
