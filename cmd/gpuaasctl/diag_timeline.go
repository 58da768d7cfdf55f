package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/evidence"
)

func newDiagTimeline(a *app) *cobra.Command {
	o := &historyOptions{}
	var output string
	cmd := &cobra.Command{
		Use:   "timeline NODE|BUNDLE",
		Short: "Put what every witness of a node says into one order of time",
		Long: `Joins the node's record and journal, the ingress, the platform's logs and what it wrote down into one history, by node,
instance, correlation id, allocation and workflow. The clocks of node and platform are compared with this machine's, and
what they are off by is taken off. A node that was imaged anew keeps its history: the change of instance is a line.
Nothing is walked and nothing is changed. BUNDLE is a file of diag bundle, which is checked first.

Exit codes: 0 every witness answered, 2 usage or configuration, 3 none said anything, 5 some did not answer (they are
named), 130 interrupted.`,
		Example: `  gpuaasctl diag timeline compute-node-01 --profile lab --since 15m
  gpuaasctl diag timeline compute-node-01 --profile lab --correlation-id ID -o ndjson
  gpuaasctl diag timeline evidence-compute-node-01-20260101T000000Z.tar.gz --since 10m`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isBundle(args[0]) {
				return a.timelineOf(cmd, o, args[0], output)
			}
			return a.timeline(cmd, o, args[0], output)
		},
	}
	o.flags(a, cmd)
	nodes := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ids, directive := nodes(cmd, args, word)
		if len(args) == 0 {
			directive = cobra.ShellCompDirectiveDefault // or a file
		}
		return ids, directive
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatNDJSON, formatJSON)
	return cmd
}

// isBundle tells a bundle's path from a node's id: it is a file, or can be nothing else.
func isBundle(arg string) bool {
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular() || strings.HasSuffix(arg, ".tar.gz") || strings.ContainsRune(arg, '/')
}

// timeline asks every witness now.
func (a *app) timeline(cmd *cobra.Command, o *historyOptions, node, output string) error {
	j, err := o.prepare(a, cmd, node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.deadline)
	defer cancel()
	since := j.Began.Add(-o.since)
	t, m, err := j.history(ctx, since)
	if err != nil {
		return err
	}
	if cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	a.noteMissing(m)
	if err := a.showTimeline(t, output); err != nil {
		return err
	}
	return gatheredCode(m)
}

// history hears every witness without a walk, and joins what they say. The manifest tells of each what came of it.
func (j *job) history(ctx context.Context, since time.Time) (evidence.Timeline, *evidence.Manifest, error) {
	w := j.hear(ctx, since, false)
	if err := j.unknownNode(&w.node); err != nil {
		return evidence.Timeline{}, nil, err
	}
	by := diag.EndedCompleted
	if ctx.Err() != nil {
		by = diag.EndedDeadline
	}
	packed, err := newArchive(j, w, since, time.Now(), by)
	if err != nil {
		return evidence.Timeline{}, nil, err
	}
	s := j.Env.Subject
	q := evidence.Query{NodeID: s.NodeID, AllocationID: s.AllocationID, CorrelationID: s.CorrelationID, Since: diag.At(since), Own: j.Env.CorrelationID}
	return packed.history.Narrow(q), packed.m, nil
}

// timelineOf reads the history of a bundle. Its time ends with the bundle, so --since counts back from there.
func (a *app) timelineOf(cmd *cobra.Command, o *historyOptions, path, output string) error {
	m, err := openBundle(path)
	if err != nil {
		return err
	}
	q := evidence.Query{NodeID: m.NodeID, AllocationID: o.allocationID, CorrelationID: o.correlationID, Own: m.WalkID, Familiar: []string{m.AllocationID}}
	if cmd.Flags().Changed("since") {
		q.Since = diag.At(m.EndedAt.Add(-o.since))
	}
	for _, f := range m.Files {
		if f.Path != evidence.HistoryName {
			continue
		}
		events, err := evidence.ReadNDJSON(f.Data)
		if err != nil {
			return &failedError{fmt.Errorf("%s: %s: %w", path, f.Path, err)}
		}
		a.noteMissing(m)
		if err := a.showTimeline(evidence.Timeline{Clocks: m.Clocks, Events: events}.Narrow(q), output); err != nil {
			return err
		}
		return wholeCode(m)
	}
	return &failedError{fmt.Errorf("%s has no %s", path, evidence.HistoryName)}
}

// noteMissing says who is not in the history, or not with all that he said.
func (a *app) noteMissing(m *evidence.Manifest) {
	for _, g := range m.Missing() {
		note(a.stderr, "%s is %s: %s", g.Source, g.Status, g.Why)
	}
	if m.EndedBy != diag.EndedCompleted {
		note(a.stderr, "the asking ended by %s", m.EndedBy)
	}
}

func (a *app) showTimeline(t evidence.Timeline, output string) error {
	switch output {
	case formatNDJSON:
		b, err := evidence.NDJSON(t.Events)
		if err != nil {
			return err
		}
		return a.write(b)
	case formatJSON:
		if t.Events == nil {
			t.Events = []evidence.Event{}
		}
		b, err := json.MarshalIndent(t, "", "  ")
		if err != nil {
			return err
		}
		return a.write(append(b, '\n'))
	}
	return a.write(timelineText(t.Text(), width(a.stdout)))
}

// timelineText is the history, harmless to a terminal that is limit wide, or to a pipe where it is 0. On a terminal a day
// is said once, and a message is wrapped beside its time and origin.
func timelineText(text []byte, limit int) []byte {
	const clock, message = len("15:04:05.000"), len("15:04:05.000 W platform_ ") + 1
	var b bytes.Buffer
	day := ""
	for line := range strings.Lines(string(text)) { // whatever a far side put into it
		line = render.Clean(strings.TrimRight(line, "\n"))
		date, rest, found := strings.Cut(line, "T")
		_, err := time.Parse(time.DateOnly, date)
		switch {
		case limit == 0:
			b.WriteString(line + "\n")
		case strings.HasPrefix(line, "# "):
			hang(&b, "# ", 2, line[2:], limit)
		case !found || err != nil || len(rest) <= message+1:
			hang(&b, "", message, line, limit)
		default:
			if date != day {
				day = date
				b.WriteString(day + "\n")
			}
			rest = rest[:clock] + rest[clock+1:] // without the Z
			hang(&b, rest[:message], message, rest[message:], limit)
		}
	}
	return b.Bytes()
}
