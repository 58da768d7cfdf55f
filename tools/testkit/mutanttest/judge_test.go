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
	root := module(t)
	cases := []struct {
		test, replacement string
		want              result
		why               string
	}{
		{"TestTwo", "return 3", killed, "it failed"},
		{"TestTwo", `panic("broken")`, killed, "it failed"},
		{"TestOther", "return 3", lives, passed},
		{"TestThree", "return 3", lives, "the test did not run to its end"},
		{"TestTwo", "select {}", lives, "the test did not run to its end"}, // killed by its time limit: shows nothing
		{"TestSkipped", "return 3", skipped, "needs nft"},
		{"TestPartSkipped", "return 3", skipped, "TestPartSkipped/filter: needs nft"},
		{"TestPartSkipped", "return 4", killed, "it failed"},
	}
	var all []Mutant
	for _, tc := range cases {
		m := Mutant{Name: tc.replacement, File: "m.go", Old: "return 2", New: tc.replacement, Package: ".", Test: tc.test}
		if tc.replacement == "select {}" {
			m.Args = []string{"-test.timeout=5s"}
		}
		all = append(all, m)
	}
	p, err := compile(t, root, ".", all)
	if err != nil {
		t.Fatal(err)
	}
	for i, tc := range cases {
		t.Run(tc.test+" "+tc.replacement, func(t *testing.T) {
			t.Parallel()
			out := run(t, p, all[i], i+1)
			if got, why := judge(out, tc.test); got != tc.want || why != tc.why {
				t.Errorf("%s (%s), want %s (%s)\n%s", got, why, tc.want, tc.why, printed(out))
			}
		})
	}
	if out := run(t, p, all[0], 0); !passes(out, all[0]) {
		t.Errorf("fails without a mutant:\n%s", printed(out))
	}
	if out := run(t, p, all[0], 1); passes(out, all[0]) {
		t.Errorf("passes with a mutant:\n%s", printed(out))
	}
}

// TestMutantsThatAreNone: text that is not in the source once, or cannot be replaced, is an error.
func TestMutantsThatAreNone(t *testing.T) {
	root := module(t)
	for _, tc := range []struct{ old, replacement, want string }{
		{"return 2", "return nil", "cannot use nil"},
		{"return 22", "return 3", "has this 0 times"},
		{"return", "go", "has this 4 times"},
		{"package m", "package n", "in no declaration"},
		{"Two() int", "Two() uint", "not in the function's body"},
	} {
		_, err := compile(t, root, ".", []Mutant{{File: "m.go", Old: tc.old, New: tc.replacement, Package: "."}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.old, err, tc.want)
		}
	}
}

// TestSwitchedDeclarations: every form of a declaration can be broken, and is as before while no mutant is on.
func TestSwitchedDeclarations(t *testing.T) {
	root := module(t)
	var all []Mutant
	for _, m := range []struct{ old, replacement string }{
		{"const four = 4", "const four = 5"}, {"const four = 4", "const four = 6"}, {"5: true", "5: false"},
		{"return n.v + int(a)", "return n.v - int(a)"}, {"*into = 7", "*into = 8"}, {"sum += x", "sum -= x"},
	} {
		all = append(all, Mutant{Name: m.replacement, File: "m.go", Old: m.old, New: m.replacement, Package: ".",
			Test: "TestForms"})
	}
	p, err := compile(t, root, ".", all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(all) + 1 {
		want := killed
		if i == 0 {
			want = lives
		}
		out := run(t, p, all[max(i, 1)-1], i)
		if got, why := judge(out, "TestForms"); got != want {
			t.Errorf("mutant %d: %s (%s), want %s\n%s", i, got, why, want, printed(out))
		}
	}
}

// module writes a small module with tests.
func module(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.26\n", "m.go": source, "m_test.go": tests,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// source of the small module: a function, and other forms of declarations.
const source = `package m

func Two() int { return 2 }

const four = 4

var odd = map[int]bool{5: true}

type number struct{ v int }

func (n number) plus(_ string, a int8) int { return n.v + int(a) }

func set(into *int, _ ...string) { *into = 7 }

func sum(all ...int) (sum int) {
	for _, x := range all {
		sum += x
	}
	return
}

func (number) zero() int { return 0 }
`

// tests of the small module: one that can fail, one that cannot, and two that this machine cannot run.
const tests = `package m

import "testing"

func TestTwo(t *testing.T) {
	if Two() != 2 {
		t.Fatal("not two")
	}
}

func TestOther(t *testing.T) { Two() }

func TestForms(t *testing.T) {
	var seven int
	set(&seven, "a", "b")
	if n := (number{3}); n.plus("", 1) != four || !odd[5] || seven != 7 || sum(1, 2) != 3 || n.zero() != 0 {
		t.Error("another form")
	}
}

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
