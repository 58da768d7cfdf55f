package main

import (
	"bufio"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// TestWordsOfVersionBefore: command lines and completion scripts of the previous version still work. testdata/before
// has every command of that version, one per line; every flag with its type, its shorthand and its completions; and the
// completions for an argument, after "<>". A name may be hidden now, but must still be accepted.
func TestWordsOfVersionBefore(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	a := &cmdutil.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: func(string) string { return "" }}
	root, _ := newRoot(a, nil)
	file, err := os.Open("testdata/before/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line, words, _ := strings.Cut(lines.Text(), " = ")
		f := strings.Fields(line)
		n := slices.IndexFunc(f, func(w string) bool { return w == "<>" || strings.HasPrefix(w, "--") })
		if n < 0 {
			n = len(f)
		}
		cmd, rest, err := root.Find(f[1:n])
		if err != nil || len(rest) > 0 {
			t.Errorf("%s: %v %v", strings.Join(f[:n], " "), rest, err)
			continue
		}
		cmd.SetContext(context.Background())
		cmd.InitDefaultHelpFlag()
		switch {
		case n == len(f):
		case f[n] == "<>":
			if cmd.ValidArgsFunction == nil {
				t.Errorf("%s: nothing is offered for its arguments", cmd.CommandPath())
				continue
			}
			offered, _ := cmd.ValidArgsFunction(cmd, nil, "")
			lacking(t, cmd.CommandPath(), f[n+1:], offered)
		default:
			flagOfBefore(t, cmd, f[n:], strings.Fields(words))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// flagOfBefore checks that a flag ("--output", "string", "-o") still exists, with the same completions.
func flagOfBefore(t *testing.T, cmd *cobra.Command, f, words []string) {
	t.Helper()
	name := strings.TrimPrefix(f[0], "--")
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		flag = cmd.InheritedFlags().Lookup(name)
	}
	switch {
	case flag == nil:
		t.Errorf("%s %s is not known", cmd.CommandPath(), f[0])
		return
	case (flag.Value.Type() == "bool") != (f[1] == "bool"):
		t.Errorf("%s %s is a %s, and was a %s", cmd.CommandPath(), f[0], flag.Value.Type(), f[1])
	case len(f) > 2 && cmd.Flags().ShorthandLookup(f[2][1:]) == nil:
		t.Errorf("%s %s is not known, short for %s", cmd.CommandPath(), f[2], f[0])
	}
	if len(words) == 0 {
		return
	}
	complete, ok := cmd.GetFlagCompletionFunc(name)
	if !ok {
		t.Errorf("%s %s: nothing is offered for it", cmd.CommandPath(), f[0])
		return
	}
	offered, _ := complete(cmd, nil, "")
	lacking(t, cmd.CommandPath()+" "+f[0], words, offered)
}

// lacking fails for words that completion does not offer, with or without a description.
func lacking(t *testing.T, at string, words []string, offered []cobra.Completion) {
	t.Helper()
	for _, w := range words {
		if !slices.ContainsFunc(offered, func(o cobra.Completion) bool {
			text, _, _ := strings.Cut(o, "\t")
			return text == w
		}) {
			t.Errorf("%s: %s is not offered any more", at, w)
		}
	}
}
