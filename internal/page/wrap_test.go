package page

import (
	"bytes"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "größe 長": "größe 長", "a\nb\tc": "a b c", "\x1b[31mred": `\x1b[31mred`,
		"\u009b1m": `\x9b1m`, "a\u202eb": `a\u202eb`, "\x7f": `\x7f`, "\x00": `\x00`, "\xff": "\ufffd",
		"a\ufffeb\uffff": `a\ufffeb\uffff`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2Jb")
	f.Fuzz(func(t *testing.T, s string) {
		c := Clean(s)
		if strings.IndexFunc(c, clean.Hidden) >= 0 {
			t.Fatalf("%q keeps a control", c)
		}
		if Clean(c) != c {
			t.Fatalf("%q is not stable", c)
		}
		for _, l := range Wrap(c, 20) {
			if Width(l) > 20 {
				t.Fatalf("%q is %d columns", l, Width(l))
			}
		}
		if got := Cut(c, 10); Width(got) > 10 {
			t.Fatalf("%q is %d columns", got, Width(got))
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"長い長い", 5, "長い…"}, {"長い長い", 4, "長…"}, {"abc", 1, "a"}, {"abc", 0, ""}} {
		if got := Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// TestWrappedCommandsRunTheSame gives wrapped commands to a real shell.
func TestWrappedCommandsRunTheSame(t *testing.T) {
	tier.NeedsHost(t)
	for _, args := range [][]string{
		{"one", "two three", "it's", "", "$HOME", `a\ b`, "*", strings.Repeat("long ", 30)},
		{"--max-depth=2", "/var", `"quoted words here"`, "\\"},
	} {
		command := "printf %s| " + diag.Command(args...)
		command = strings.Replace(command, "%s|", "'%s|'", 1)
		want, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 10, 20, 40, 70} {
			lines := WrapCommand(command, n)
			got, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(lines, "\n      ")).Output()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("at %d: %q in place of %q (%v)", n, got, want, err)
			}
		}
	}
}

// TestWrappedLinesKeepWhatBelongsTogether: a number and its unit, a middle dot and the preceding word, a flag and its
// value.
func TestWrappedLinesKeepWhatBelongsTogether(t *testing.T) {
	for n := 8; n < 40; n++ {
		for i, l := range Wrap("detected within 6.1 s, budget 30 s · run 261122 · owner PKI · 192 ms · done", n) {
			word, _, _ := strings.Cut(l, " ")
			if i > 0 && (word == "s" || word == "s," || word == "ms" || word == "·") {
				t.Errorf("at %d a line begins with %q", n, l)
			}
		}
	}
	for _, l := range WrapCommand("gpuaasctl chaos report 261122-135458-9433 -o full --profile lab", 44)[1:] {
		if words := strings.Fields(l); words[0] == "full" || words[0] == "lab" {
			t.Errorf("a line begins with a flag's value: %q", l)
		}
	}
	long := strings.Repeat("hop,", 10)
	if got := WrapCommand("gpuaasctl preflight n1 --only "+long, 44); strings.TrimSpace(got[len(got)-1]) != long {
		t.Errorf("a value that fills a line is beside its flag: %q", got)
	}
}

func TestShellWordsKeepQuotes(t *testing.T) {
	got := shellWords(`a 'b c' "d e" f\ g  h`)
	if want := []string{"a", "'b c'", `"d e"`, `f\ g`, "h"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

// BenchmarkFleetTable is ten thousand rows.
func BenchmarkFleetTable(b *testing.B) {
	t := Table{Columns: []Column{{Title: "node"}, {Title: "status"}, {Title: "hop"}, {Title: "owner", Least: 10},
		{Title: "took", Right: true}}}
	for i := range 10_000 {
		t.Rows = append(t.Rows, Row{Cells: []Cell{
			{Text: fmt.Sprintf("compute-node-%05d", i)}, Status(diag.StatusFail), {Text: "node_runtime_api_reachability"},
			{Text: "environment networking", Style: Faint}, {Text: "612 ms"},
		}})
	}
	for b.Loop() {
		Text(Layout{Width: 120, Color: true}, t)
	}
}

// TestAWordOfMegabytes: a word longer than any line is broken in one pass, and loses nothing.
func TestAWordOfMegabytes(t *testing.T) {
	word := strings.Repeat("漢a", 1<<19)
	lines := Wrap("one "+word+" two", 80)
	if got := strings.Join(lines, ""); got != "one"+word+" two" || lines[0] != "one" {
		t.Errorf("%d lines of %d bytes, from %q", len(lines), len(got), lines[0])
	}
	for _, line := range lines {
		if Width(line) > 80 {
			t.Fatalf("a line of %d columns", Width(line))
		}
	}
}
