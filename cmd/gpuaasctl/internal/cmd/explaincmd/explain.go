// Package explaincmd is "gpuaasctl explain": the meaning of a word in this tool's output, offline.
package explaincmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

// formatText is the format for people.
const formatText = "text"

// Document is the output of -o json: the meanings of a word, or without a word the kinds of words.
type Document struct {
	diag.Head                 // Explanation
	Entries   []explain.Entry `json:"entries,omitempty"`
	Kinds     []explain.Kind  `json:"kinds,omitempty"`
}

// explainOptions choose the kind of word, and the failure of a signal.
type explainOptions struct{ kind, failure, output string }

// New is the command.
func New(a *cmdutil.App) *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain [WORD]",
		Short: "Explain a word of any output, and what to do about it",
		Long: `Explains a word of any output: its meaning, how it is measured, its usual causes, what to do, and a recording that
contains it. WORD is an id as in reports; a hop also by its number, an exit code as 3, a field also as
verdict.blame.hop. Without WORD it lists the kinds of words. It works offline.

A step that is not for every blame begins with its condition. --for FAILURE keeps a signal's steps for that failure.
Words in CAPITALS in a command stand for values that a report fills in.

Exit codes: 0 explained, 2 no such word or failure.`,
		Example: `  gpuaasctl explain node_agent_auth_failed
  gpuaasctl explain 6
  gpuaasctl explain disk_full --for disk_inodes
  gpuaasctl explain --kind field status
  gpuaasctl explain tcp_timeout -o markdown`,
		Args: cmdutil.Args(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			spaced := func(w string) bool { return strings.Contains(w, " ") } // shells split it
			return slices.DeleteFunc(words(o.kind), spaced), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: cmdutil.Run(a, o, run),
	}
	cmd.Flags().StringVar(&o.kind, "kind", "", "only as a word of this `KIND`; without WORD, list its words")
	cmd.Flags().StringVar(&o.failure, "for", "", "only the steps of the signal WORD that apply to this `FAILURE`")
	cmdutil.CompleteFunc(cmd, "kind", func() []string { return names(explain.Kinds()) })
	completeFailure(cmd)
	cmdutil.FormatFlag(cmd, &o.output, formatText, formatText, cmdutil.FormatJSON, cmdutil.FormatMarkdown)
	return cmd
}

func run(a *cmdutil.App, cmd *cobra.Command, o *explainOptions, args []string) error {
	if err := cmdutil.CheckNotEmpty(cmd, "for", "kind"); err != nil {
		return err
	}
	kind, kinds := o.kind, explain.Kinds()
	if kind != "" && !slices.Contains(names(kinds), kind) {
		return refuse(cmd, "no kind of words is called %q%s; there are %s", kind, meant(kind, names(kinds)),
			cmdutil.OneOf(names(kinds)))
	}
	doc := Document{Head: diag.NewHead("Explanation")}
	if o.failure != "" {
		e, err := ofFailure(cmd, o, args)
		if err != nil {
			return err
		}
		doc.Entries = []explain.Entry{e}
		return a.ShowPage(&doc, o.output, cmdutil.EntryPage(&e)...)
	}
	if len(args) == 0 {
		doc.Kinds = kinds
		if kind != "" {
			doc.Kinds = slices.DeleteFunc(kinds, func(k explain.Kind) bool { return k.Name != kind })
		}
		return a.ShowPage(&doc, o.output, kindPage(doc.Kinds)...)
	}
	doc.Entries = explain.Lookup(kind, args[0])
	if others := explain.Lookup("", args[0]); len(doc.Entries) == 0 && len(others) > 0 {
		var kinds []string
		for _, e := range others {
			kinds = append(kinds, e.Kind)
		}
		slices.Sort(kinds)
		return refuse(cmd, "%q is not a word of the kind %s; it is one of the kind %s: leave --kind out", args[0], kind,
			cmdutil.OneOf(slices.Compact(kinds)))
	}
	if len(doc.Entries) == 0 {
		return refuse(cmd, "no output has the word %q%s", args[0], meant(args[0], words(kind)))
	}
	var blocks []page.Block
	for i := range doc.Entries {
		blocks = append(blocks, cmdutil.EntryPage(&doc.Entries[i])...)
	}
	return a.ShowPage(&doc, o.output, blocks...)
}

func refuse(cmd *cobra.Command, format string, args ...any) error {
	return &cmdutil.UsageError{Err: fmt.Errorf(format, args...), Command: cmd.CommandPath()}
}

// meant suggests the nearest known words, "" if none is near.
func meant(word string, known []string) string {
	near := strictyaml.NearestOf(word, known)
	for _, k := range known { // part of a word finds the word
		if len(near) < 5 && len(word) > 2 && strings.Contains(k, word) && !slices.Contains(near, k) {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + cmdutil.OneOf(near) + "?)"
}

func names(kinds []explain.Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return all
}

// words returns the words of a kind, of all kinds if it is "", each once.
func words(kind string) (all []string) {
	for _, k := range explain.Kinds() {
		if kind == "" || kind == k.Name {
			all = append(all, k.Words...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func kindPage(kinds []explain.Kind) []page.Block {
	if len(kinds) == 1 {
		return []page.Block{
			page.Heading{Text: kinds[0].Name}, page.Para{Text: kinds[0].About}, page.Blank{},
			page.Code(strings.Join(kinds[0].Words, "\n")),
		}
	}
	t := page.Table{Columns: page.Titles("KIND", "WORDS", "ABOUT")}
	for _, k := range kinds {
		t.Rows = append(t.Rows, page.Cells(k.Name, fmt.Sprint(len(k.Words)), k.About))
	}
	return []page.Block{
		t, page.Blank{}, page.Para{Text: "gpuaasctl explain WORD explains a word, explain --kind KIND lists the " +
			"words of a kind."},
	}
}
