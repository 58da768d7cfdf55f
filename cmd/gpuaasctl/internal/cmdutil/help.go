package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// groupAnnotation puts a flag under a heading of its command's help.
const groupAnnotation = "gpuaasctl_group"

// NewHelp is `help COMMAND`, or a topic. Unlike in cobra's own help, an unknown command is an error.
func (a *App) NewHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Help about any command, or a topic",
		Example: `  gpuaasctl help preflight
  gpuaasctl help environment
  gpuaasctl help exit-codes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if t := topicOf(args); t != nil {
				t.write(cmd.OutOrStdout(), a.columnsOf(cmd.OutOrStdout()))
				return nil
			}
			about, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = KnownCommand(about, rest)
			}
			if err != nil {
				return &UsageError{Err: err, Command: cmd.Root().Name()}
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
			for _, t := range topics {
				if about == cmd.Root() && len(args) == 0 {
					names = append(names, t.name+"\t"+t.short)
				}
			}
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// Widths of help: on a terminal its width, up to a readable maximum; and on a pipe.
const (
	mostHelp = 100
	pipeHelp = 80
)

// Help writes a command's help to its stdout, as wide as the terminal; an unknown command has none: HelpError. It is a
// func and not a template, since cobra's templates keep the linker from dropping unused methods.
func (a *App) Help(cmd *cobra.Command, _ []string) {
	if err := cmd.ValidateArgs(cmd.Flags().Args()); errors.As(err, new(*unknownCommandError)) {
		a.HelpError = err
		return
	}
	w := cmd.OutOrStdout()
	_, _ = io.WriteString(w, HelpText(cmd, a.columnsOf(w))) // a write error has no other place to be reported
}

// columnsOf returns the width of help on w.
func (a *App) columnsOf(w io.Writer) int {
	if n := a.Width(w); n > 0 {
		return min(n, mostHelp)
	}
	return pipeHelp
}

// HelpText returns a command's help, that many columns wide.
func HelpText(cmd *cobra.Command, columns int) string {
	cmd.InitDefaultHelpFlag()
	h := &help{columns: columns}
	h.prose(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)))
	h.heading("Usage")
	if cmd.Runnable() && cmd.HasParent() {
		h.hang("  ", cmd.UseLine(), 6)
	}
	if cmd.HasAvailableSubCommands() {
		h.hang("  ", cmd.CommandPath()+" COMMAND", 6)
	}
	if cmd.Example != "" {
		h.heading("Examples")
		for _, line := range Examples(cmd) {
			for _, part := range page.WrapCommand(line, columns-2) {
				h.b.WriteString("  " + part + "\n")
			}
		}
	}
	if cmd.HasAvailableSubCommands() {
		heading := "Commands"
		for _, g := range cmd.Groups() {
			h.commands(cmd, g.Title, g.ID)
			heading = "More"
		}
		h.commands(cmd, heading, "")
		if !cmd.HasParent() {
			h.heading("Help topics")
			for _, t := range topics {
				h.hang("  "+page.Pad(t.name, cmd.NamePadding())+" ", t.short, cmd.NamePadding()+3)
			}
		}
	}
	h.flags(cmd)
	if cmd.HasAvailableSubCommands() {
		h.b.WriteByte('\n')
		h.hang("", fmt.Sprintf("Run \"%s COMMAND --help\" for more about a command.", cmd.CommandPath()), 0)
	}
	return h.b.String()
}

// Examples returns the command lines of a command's examples, each on one line.
func Examples(cmd *cobra.Command) []string {
	var all []string
	text := strings.ReplaceAll(cmd.Example, "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// help is text that is wrapped.
type help struct {
	b       strings.Builder
	columns int
}

func (h *help) heading(text string) { h.b.WriteString("\n" + text + ":\n") }

// hang writes text after lead, with later lines indented to column at.
func (h *help) hang(lead, text string, at int) {
	for i, line := range page.Wrap(text, h.columns-max(at, len(lead))) {
		if i > 0 {
			lead = strings.Repeat(" ", at)
		}
		h.b.WriteString(lead + line + "\n")
	}
}

// prose writes paragraphs, rewrapping the source. An indented line stays a line: its text after a gap of two blanks is
// a hanging column.
func (h *help) prose(text string) {
	var open []string
	end := func() {
		h.hang("", strings.Join(open, " "), 0)
		open = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		flush := strings.TrimLeft(line, " ")
		indent := len(line) - len(flush)
		switch {
		case flush == "":
			end()
			h.b.WriteByte('\n')
		case indent == 0:
			open = append(open, line)
		default:
			end()
			word, rest, found := strings.Cut(flush, "  ")
			rest = strings.TrimLeft(rest, " ")
			at := len(line) - len(rest)
			if !found {
				word, rest, at = "", flush, indent
			}
			h.hang(page.Pad(strings.Repeat(" ", indent)+word, at), rest, at)
		}
	}
	end()
}

// commands lists the commands of one group; "" means those without a group.
func (h *help) commands(cmd *cobra.Command, heading, group string) {
	h.heading(heading)
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			h.hang("  "+page.Pad(c.Name(), cmd.NamePadding())+" ", c.Short, cmd.NamePadding()+3)
		}
	}
}

// flags writes the flags under their headings, in the order in which the headings first appear.
func (h *help) flags(cmd *cobra.Command) {
	var headings []string
	lines := map[string][][2]string{}
	wide := 0
	add := func(f *pflag.Flag) {
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
		if len(left) < h.columns*2/5 {
			wide = max(wide, len(left))
		}
		lines[heading] = append(lines[heading], [2]string{left, right})
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if i := slices.Index(headings, "Flags"); i >= 0 { // flags without a heading come last
		headings = append(slices.Delete(headings, i, i+1), "Flags")
	}
	for _, heading := range headings {
		h.heading(heading)
		for _, l := range lines[heading] {
			lead := "  " + page.Pad(l[0], wide) + "  "
			if len(l[0]) > wide { // its text goes below
				h.b.WriteString("  " + l[0] + "\n")
				lead = strings.Repeat(" ", wide+4)
			}
			h.hang(lead, l[1], wide+4)
		}
	}
}

// flagLine returns a flag's two columns. The argument's name is the word between backticks in its usage. A default is
// added unless the usage names it or it is empty.
func flagLine(f *pflag.Flag) (left, right string) {
	arg, usage := pflag.UnquoteUsage(f)
	left = "    --" + f.Name
	if f.Shorthand != "" {
		left = "-" + f.Shorthand + ", --" + f.Name
	}
	if arg != "" && f.Value.Type() != "bool" {
		left += " " + arg
	}
	nothing := slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue)
	if !nothing && !strings.Contains(usage, "(default") && !strings.Contains(usage, "(=false") {
		usage += " (default " + f.DefValue + ")"
	}
	return left, usage
}

// Group puts the named flags under a heading.
func Group(flags *pflag.FlagSet, heading string, names ...string) {
	for _, n := range names {
		f := flags.Lookup(n)
		f.Annotations = map[string][]string{groupAnnotation: {heading}}
	}
}

// Parent returns a command that has subcommands and shows its help.
func Parent(use, short, long string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: KnownCommand, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// KnownCommand refuses a word that is not a command of cmd, and suggests the closest one.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	names := cmd.SuggestionsFor(args[0])
	if !cmd.HasParent() { // cobra suggests neither its own commands nor the topics of help
		for _, word := range []string{"help", topics[0].name, topics[1].name} {
			if strictyaml.Nearest(args[0], []string{word}) != "" {
				names = append(names, word)
			}
		}
	}
	if len(names) > 0 {
		meant = " (did you mean " + OneOf(names) + "?)"
	}
	return &unknownCommandError{fmt.Sprintf("unknown command %q for %q%s", args[0], cmd.CommandPath(), meant)}
}
