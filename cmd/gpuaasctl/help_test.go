package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// aTree returns the tree of commands, with an empty environment.
func aTree() *cobra.Command {
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Env: func(string) string { return "" }}
	root, _ := newRoot(a, nil)
	return root
}

// everyCommand calls do for c and each command below it.
func everyCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, do)
	}
}

// TestANounAloneIsThatOfTheWholeTree: a command line that begins with a noun builds only that subtree, which equals the
// one in the whole tree.
func TestANounAloneIsThatOfTheWholeTree(t *testing.T) {
	helps := func(args ...string) map[string]string {
		root, _ := newRoot(&cmdutil.App{Env: func(string) string { return "" }}, args)
		all := map[string]string{}
		for _, noun := range root.Commands() {
			everyCommand(noun, func(c *cobra.Command) { all[c.CommandPath()] = cmdutil.HelpText(c, 80) })
		}
		return all
	}
	whole := helps()
	for _, n := range nouns {
		other := func(path, _ string) bool { return !strings.HasPrefix(path+" ", "gpuaasctl "+n.name+" ") }
		want := maps.Clone(whole)
		maps.DeleteFunc(want, other)
		if got := helps(n.name); len(want) == 0 || !maps.Equal(got, want) {
			t.Errorf("gpuaasctl %s: %d commands, which are not the %d of the whole tree", n.name, len(got), len(want))
		}
	}
}

// TestEveryLeafHasExamples: every command without subcommands has examples, and they are valid command lines of that
// command.
func TestEveryLeafHasExamples(t *testing.T) {
	everyCommand(aTree(), func(c *cobra.Command) {
		if c.Hidden || (c.HasAvailableSubCommands() && c.Example == "") {
			return
		}
		lines := cmdutil.Examples(c)
		if len(lines) == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range lines {
			if err := parses(c.CommandPath(), line); err != "" {
				t.Errorf("%s: %s: %s", c.CommandPath(), line, err)
			}
		}
	})
}

// parses returns why a shell command line is not valid for the command at path, or "".
func parses(path, line string) string {
	words := shellWords(line)
	if len(words) == 0 || words[0] != "gpuaasctl" {
		return "it does not begin with gpuaasctl"
	}
	root := aTree()
	cmd, rest, err := root.Find(words[1:])
	switch {
	case err != nil:
		return err.Error()
	case cmd.CommandPath() != path:
		return "it is one of " + cmd.CommandPath()
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	hidden := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Hidden {
			hidden = "--" + f.Name + " is in no help"
		}
	})
	if hidden != "" {
		return hidden
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

// shellWords returns the words of the first command of a shell command line, without quotes and redirections.
func shellWords(line string) []string {
	var words []string
	for _, w := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		switch {
		case w == "|" || w == "&&":
			return words
		case strings.ContainsAny(w[:1], "<>"):
		default:
			words = append(words, strings.Trim(w, `"'`))
		}
	}
	return words
}

// TestHelpFits: no line of any page is wider than its terminal, except for a single long word.
func TestHelpFits(t *testing.T) {
	for _, columns := range []int{60, 80, 100} {
		everyCommand(aTree(), func(c *cobra.Command) {
			c.InitDefaultHelpFlag()
			for line := range strings.Lines(cmdutil.HelpText(c, columns)) {
				line = strings.TrimRight(line, "\n")
				if ansi.StringWidth(line) > columns && len(strings.Fields(line)) > 2 {
					t.Errorf("%s at %d: %s", c.CommandPath(), columns, line)
				}
				if line != strings.TrimRight(line, " ") {
					t.Errorf("%s at %d ends in blanks: %q", c.CommandPath(), columns, line)
				}
			}
		})
	}
}

// TestDefaultsAreSaidOnce: a flag's line shows at most one default, and never an empty one.
func TestDefaultsAreSaidOnce(t *testing.T) {
	const pipe = 10_000 // nothing is wrapped
	everyCommand(aTree(), func(c *cobra.Command) {
		for line := range strings.Lines(cmdutil.HelpText(c, pipe)) {
			if n := strings.Count(line, "(default"); n > 1 || (n == 1 && strings.Contains(line, "(=false")) ||
				strings.Contains(line, "(default 0") || strings.Contains(line, "(default )") {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
	})
}

// TestArgumentErrorsAreOurs: a missing or surplus argument is named; the text is never cobra's.
func TestArgumentErrorsAreOurs(t *testing.T) {
	many := slices.Repeat([]string{"word"}, 50)
	everyCommand(aTree(), func(c *cobra.Command) {
		if c.HasAvailableSubCommands() && c.Args == nil && c.HasParent() {
			t.Errorf("%s takes any argument", c.CommandPath())
		}
		for _, args := range [][]string{nil, many} {
			err := c.ValidateArgs(args)
			if err == nil {
				continue
			}
			if text := err.Error(); strings.Contains(text, "arg(s)") ||
				(!strings.Contains(text, c.CommandPath()) && !strings.HasPrefix(text, "want ") &&
					!strings.Contains(text, "unknown command")) {
				t.Errorf("%s with %d: %s", c.CommandPath(), len(args), text)
			}
		}
	})
}

// TestOldSpellings: every old spelling in the table is hidden, still works, and has an existing replacement.
func TestOldSpellings(t *testing.T) {
	promised, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range cmdutil.Renamings {
		if row := fmt.Sprintf("| `%s` | `%s` | `%s` | %s |", r.Command, r.Old, r.Now,
			r.Since); !strings.Contains(string(promised), row) {
			t.Errorf("docs/contract.md has not the row %s", row)
		}
		root := aTree()
		at, _, err := root.Find(strings.Fields(r.Command)[1:])
		if err != nil || at.CommandPath() != r.Command || r.Since == "" {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		if flag, isFlag := strings.CutPrefix(r.Old, "--"); isFlag {
			f := at.Flags().Lookup(flag)
			if f == nil || !f.Hidden {
				t.Errorf("%s %s: %+v", r.Command, r.Old, f)
			}
			if now, same := strings.CutPrefix(r.Now, "--"); same &&
				(at.Flags().Lookup(now) == nil || at.Flags().Lookup(now).Value != f.Value) {
				t.Errorf("%s %s is not %s", r.Command, r.Old, r.Now)
			}
		} else if old, _, err := at.Find([]string{r.Old}); err != nil || !old.Hidden || old == at {
			t.Errorf("%s %s: %v", r.Command, r.Old, err)
		}
		if !strings.HasPrefix(r.Now, "--") {
			words := strings.Fields(r.Now)
			if now, _, err := root.Find(words[1:]); err != nil || !strings.HasPrefix(r.Now, now.CommandPath()) || now.Hidden ||
				now == root {
				t.Errorf("%s: %v", r.Now, err)
			}
		}
		everyCommand(root, func(c *cobra.Command) {
			if !c.Hidden && c.CommandPath() == r.Command && strings.HasPrefix(r.Old, "--") &&
				strings.Contains(cmdutil.HelpText(c, 80), r.Old+" ") {
				t.Errorf("the help of %s has %s", r.Command, r.Old)
			}
		})
	}
}
