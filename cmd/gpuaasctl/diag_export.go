package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/evidence"
)

const (
	// exportOverlap is how far a round looks back before the one before it: journals and evidence come late, and what
	// came before has the id that it had.
	exportOverlap = time.Minute
	minEvery      = time.Second
)

// exportOptions is what is shipped, and whether it goes on.
type exportOptions struct {
	history historyOptions
	follow  bool
	every   time.Duration
}

func newDiagExport(a *app) *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export NODE",
		Short: "Write a node's history as NDJSON that a log collector can ship",
		Long: `Writes the events of diag timeline, one JSON object per line, with stable names (see docs/export.md). An event has the
same id each time that it is exported, so a collector that keys by id keeps it once, however often it is shipped.
With --follow it goes on: every --every it asks again, and writes what is new.

Exit codes: 0 every witness answered, 2 usage or configuration, 3 none said anything, 5 some did not answer (they are
named on stderr), 130 interrupted.`,
		Example: `  gpuaasctl diag export compute-node-01 --profile lab --since 24h >node.ndjson
  gpuaasctl diag export compute-node-01 --profile lab --follow --every 30s | collector`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.export(cmd, o, args[0]) },
	}
	o.history.flags(a, cmd)
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on, and write what is new")
	cmd.Flags().DurationVar(&o.every, "every", 10*time.Second, "with --follow, ask again after this `TIME`")
	return cmd
}

func (a *app) export(cmd *cobra.Command, o *exportOptions, node string) error {
	if o.every < minEvery {
		return &usageError{err: fmt.Errorf("--every: want at least %s, not %s", minEvery, o.every), command: cmd.CommandPath()}
	}
	j, err := o.history.prepare(a, cmd, node)
	if err != nil {
		return err
	}
	since, shipped := j.Began.Add(-o.history.since), map[string]time.Time{}
	silent := map[string]string{}
	for {
		began := time.Now()
		m, err := a.exportRound(cmd.Context(), o, j, since, shipped)
		if m != nil {
			a.noteChanged(m, silent)
		}
		if err != nil {
			return err
		}
		if !o.follow {
			return gatheredCode(m)
		}
		since = o.nextSince(since, began, m.Whole)
		for id, at := range shipped { // what will not be asked for again
			if at.Before(since.Add(-exportOverlap)) {
				delete(shipped, id)
			}
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(o.every):
		}
		j.Began = time.Now() // the correlation id stays: what earlier rounds asked is no news either
	}
}

// nextSince is from when on the next round asks. As long as somebody is silent it stays: what he did not say in this
// round he says once he is back, which is after an outage, and then it is wanted most.
func (o *exportOptions) nextSince(since, began time.Time, whole bool) time.Time {
	if whole {
		return began.Add(-exportOverlap)
	}
	if most := began.Add(-max(o.history.since, defaultSince)); since.Before(most) {
		return most
	}
	return since
}

// noteChanged says who is missing, and who is there again: once, not in each round. silent is what was said, by source.
func (a *app) noteChanged(m *evidence.Manifest, silent map[string]string) {
	now := map[string]string{}
	for _, g := range m.Missing() {
		now[g.Source] = g.Status
		if silent[g.Source] != g.Status {
			note(a.stderr, "%s is %s: %s", g.Source, g.Status, g.Why)
		}
	}
	if by := string(m.EndedBy); m.EndedBy != diag.EndedCompleted {
		now[asking] = by
		if silent[asking] != by {
			note(a.stderr, "the asking ended by %s", by)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(silent)) {
		if now[source] == "" {
			note(a.stderr, "%s is whole again", source)
		}
	}
	clear(silent)
	maps.Copy(silent, now)
}

// asking stands among the silent sources for the round itself.
const asking = "the asking"

// exportRound asks once and writes what was not shipped before. The requests of the round itself are no news.
func (a *app) exportRound(ctx context.Context, o *exportOptions, j *job, since time.Time, shipped map[string]time.Time) (*evidence.Manifest, error) {
	bounded, cancel := context.WithTimeout(ctx, o.history.target.deadline)
	defer cancel()
	t, m, err := j.history(bounded, since)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	var news []evidence.Event
	for _, e := range t.Told() {
		if _, known := shipped[e.ID]; !known {
			news = append(news, e)
		}
		shipped[e.ID] = time.Now()
	}
	b, err := evidence.NDJSON(news)
	if err != nil {
		return nil, err
	}
	return m, a.write(b)
}
