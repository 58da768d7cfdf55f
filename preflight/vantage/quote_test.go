package vantage

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// readBack has shell print the words that it parses from line, each terminated by NUL.
func readBack(t *testing.T, shell, line string) []string {
	t.Helper()
	tier.NeedsHost(t)
	out, err := exec.Command(shell, "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", shell, err, line)
	}
	words := strings.Split(string(out), "\x00")
	return words[:len(words)-1]
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", `it's`, `\`, `\\'`, `$HOME`, "`id`", "!x", "a\nb", "*", "~", "-n", `"`, "\xff",
		"é", "'\"'\"'"} {
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Contains(a+b, "\x00") {
			t.Skip("no argument holds a NUL")
		}
		if len(a)+len(b) > 1<<12 {
			t.Skip("long")
		}
		argv := []string{a, b, a + b}
		for _, shell := range []string{"sh", "bash"} {
			if _, err := exec.LookPath(shell); err != nil {
				continue
			}
			if got := readBack(t, shell, Quote(argv)); !slices.Equal(got, argv) {
				t.Errorf("%s read %q, want %q", shell, got, argv)
			}
		}
	})
}

func TestQuoteDropsNUL(t *testing.T) {
	if got := Quote([]string{"a\x00b"}); got != `'ab'` {
		t.Errorf("got %s", got)
	}
}

func FuzzParseNote(f *testing.F) {
	f.Add(sentinel + " start how=pushed path=/a b/c")
	f.Add(sentinel + " exit code=126 uname=x86_64")
	f.Add(sentinel + " failed no place")
	f.Fuzz(func(t *testing.T, line string) {
		if n, ok := parseNote(line); ok != strings.HasPrefix(strings.TrimRight(line, "\r\n"), sentinel+" ") ||
			(!ok && n != (scriptLine{})) {
			t.Errorf("%q: %v %+v", line, ok, n)
		}
	})
}

func TestParseNote(t *testing.T) {
	for line, want := range map[string]scriptLine{
		sentinel + " start how=pushed path=/run/a b\n": {word: "start", how: "pushed", path: "/run/a b", code: -1},
		sentinel + " exit code=3 uname=aarch64":        {word: "exit", code: 3, uname: "aarch64"},
		sentinel + " missing uname=x86_64\r\n":         {word: "missing", uname: "x86_64", code: -1},
		sentinel + " failed what arrived = no":         {word: "failed", text: "what arrived = no", code: -1},
	} {
		if got, ok := parseNote(line); !ok || got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}
