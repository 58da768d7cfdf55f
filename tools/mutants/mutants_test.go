package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// small is a package with a mutation of every kind.
const small = `package small

import "errors"

var names = []string{"a", "b"}

type rule struct{ name string }

func rules() []rule { return []rule{{"first"}, {"second"}} }

var errNone = errors.New("none")

func check(n int) error {
	if n < 0 {
		return errNone
	}
	return nil
}

type level string

func HELD(n int, on, off bool, l level) (string, bool) {
	if err := check(n); err != nil {
		return "negative", false
	}
	if on && (off || n > 5) {
		return "and", true
	}
	if n == 3 {
		return "three", false
	}
	for i := n; i < 1; i++ {
		return "small", n == 0
	}
	if enabled(on) {
		return "on", true
	}
	switch {
	case n >= 100:
		return "large", true
	}
	switch l {
	case "low", "high":
		return "level", true
	}
	switch length(l) {
	case 2:
		return "two", true
	}
	if min(n, 50) != n {
		return "over", true
	}
	return names[0] + names[1] + rules()[0].name + rules()[1].name, n > 1 && !off
}

func enabled(on bool) bool { return on }

func length(l level) int { return len(l) }
`

const smallTest = `package small

import "testing"

func TestHeld(t *testing.T) {
	for _, tc := range []struct {
		n       int
		on, off bool
		l       level
		want    string
		ok      bool
	}{
		{-1, false, false, "", "negative", false},
		{0, false, false, "", "small", true},
		{1, false, false, "", "abfirstsecond", false},
		{2, true, false, "", "on", true},
		{2, true, true, "", "and", true},
		{2, false, true, "", "abfirstsecond", false},
		{2, false, false, "", "abfirstsecond", true},
		{6, true, false, "", "and", true},
		{5, true, false, "", "on", true},
		{6, false, false, "", "abfirstsecond", true},
		{3, false, false, "", "three", false},
		{100, false, false, "", "large", true},
		{99, false, false, "", "over", true},
		{50, false, false, "", "abfirstsecond", true},
		{4, false, false, "low", "level", true},
		{4, false, false, "high", "level", true},
		{4, false, false, "xy", "two", true},
	} {
		if got, ok := Held(tc.n, tc.on, tc.off, tc.l); got != tc.want || ok != tc.ok {
			t.Errorf("%v: %s %t", tc, got, ok)
		}
	}
}

func TestOpen(t *testing.T) { _, _ = Open(7, false, false, "x") }
`

// module writes a module with the package small, which has the function three times: tests hold what is in Held,
// execute Open, and do not reach Unreached.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	held, common := cutFunction(small)
	open := strings.ReplaceAll(held, "func HELD", "func Open")
	unreached := strings.ReplaceAll(held, "func HELD", "func Unreached")
	for name, text := range map[string]string{
		"go.mod":              "module example.test/m\n\ngo 1.26\n",
		"small/small.go":      strings.ReplaceAll(common+held, "func HELD", "func Held"),
		"small/open.go":       "package small\n\n" + open,
		"small/unreached.go":  "package small\n\n" + unreached,
		"small/small_test.go": smallTest,
	} {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// cutFunction returns the function HELD, and the rest of the source.
func cutFunction(text string) (function, rest string) {
	before, after, _ := strings.Cut(text, "func HELD")
	body, end, _ := strings.Cut(after, "\n}\n")
	return "func HELD" + body + "\n}\n", before + end
}

// TestEveryKindIsFoundAndLives: each kind of mutation is made, compiled, found by a test that holds the rule, reported
// where a test only executes it, and reported where none does.
func TestEveryKindIsFoundAndLives(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("compiles")
	}
	root := module(t)
	var out, errs bytes.Buffer
	if code := run(t.Context(), &out, &errs, root, []string{"-all", "-packages", "./small"}); code != 0 {
		t.Fatalf("%d\n%s\n%s", code, &errs, &out)
	}
	text := out.String()
	if got := regexp.MustCompile(`(?m)^.*small/small\.go.*$`).FindAllString(text, -1); len(got) > 0 {
		t.Errorf("not found, though a test holds it:\n%s", strings.Join(got, "\n"))
	}
	for _, k := range kinds {
		reported := regexp.MustCompile(`(?m)^(lived|not covered)\tsmall/(open|unreached)\.go:\d+: \w+: ` + string(k) +
			`: .* -> `)
		if k != row && !reported.MatchString(text) { // tables are only in small.go
			t.Errorf("no %s is reported", k)
		}
		if !regexp.MustCompile(`(?m)^` + string(k) + ` +\d+ +[1-9]`).MatchString(text) {
			t.Errorf("no %s is found", k)
		}
	}
	for _, want := range []string{
		`lived\tsmall/open\.go:\d+: Open: operand: operand on -> true\n\ttests: TestOpen\n`,
		`not covered\tsmall/open\.go:\d+: Open: case: case "high" of l -> no case\n`, // l is never that
		`lived\tsmall/open\.go:\d+: Open: bound: n >= 100 -> n >= 100 \+ 1\n`,
		`not covered\tsmall/unreached\.go:\d+: Unreached: min-max: min\(n, 50\) -> max\(n, 50\)\n`,
		`(?m)^small -short +\d+ +0 +\d+ +[1-9]\d* +[1-9]\d* +[1-9]\d* +\d+ +2 `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestExitStatus: the command fails if fewer mutations are found than wanted, if a test fails without a mutation, if a
// line of the list of accepted mutations is stale, and if the arguments are wrong.
func TestExitStatus(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("compiles")
	}
	root := module(t)
	list := filepath.Join(root, "accepted.txt")
	entry := "small/open.go | Open | n == 3 -> n != 3\n\tthe result is the same\n"
	stale := "small/open.go | Open | n == 4 -> n != 4\n\tthe result was the same\n"
	for _, tc := range []struct {
		name, list string
		args       []string
		code       int
		want       string
	}{
		{"accepted", entry, []string{"-files", "open"}, 0, `(?m)^small -short +\d+ +1 +\d`},
		{"stale", entry + stale, []string{"-n", "1"}, 1,
			`no such mutation any more: small/open.go \| Open \| n == 4 -> n != 4`},
		{"too few", "", []string{"-all", "-files", "open", "-min", "99"}, 1, `small: \d+ % found, want 99 %`},
		{"enough", "", []string{"-all", "-files", "small.go", "-min", "100"}, 0, `(?m)^small -short .* 100 `},
		{"without a reason", strings.SplitAfter(entry, "\n")[0], nil, 1, "has no reason"},
		{"unknown argument", "", []string{"small"}, 2, "unknown argument"},
		{"no package", "", []string{"-packages", "large"}, 1, "large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(list, []byte(tc.list), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			code := run(t.Context(), &out, &out, root, append([]string{"-packages", "small", "-accepted", "accepted.txt"},
				tc.args...))
			if code != tc.code || !regexp.MustCompile(tc.want).MatchString(out.String()) {
				t.Errorf("%d, want %d with %s\n%s", code, tc.code, tc.want, &out)
			}
		})
	}
	red := filepath.Join(root, "small", "red_test.go")
	failing := "package small\n\nimport \"testing\"\n\nfunc TestRed(t *testing.T) { t.Error(\"red\") }\n"
	if err := os.WriteFile(red, []byte(failing), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := run(t.Context(), &errs, &errs, root, []string{"-packages", "small"}); code != 1 ||
		!strings.Contains(errs.String(), "TestRed is left out: it fails without a mutant") {
		t.Errorf("%d with a test that fails\n%s", code, &errs)
	}
}

// TestEndlessMutantIsFound: a mutation that makes a loop endless is found when its time is over.
func TestEndlessMutantIsFound(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("waits for a limit of twenty seconds")
	}
	root := module(t)
	loop := "package small\n\nfunc Loop(n int) int {\n\ts := 0\n\tfor n != 0 {\n\t\tn--\n\t\ts++\n\t}\n\treturn s\n}\n"
	test := "package small\n\nimport \"testing\"\n\n" +
		"func TestLoop(t *testing.T) {\n\tif Loop(0) != 0 {\n\t\tt.Error()\n\t}\n}\n"
	for name, text := range map[string]string{"loop.go": loop, "loop_test.go": test} {
		if err := os.WriteFile(filepath.Join(root, "small", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if code := run(t.Context(), &out, &out, root, []string{"-all", "-packages", "small", "-files", "loop", "-min",
		"100"}); code != 0 {
		t.Errorf("%d\n%s", code, &out)
	}
}

// TestSampleIsDrawnAgain: a seed gives the same sample, another one gives another.
func TestSampleIsDrawnAgain(t *testing.T) {
	var all []mutation
	for i := range 100 {
		all = append(all, mutation{id: i + 1})
	}
	first, again, other := sample(all, 10, 1), sample(all, 10, 1), sample(all, 10, 2)
	if len(first) != 10 || !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("%v\n%v\n%v", first, again, other)
	}
	if len(sample(all[:3], 10, 1)) != 3 {
		t.Error("a small package is tried in part")
	}
}
