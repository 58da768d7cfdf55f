package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupAnnotation files a flag under a heading of its command's help.
const groupAnnotation = "gpuaasctl_group"

// newHelp is `help COMMAND`. Unlike cobra's own it is a mistake to ask for a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = knownCommand(about, rest)
			}
			if err != nil {
				return &usageError{err: err, command: cmd.Root().Name()}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// help writes a command's help to its stdout. It is a func and not a template, since cobra's templates keep the
// linker from dropping unused methods.
func help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	say("%s\n\nUsage:\n", strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)))
	if cmd.Runnable() && cmd.HasParent() {
		say("  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		say("  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		say("\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		heading := "Commands"
		for _, g := range cmd.Groups() {
			say("\n%s:\n%s", g.Title, commandLines(cmd, g.ID))
			heading = "More"
		}
		say("\n%s:\n%s", heading, commandLines(cmd, ""))
	}
	flagHelp(w, cmd.LocalFlags())
	if cmd.HasAvailableSubCommands() {
		say("\nRun \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
}

// commandLines lists the commands of one group; "" is of none.
func commandLines(cmd *cobra.Command, group string) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(&b, "  %-*s %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// flagHelp writes the flags under their headings, in the order in which the headings first appear.
func flagHelp(w io.Writer, flags *pflag.FlagSet) {
	var headings []string
	lines := map[string][][2]string{}
	wide := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		heading := "Flags"
		if g := f.Annotations[groupAnnotation]; len(g) > 0 {
			heading = g[0]
		}
		if !slices.Contains(headings, heading) {
			headings = append(headings, heading)
		}
		left, right := flagLine(f)
		wide = max(wide, len(left))
		lines[heading] = append(lines[heading], [2]string{left, right})
	})
	if i := slices.Index(headings, "Flags"); i >= 0 { // what has no heading of its own comes last
		headings = append(slices.Delete(headings, i, i+1), "Flags")
	}
	for _, h := range headings {
		_, _ = fmt.Fprintf(w, "\n%s:\n", h)
		for _, l := range lines[h] {
			_, _ = fmt.Fprintf(w, "  %-*s  %s\n", wide, l[0], l[1])
		}
	}
}

// flagLine is a flag's two columns. The argument's name is what its usage has in backticks.
func flagLine(f *pflag.Flag) (left, right string) {
	arg, usage := pflag.UnquoteUsage(f)
	left = "    --" + f.Name
	if f.Shorthand != "" {
		left = "-" + f.Shorthand + ", --" + f.Name
	}
	if arg != "" && f.Value.Type() != "bool" {
		left += " " + arg
	}
	if d := f.DefValue; d != "" && d != "false" && d != "[]" {
		usage += " (default " + d + ")"
	}
	return left, usage
}

// group files the named flags under a heading.
func group(flags *pflag.FlagSet, heading string, names ...string) {
	for _, n := range names {
		f := flags.Lookup(n)
		f.Annotations = map[string][]string{groupAnnotation: {heading}}
	}
}
