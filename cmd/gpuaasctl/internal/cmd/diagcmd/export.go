package diagcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/ops"
)

const (
	// exportOverlap is how far a round reaches back before the previous one: journals and evidence arrive late, and
	// events that were already exported keep their ids.
	exportOverlap = time.Minute
	minEvery      = time.Second
)

// exportOptions select what is exported, and whether export continues.
type exportOptions struct {
	history historyOptions
	follow  bool
	every   time.Duration
}

func newDiagExport(a *cmdutil.App) *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export [NODE [ALLOCATION]]",
		Short: "Write a node's history as NDJSON that a log collector can ship",
		Long: `Writes the events of diag timeline, one JSON object per line, with stable names (see docs/export.md). An event has the
same id each time that it is exported, so a collector that keys by id keeps it once, however often it is shipped.
With --follow it goes on: every --every it asks again, and writes what is new.

Exit codes: 0 every source answered, 2 usage or configuration, 3 none had evidence, 5 some did not answer (they are
named on stderr), 130 interrupted.`,
		Example: `  gpuaasctl diag export compute-node-01 --profile lab --since 24h >node.ndjson
  gpuaasctl diag export compute-node-01 --profile lab --follow --every 30s | collector`,
		Args: cmdutil.Args(0, 2),
		RunE: cmdutil.Run(a, o, export),
	}
	o.history.flags(a, cmd)
	cmd.Flags().BoolVar(&o.follow, "follow", false, "continue, and write new events")
	cmd.Flags().DurationVar(&o.every, "every", 10*time.Second, "with --follow, ask again after this `TIME`")
	return cmd
}

func export(a *cmdutil.App, cmd *cobra.Command, o *exportOptions, args []string) error {
	if o.every < minEvery {
		return &cmdutil.UsageError{Err: fmt.Errorf("--every: want at least %s, not %s", minEvery, o.every),
			Command: cmd.CommandPath()}
	}
	s, err := o.history.prepare(a, cmd, args)
	if err != nil {
		return err
	}
	since, shipped := s.Began.Add(-o.history.since), map[string]time.Time{}
	silent := map[string]string{}
	for {
		began := time.Now()
		m, err := exportRound(a, cmd.Context(), o, s, since, shipped)
		if m != nil {
			noteChanged(a, m, silent)
		}
		if err != nil {
			return err
		}
		if !o.follow {
			return gatheredCode(m)
		}
		since = o.nextSince(since, began, m.Whole)
		for id, at := range shipped { // too old to be returned again
			if at.Before(since.Add(-exportOverlap)) {
				delete(shipped, id)
			}
		}
		if !sleep.For(cmd.Context(), o.every) {
			return cmd.Context().Err()
		}
		s = s.Restart() // the correlation id stays: requests of earlier rounds are not exported either
	}
}

// nextSince returns the start time of the next round. It does not advance while a source is silent: events that the
// source did not return in this round are exported after the outage, when they matter most.
func (o *exportOptions) nextSince(since, began time.Time, whole bool) time.Time {
	if whole {
		return began.Add(-exportOverlap)
	}
	if most := began.Add(-max(o.history.since, defaultSince)); since.Before(most) {
		return most
	}
	return since
}

// noteChanged notes which sources stopped or resumed answering, once per change. silent has the notes so far, by
// source.
func noteChanged(a *cmdutil.App, m *evidence.Manifest, silent map[string]string) {
	now := map[string]string{}
	for _, g := range m.Missing() {
		now[g.Source] = g.Status
		if silent[g.Source] != g.Status {
			a.Note("%s is %s: %s", g.Source, g.Status, g.Why)
		}
	}
	if by := string(m.EndedBy); m.EndedBy != diag.EndedCompleted {
		now[asking] = by
		if silent[asking] != by {
			a.Note("the asking ended by %s", by)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(silent)) {
		if now[source] == "" {
			a.Note("%s is complete again", source)
		}
	}
	clear(silent)
	maps.Copy(silent, now)
}

// asking stands for the round itself among the silent sources.
const asking = "the asking"

// exportRound queries once and writes what was not exported before, without the round's own requests.
func exportRound(a *cmdutil.App, ctx context.Context, o *exportOptions, s *ops.Session, since time.Time,
	shipped map[string]time.Time) (*evidence.Manifest, error) {
	bounded, cancel := context.WithTimeout(ctx, o.history.target.Deadline)
	defer cancel()
	gathered, err := s.Evidence(bounded, ops.EvidenceOptions{Since: since})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	var news []evidence.Event
	for _, e := range gathered.Timeline().Shown() {
		if _, known := shipped[e.ID]; !known {
			news = append(news, e)
		}
		shipped[e.ID] = time.Now()
	}
	return gathered.Manifest, showTimeline(a, evidence.Timeline{Events: news}, cmdutil.FormatNDJSON)
}
