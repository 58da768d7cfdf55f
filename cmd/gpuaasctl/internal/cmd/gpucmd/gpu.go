// Package gpucmd is "gpuaasctl gpu": a platform's judgement of a node's GPUs, and NVIDIA's error codes explained, found
// in a kernel log, and judged by policies. Only check reads a GPU.
package gpucmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	codes := cmdutil.Parent("xid", "XIDs and SXIDs: what they mean, and which a log has",
		`What an error code means, what to do about it, and what each source has about it: the sources disagree, and none is
left out. The tables are in this program.`,
		newExplain(a), newList(a), newScan(a))
	return cmdutil.Parent("gpu", "Check GPUs, explain their errors, judge them by policies",
		`NVIDIA's driver reports errors as XIDs in the kernel log, and the NVSwitch driver as SXIDs. These commands explain the
codes, find them in a log, and judge them by a policy, without a GPU and without a driver; check reads the GPUs of a
machine and judges them, and status shows what the platform's policy makes of a node's GPUs.`,
		newCheck(a), newStatus(a), codes, newPolicy(a))
}

// Entry is everything known about a code.
type Entry struct {
	Type     string         `json:"type"` // xid, sxid, or the word of what has no code
	Code     int            `json:"code"` // 0: none
	Title    string         `json:"title"`
	Class    xid.Class      `json:"class"`
	Means    string         `json:"class_means"`
	Condemns xid.Scope      `json:"condemns"`
	Why      string         `json:"why"`
	Do       []string       `json:"do"`
	Views    []xid.View     `json:"views"`
	Disputed []xid.SourceID `json:"disputed_by,omitempty"`
}

// Explanation is the output of explain -o json.
type Explanation struct {
	diag.Head              // XIDExplanation
	Tables    string       `json:"tables"` // digest of the tables
	Entry     Entry        `json:"entry"`
	Sources   []xid.Source `json:"sources"` // the sources of the views
}

func entryOf(r xid.Row) Entry {
	e := Entry{
		Type: "xid", Code: r.Code, Title: r.Title, Class: r.Class, Means: xid.ClassRowOf(r.Class).Means,
		Condemns: r.Condemns(), Why: r.Reason(), Do: r.Steps(), Views: r.Views,
	}
	for _, v := range r.Disputed() {
		e.Disputed = append(e.Disputed, v.Source)
	}
	return e
}

func entryOfSwitch(r xid.SwitchRow) Entry {
	c := xid.ClassRowOf(r.Class)
	e := Entry{
		Type: "sxid", Code: r.Code, Title: r.Symbol, Class: r.Class, Means: c.Means, Condemns: c.Condemns, Why: c.Means,
		Do: c.Do, Views: []xid.View{{Source: xid.NVSwitchDriver, Says: r.Symbol}},
	}
	if r.Class != xid.Unlisted {
		e.Views = append(e.Views, xid.View{Source: xid.FMGuide, Says: string(r.Class)})
	}
	return e
}

func entryOfUncoded(r xid.UncodedRow) Entry {
	c := xid.ClassRowOf(r.Class)
	return Entry{Type: r.Word, Title: r.Title, Class: r.Class, Means: c.Means, Condemns: c.Condemns, Why: r.Why,
		Do: r.Steps(), Views: []xid.View{}}
}

// firstSXID is the lowest code of an NVSwitch: numbers from here on are SXIDs.
const firstSXID = 10_000

// lookup returns the meaning of a code, given as a driver prints it (79), or as in `gpuaasctl explain` (xid_79), or of
// what has no code (lost).
func lookup(given string) (Entry, error) {
	if r, ok := xid.LookupUncoded(strings.ToLower(given)); ok {
		return entryOfUncoded(r), nil
	}
	word := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(given))
	digits, isSXID := strings.CutPrefix(word, "sxid")
	digits, isXID := strings.CutPrefix(digits, "xid")
	code, err := strconv.Atoi(digits)
	if err != nil {
		var words []string
		for _, r := range xid.Uncoded() {
			words = append(words, r.Word)
		}
		return Entry{}, fmt.Errorf("want the number of an XID or SXID, or one of %s, not %q", strings.Join(words, ", "),
			given)
	}
	isSXID = isSXID || (!isXID && code >= firstSXID)
	name := "XID"
	if isSXID {
		name = "SXID"
		if r, ok := xid.LookupSwitch(code); ok {
			return entryOfSwitch(r), nil
		}
	} else if r, ok := xid.Lookup(code); ok {
		return entryOf(r), nil
	}
	var near []string
	for _, n := range xid.Nearest(code, 3, isSXID) {
		near = append(near, strconv.Itoa(n))
	}
	return Entry{}, fmt.Errorf("the tables have no %s %d; the nearest are %s. An %s that is not in them is not known "+
		"to be harmless", name, code, strings.Join(near, ", "), name)
}

func newExplain(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, explain, &cobra.Command{
		Use:   "explain CODE",
		Short: "Explain an XID or SXID: what follows, what to do, what each source has",
		Long: `Explains the code of an XID, or of an SXID (10000 and more), or what scan finds without a code: lost, init_failed,
reset_required, version_mismatch. The class is this project's reading; below it is every
source's own view with its edition. A view that contradicts the class is marked.

Exit codes: 0 explained, 2 no such code; the nearest ones are named.`,
		Example: `  gpuaasctl gpu xid explain 79
  gpuaasctl gpu xid explain 20034
  gpuaasctl gpu xid explain 94 -o json`,
		Args: cmdutil.Args(1, 1),
	}, cmdutil.PageFormats()...)
}

func explain(a *cmdutil.App, _ *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	e, err := lookup(args[0])
	if err != nil {
		return &cmdutil.UsageError{Err: err, Command: "gpuaasctl gpu xid list"}
	}
	doc := Explanation{Head: diag.NewHead("XIDExplanation"), Tables: xid.Digest, Entry: e}
	for _, s := range xid.Sources() {
		for _, v := range e.Views {
			if v.Source == s.ID {
				doc.Sources = append(doc.Sources, s)
			}
		}
	}
	return a.ShowPage(doc, o.Output, explained(&doc)...)
}

// scopeWords is a scope for people.
func scopeWords(s xid.Scope) string {
	switch s {
	case xid.None:
		return "nothing: new work goes on"
	case xid.GPU:
		return "the GPU takes no new work"
	case xid.Node:
		return "the node takes no new work"
	}
	return "undecided by the code alone"
}

func explained(doc *Explanation) []page.Block {
	e := &doc.Entry
	fields := page.Fields{
		{Label: "class", Text: string(e.Class) + ": " + e.Means},
		{Label: "condemns", Text: scopeWords(e.Condemns)},
	}
	if e.Why != e.Means {
		fields = append(fields, page.Field{Label: "why", Text: e.Why})
	}
	views := page.Table{Columns: page.Titles("SOURCE", "VIEW", "", "EDITION")}
	for _, v := range e.Views {
		against, edition := "", ""
		for _, d := range e.Disputed {
			if d == v.Source {
				against = "disagrees: " + string(v.Stance)
			}
		}
		for _, s := range doc.Sources {
			if s.ID == v.Source {
				edition = s.Edition
			}
		}
		views.Rows = append(views.Rows, page.Cells(string(v.Source), v.Says, against, edition))
	}
	title := e.Type + ": " + e.Title
	if e.Code != 0 {
		title = fmt.Sprint(strings.ToUpper(e.Type), " ", e.Code, " ", e.Title)
	}
	blocks := []page.Block{page.Heading{Text: title}, fields, page.Steps{Label: "do", Texts: e.Do}, page.Blank{}}
	if len(views.Rows) == 0 {
		return append(blocks, page.Para{Text: "No list of codes has it: the class is this project's reading."})
	}
	return append(blocks, views)
}
