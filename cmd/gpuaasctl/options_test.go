package main

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// TestFlagsReachOptions: the work of every command can be replaced, and each of its flags changes the options that the
// work gets. A new command without cmdutil.Run fails here.
func TestFlagsReachOptions(t *testing.T) {
	var got string
	var words []string
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Env: func(string) string { return "" }}
	a.Instead = func(_ *cobra.Command, options any, args []string) error {
		got, words = fmt.Sprintf("%+v", options), args
		return nil
	}
	ran := func(line ...string) bool {
		got = ""
		root, _ := newRoot(a, line)
		root.SetArgs(line)
		return root.ExecuteContext(t.Context()) == nil && got != ""
	}
	tree, _ := newRoot(a, nil)
	seen := 0
	for _, cmd := range below(tree) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if path[0] == "help" || path[0] == "completion" || madeIn(cmd) == "help.go" { // Parent
			continue
		}
		if madeIn(cmd) != "run.go" { // it is not executed: its work would be done
			t.Errorf("%s: RunE is not of cmdutil.Run", cmd.CommandPath())
			continue
		}
		args := slices.IndexFunc(argLists[:], func(args []string) bool { return ran(slices.Concat(path, args)...) })
		if args < 0 {
			t.Errorf("%s: no argument list of this test runs it", cmd.CommandPath())
			continue
		}
		line, plain := slices.Concat(path, argLists[args]), got
		if want := slices.DeleteFunc(slices.Clone(argLists[args]), isDash); !slices.Equal(words, want) {
			t.Errorf("%q: the work gets the arguments %q", line, words)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			seen++
			flag := "--" + f.Name + "=" + otherValue(cmd, f)
			if line := slices.Insert(slices.Clone(line), len(path), flag); !ran(line...) || got == plain {
				t.Errorf("%q: %s is not in the options: %s", line, flag, got)
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d flags were tried", seen)
	}
}

// argLists are the arguments of commands; each takes at least one list.
var argLists = [...][]string{{}, {"x"}, {"x", "x"}, {"--", "x"}}

func isDash(word string) bool { return word == "--" }

// below returns the commands of a tree, without its root.
func below(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		all = append(append(all, c), below(c)...)
	}
	return all
}

// madeIn returns the file of cmd's RunE, also where the function that made it is inlined.
func madeIn(cmd *cobra.Command) string {
	if cmd.RunE == nil {
		return ""
	}
	pc := reflect.ValueOf(cmd.RunE).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	return filepath.Base(file)
}

// otherValue returns a value of f that is not its default: of its completion, else by its type.
func otherValue(cmd *cobra.Command, f *pflag.Flag) string {
	if complete, ok := cmd.GetFlagCompletionFunc(f.Name); ok {
		words, _ := complete(cmd, nil, "")
		if i := slices.IndexFunc(words, func(w string) bool { return w != f.DefValue }); i >= 0 {
			return words[i]
		}
	}
	switch f.Value.Type() {
	case "bool":
		return fmt.Sprint(f.DefValue == "false")
	case "duration":
		return "7s"
	case "int", "uint64":
		return "7"
	}
	return "x"
}
