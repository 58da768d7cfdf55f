package diagcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// timelineOptions select the history, or a bundle's.
type timelineOptions struct {
	historyOptions
	output string
}

func newDiagTimeline(a *cmdutil.App) *cobra.Command {
	o := &timelineOptions{}
	cmd := &cobra.Command{
		Use:   "timeline [NODE [ALLOCATION] | BUNDLE]",
		Short: "Join the evidence of all sources of a node into one timeline",
		Long: `Joins the node's record and journal, the ingress, the platform's logs and its evidence into one history, by node,
instance, correlation id, allocation and workflow. The clocks of node and platform are compared with this machine's, and
their offsets are corrected. A node that was reimaged keeps its history: the change of instance is a line.
It walks no hops and changes nothing. BUNDLE is a file of diag bundle, which is checked first.

Exit codes: 0 every source answered, 2 usage or configuration, 3 none had evidence, 5 some did not answer (they are
named), 130 interrupted.`,
		Example: `  gpuaasctl diag timeline compute-node-01 --profile lab --since 15m
  gpuaasctl diag timeline compute-node-01 --profile lab --correlation-id ID -o ndjson
  gpuaasctl diag timeline evidence-compute-node-01-20260101T000000Z.tar.gz --since 10m`,
		Args: cmdutil.Args(0, 2),
		RunE: cmdutil.Run(a, o, timeline),
	}
	o.flags(a, cmd)
	cmd.ValidArgsFunction = a.CompleteNode(&o.target.Profile, true)
	cmdutil.PageFlag(cmd, &o.output, cmdutil.FormatNDJSON)
	return cmd
}

// timeline asks every source now, or reads a bundle.
func timeline(a *cmdutil.App, cmd *cobra.Command, o *timelineOptions, args []string) error {
	if len(args) == 1 && o.target.NodeID == "" && cmdutil.IsRecording(args[0]) {
		return timelineOf(a, cmd, o, args[0])
	}
	s, err := o.prepare(a, cmd, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.Deadline)
	defer cancel()
	e, err := s.Evidence(ctx, ops.EvidenceOptions{Since: s.Began.Add(-o.since)})
	if err != nil {
		return err
	}
	if cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	noteMissing(a, e.Manifest)
	if err := showTimeline(a, e.Timeline(), o.output); err != nil {
		return err
	}
	return gatheredCode(e.Manifest)
}

// timelineOf reads the history of a bundle. --since counts back from the end of the bundle.
func timelineOf(a *cmdutil.App, cmd *cobra.Command, o *timelineOptions, path string) error {
	m, err := openBundle(path)
	if err != nil {
		return err
	}
	q := evidence.Query{NodeID: m.NodeID, AllocationID: o.allocationID, CorrelationID: o.correlationID, ToolID: m.WalkID,
		RelatedIDs: []string{m.AllocationID}}
	if cmd.Flags().Changed("since") {
		q.Since = diag.At(m.EndedAt.Add(-o.since))
	}
	for _, f := range m.Files {
		if f.Path != evidence.HistoryName {
			continue
		}
		events, err := evidence.ReadNDJSON(f.Data)
		if err != nil {
			return &cmdutil.FailedError{Err: fmt.Errorf("%s: %s: %w", path, f.Path, err)}
		}
		noteMissing(a, m)
		if err := showTimeline(a, evidence.Timeline{Clocks: m.Clocks, Events: events}.Narrow(q), o.output); err != nil {
			return err
		}
		return wholeCode(m)
	}
	return &cmdutil.FailedError{Err: fmt.Errorf("%s has no %s", path, evidence.HistoryName)}
}

// noteMissing notes which sources are missing from the history, or incomplete.
func noteMissing(a *cmdutil.App, m *evidence.Manifest) {
	for _, g := range m.Missing() {
		a.Note("%s is %s: %s", g.Source, g.Status, g.Why)
	}
	if m.EndedBy != diag.EndedCompleted {
		a.Note("the asking ended by %s", m.EndedBy)
	}
}

func showTimeline(a *cmdutil.App, t evidence.Timeline, output string) error {
	if t.Events == nil {
		t.Events = []evidence.Event{}
	}
	doc := timelineDocument{diag.NewHead("NodeTimeline"), t}
	return a.ShowPage(doc, output, timelinePage(t.Text(), a.Width(a.Stdout) > 0)...)
}

// timelineDocument is a history as a document; its lines are its events.
type timelineDocument struct {
	diag.Head
	evidence.Timeline
}

type eventLine struct {
	diag.Head
	*evidence.Event
}

// Lines returns the document for line-by-line formats.
func (d timelineDocument) Lines() (lines []diag.Document) {
	for i := range d.Events {
		lines = append(lines, eventLine{diag.NewHead("NodeEvent"), &d.Events[i]})
	}
	return lines
}

// timelinePage is the history for people. On a terminal a day is printed once, and a message is wrapped to the right of
// its time and origin.
func timelinePage(text []byte, terminal bool) (blocks []page.Block) {
	const clock, message = len("15:04:05.000"), len("15:04:05.000 W platform_ ") + 1
	day := ""
	for line := range strings.Lines(string(text)) {
		line = page.Clean(strings.TrimRight(line, "\n")) // control characters would break the columns
		date, rest, found := strings.Cut(line, "T")
		_, err := time.Parse(time.DateOnly, date)
		switch {
		case !terminal:
			blocks = append(blocks, page.Line{{Text: line}})
		case strings.HasPrefix(line, "# "):
			blocks = append(blocks, page.Para{Lead: "# ", Text: line[2:]})
		case !found || err != nil || len(rest) <= message+1:
			blocks = append(blocks, page.Para{Indent: message, Text: line})
		default:
			if date != day {
				day = date
				blocks = append(blocks, page.Para{Text: day})
			}
			rest = rest[:clock] + rest[clock+1:] // without the Z
			blocks = append(blocks, page.Para{Lead: rest[:message], Text: rest[message:]})
		}
	}
	return blocks
}
