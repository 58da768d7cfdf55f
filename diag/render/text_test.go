package render

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "größe 長": "größe 長", "a\nb\tc": "a b c", "\x1b[31mred": `\x1b[31mred`,
		"\u009b1m": `\x9b1m`, "a\u202eb": `a\u202eb`, "\x7f": `\x7f`, "\x00": `\x00`, "\xff": "\ufffd", "a\ufffeb\uffff": `a\ufffeb\uffff`,
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
		if strings.IndexFunc(c, hidden) >= 0 {
			t.Fatalf("%q keeps a control", c)
		}
		if Clean(c) != c {
			t.Fatalf("%q is not stable", c)
		}
		for _, l := range wrap(c, 20) {
			if width(l) > 20 {
				t.Fatalf("%q is %d columns", l, width(l))
			}
		}
		if got := cut(c, 10); width(got) > 10 {
			t.Fatalf("%q is %d columns", got, width(got))
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"長い長い", 5, "長い…"}, {"長い長い", 4, "長…"}, {"abc", 1, "a"}, {"abc", 0, ""}} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("cut(%q, %d) is %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// TestWrappedCommandsRunTheSame gives wrapped commands to a real shell.
func TestWrappedCommandsRunTheSame(t *testing.T) {
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
		for _, n := range []int{10, 20, 40, 70} {
			lines := wrapCommand(command, n)
			got, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(lines, "\n      ")).Output()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("at %d: %q in place of %q (%v)", n, got, want, err)
			}
		}
	}
}

func TestShellWordsKeepQuotes(t *testing.T) {
	got := shellWords(`a 'b c' "d e" f\ g  h`)
	if want := []string{"a", "'b c'", `"d e"`, `f\ g`, "h"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestWordsOfDurations(t *testing.T) {
	for ms, want := range map[diag.Millis]string{0: "0 ms", 1: "1 ms", 999: "999 ms", 1000: "1.0 s", 9949: "9.9 s", 9950: "10 s", 99_999: "100 s", 100_000: "1m40s", 125_000: "2m05s"} {
		if got := ms.Words(); got != want {
			t.Errorf("%d is %q, want %q", ms, got, want)
		}
	}
	if got := Spent(820, 12_000); got != "820 ms/12 s" {
		t.Error(got)
	}
	if got := Spent(82, 1500); got != "82 ms/1.5 s" {
		t.Error(got)
	}
}

func fleetRows(n int) [][]Cell {
	rows := make([][]Cell, n)
	for i := range rows {
		rows[i] = []Cell{
			{fmt.Sprintf("compute-node-%05d", i), Plain}, {"✘ fail", Bad}, {"node_runtime_api_reachability", Plain},
			{"node_agent_api_unreachable", Plain}, {"environment networking", Faint}, {"612 ms", Plain},
		}
	}
	return rows
}

func fleetColumns() []Column {
	return []Column{{Title: "node"}, {Title: "status"}, {Title: "hop"}, {Title: "signal"}, {Title: "owner", Give: 40}, {Title: "took", Right: true}}
}

// BenchmarkFleetTable is ten thousand rows.
func BenchmarkFleetTable(b *testing.B) {
	rows, columns := fleetRows(10_000), fleetColumns()
	for b.Loop() {
		p := newPage(Options{Width: 120, Color: true})
		p.list(columns, rows, nil)
		if err := p.flush(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
