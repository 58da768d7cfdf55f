package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// watchEvery is how often a watched record is looked at: an agent decides a few times a minute.
const watchEvery = 2 * time.Second

func newDiagWatch(a *app) *cobra.Command {
	o := &recordOptions{}
	every := watchEvery
	cmd := &cobra.Command{
		Use:   "watch NODE",
		Short: "Follow a node's diagnostic record",
		Long: `Prints the newest entries of a node's record, and then each as it comes, until Ctrl-C. One SSH connection is held; when it
breaks (the node restarts, a drill cuts it off) that is said once and it is made anew. An entry that is counted again is
printed again, with its count, and the last good contact when the platform answers again.

Exit codes: 2 usage or configuration, 5 the record could not be read at the start, 130 ended by Ctrl-C.`,
		Example: `  gpuaasctl diag watch compute-node-01 --profile lab
  gpuaasctl diag watch compute-node-01 --profile lab --limit 1 -o ndjson`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.watchRecord(cmd, args[0], o, every) },
	}
	o.flags(a, cmd, formatTable, formatNDJSON)
	cmd.Flags().DurationVar(&every, "every", every, "look each `TIME`")
	cmd.Flags().Lookup("deadline").Usage = "give up one look after this `TIME`"
	return cmd
}

func (a *app) watchRecord(cmd *cobra.Command, node string, o *recordOptions, every time.Duration) error {
	if every < 100*time.Millisecond || every > time.Hour {
		return &usageError{err: fmt.Errorf("--every: want between 100ms and 1h, not %s", every), command: cmd.CommandPath()}
	}
	j, err := a.recordTarget(cmd, node, o)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	w := &watch{app: a, job: j, opts: o, limit: o.limit, seen: map[uint64]seenEntry{}, widths: []int{24, 8, 3, 18, 9, 8, 11, 12}}
	defer func() { w.hangUp(ctx) }()
	if err := w.look(ctx); err != nil {
		return a.unread(err)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := w.look(ctx); err != nil && !w.tell(err) {
			return err
		}
	}
}

// watch follows one record.
type watch struct {
	app   *app
	job   *job
	opts  *recordOptions
	limit int // of the first look; later ones must not miss what a busy agent wrote in between

	place  map[string]preflight.Vantage // nil: to be connected
	seen   map[uint64]seenEntry
	since  time.Time // of the run of good contacts that was told
	titled bool
	broken bool
	widths []int
}

// seenEntry is an entry as it was printed.
type seenEntry struct {
	boot  string
	count int64
}

// look prints what is new.
func (w *watch) look(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, w.opts.deadline)
	defer cancel()
	if w.place == nil {
		w.place = w.job.vantages()
	}
	req := w.job.recordRequest(w.opts)
	if req.Limit = w.limit; len(w.seen) > 0 {
		req.Limit = maxEntries / 4
	}
	f, err := askRecord(looking, w.place[preflight.Node], req, w.job.recordHome())
	if err != nil {
		w.hangUp(ctx) // the next look begins anew: a connection that broke stays broken
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if w.broken {
		w.broken = false
		note(w.app.stderr, "the record can be read again")
	}
	redacted{}.record(f.Record)
	return w.print(append(f.Record.Entries, w.contact(f.Record.Pinned)...))
}

// contact is the last good contact where it is news: the platform answers again.
func (w *watch) contact(pinned []diag.RecordEntry) []diag.RecordEntry {
	for _, e := range pinned {
		if e.Pin == record.PinContact && !e.First.Equal(w.since) {
			w.since = e.First.Time
			return []diag.RecordEntry{e}
		}
	}
	return nil
}

// tell says once that looks fail; false when err is not about the node but the end.
func (w *watch) tell(err error) bool {
	var write *stdoutError
	if errors.Is(err, context.Canceled) || errors.As(err, &write) {
		return false
	}
	if !w.broken {
		w.broken = true
		note(w.app.stderr, "%v; looking on", err)
	}
	return true
}

// stdoutError is an output that nobody reads any more.
type stdoutError struct{ err error }

func (e *stdoutError) Error() string { return e.err.Error() }
func (e *stdoutError) Unwrap() error { return e.err }

// print writes the entries that were not printed yet, or were with a lower count. The oldest come first.
func (w *watch) print(entries []diag.RecordEntry) error {
	var fresh []*diag.RecordEntry
	for i := range entries {
		e := &entries[i]
		if e.Pin != "" {
			fresh = append(fresh, e)
			continue
		}
		if was, ok := w.seen[e.Seq]; !ok || was.boot != e.BootID || e.Count > was.count {
			fresh = append(fresh, e)
		}
		w.seen[e.Seq] = seenEntry{e.BootID, e.Count}
	}
	slices.SortStableFunc(fresh, func(a, b *diag.RecordEntry) int { return when(a).Compare(when(b).Time) })
	if len(fresh) == 0 {
		return nil
	}
	if err := w.app.write(w.text(fresh)); err != nil {
		return &stdoutError{err}
	}
	return nil
}

func (w *watch) text(fresh []*diag.RecordEntry) []byte {
	var b bytes.Buffer
	if w.opts.output == formatNDJSON {
		enc := json.NewEncoder(&b)
		for _, e := range fresh {
			_ = enc.Encode(e) // strings, numbers and times, into memory
		}
		return b.Bytes()
	}
	var rows [][]string
	if !w.titled {
		w.titled = true
		rows = append(rows, entryHeading())
	}
	for _, e := range fresh {
		rows = append(rows, entryRow(e))
	}
	for _, row := range rows {
		b.WriteString(w.line(row))
	}
	return b.Bytes()
}

// line aligns a row with those that were printed before it, as far as they left room.
func (w *watch) line(row []string) string {
	var line strings.Builder
	for i, cell := range row {
		if i == len(w.widths) {
			w.widths = append(w.widths, 0)
		}
		w.widths[i] = max(w.widths[i], len(cell))
		line.WriteString(cell)
		if i+1 < len(row) {
			line.WriteString(strings.Repeat(" ", w.widths[i]-len(cell)+2))
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// hangUp gives the connection back.
func (w *watch) hangUp(ctx context.Context) {
	if w.place != nil {
		closeAll(ctx, w.place)
		w.place = nil
	}
}
