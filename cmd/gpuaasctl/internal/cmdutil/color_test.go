package cmdutil

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/internal/ptmx"
)

// TestColourHasOneOrder: --color, NO_COLOR, CLICOLOR_FORCE or FORCE_COLOR, TERM, the stream. The first that decides
// wins.
func TestColourHasOneOrder(t *testing.T) {
	terminal, far := pair(t)
	defer far.Close()
	defer terminal.Close()
	for _, c := range []struct {
		flag, env      string
		pipe, terminal bool
	}{
		{"", "", false, true},
		{ColorAuto, "", false, true},
		{ColorAuto, "TERM=dumb", false, false},
		{ColorAuto, "NO_COLOR=1", false, false},
		{ColorAuto, "NO_COLOR=", false, true},
		{ColorAuto, "CLICOLOR_FORCE=1", true, true},
		{ColorAuto, "FORCE_COLOR=3 TERM=dumb", true, true},
		{ColorAuto, "CLICOLOR_FORCE=0 FORCE_COLOR=false", false, true},
		{ColorAuto, "CLICOLOR_FORCE=1 NO_COLOR=1", false, false},
		{ColorAlways, "NO_COLOR=1 TERM=dumb", true, true},
		{ColorNever, "CLICOLOR_FORCE=1 FORCE_COLOR=1", false, false},
	} {
		a := &App{Color: c.flag, Env: environ(c.env)}
		if pipe, term := a.colour(&bytes.Buffer{}), a.colour(terminal); pipe != c.pipe || term != c.terminal {
			t.Errorf("--color %s, %s: pipe %t, terminal %t", c.flag, c.env, pipe, term)
		}
	}
}

// TestColorFlagReachesTheStreams: --color affects a command's output, although the streams exist before the flag is
// parsed.
func TestColorFlagReachesTheStreams(t *testing.T) {
	const red = "\x1b[31mx\x1b[39m"
	for word, want := range map[string]string{ColorAlways: red, ColorAuto: `\u001b[31mx\u001b[39m`} {
		var out bytes.Buffer
		a := &App{Stdout: &out, Stderr: &out, Env: environ("")}
		end := a.CleanOutput()
		root := &cobra.Command{Use: "x", PersistentPreRun: func(*cobra.Command, []string) { a.Colored() },
			RunE: func(*cobra.Command, []string) error { return a.Write([]byte(red)) }}
		a.ColorFlag(root)
		root.SetArgs([]string{"--color", word})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if end(); out.String() != want {
			t.Errorf("--color %s: %q", word, &out)
		}
	}
	a := &App{Env: environ("")}
	root := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
	a.ColorFlag(root)
	root.SetArgs([]string{"--color", "blue"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "auto, always or never") {
		t.Errorf("--color blue: %v", err)
	}
}

// TestColumnsIsTheWidth: COLUMNS wins over a terminal, counts on a pipe, and is ignored if it is not a number.
func TestColumnsIsTheWidth(t *testing.T) {
	terminal, far := pair(t)
	defer far.Close()
	defer terminal.Close()
	if err := ptmx.Resize(terminal, 132, 40); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string][2]int{"": {0, 132}, "COLUMNS=90": {90, 90}, "COLUMNS=wide": {0, 132},
		"COLUMNS=-3": {0, 132}} {
		a := &App{Env: environ(env)}
		if pipe, term := a.Width(&bytes.Buffer{}), a.Width(terminal); pipe != want[0] || term != want[1] {
			t.Errorf("%s: pipe %d, terminal %d", env, pipe, term)
		}
	}
}

// environ returns an environment from words such as "A=b C=d".
func environ(words string) func(string) string {
	return func(name string) string {
		for _, w := range strings.Fields(words) {
			if key, value, _ := strings.Cut(w, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// pair returns a terminal, and its far end.
func pair(t *testing.T) (terminal, far *os.File) {
	t.Helper()
	far, terminal, err := ptmx.Open()
	if err != nil {
		t.Fatal(err)
	}
	return terminal, far
}
