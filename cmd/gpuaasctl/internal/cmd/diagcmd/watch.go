package diagcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// watchEvery is how often a watched record is read: an agent writes a few entries a minute.
const watchEvery = 2 * time.Second

// watchOptions select the record, and how often it is read.
type watchOptions struct {
	recordOptions
	every time.Duration
}

func newDiagWatch(a *cmdutil.App) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [NODE]",
		Short: "Follow a node's diagnostic record",
		Long: `Shows a node's record as it changes. On a terminal it is a page to move in, the newest entry first, as gpuaasctl
preflight view shows a walk: ? help, arrows or hjkl move, / searches, e explains a word, 1-9 copy a command (OSC 52),
q quits.

Elsewhere, and with --quiet, it prints the newest entries, and then each as it comes, until Ctrl-C: an entry that is
counted again is printed again, with its count, and the last good contact when the platform answers again.

One SSH connection is held. When it breaks (the node restarts, a drill cuts it off), that is shown, or printed once, and
it connects again.

Exit codes: 0 left by q, 2 usage or configuration, 5 the record could not be read at the start, 130 ended by Ctrl-C.`,
		Example: `  gpuaasctl diag watch compute-node-01 --profile lab
  gpuaasctl diag watch compute-node-01 --profile lab --limit 1 -o ndjson`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, watchRecord),
	}
	o.flags(a, cmd, cmdutil.FormatTable, cmdutil.FormatNDJSON)
	cmd.Flags().DurationVar(&o.every, "every", watchEvery, "look each `TIME`")
	cmd.Flags().Lookup("deadline").Usage = "give up one attempt after this `TIME`"
	return cmd
}

func watchRecord(a *cmdutil.App, cmd *cobra.Command, o *watchOptions, args []string) error {
	if o.every < 100*time.Millisecond || o.every > time.Hour {
		return &cmdutil.UsageError{Err: fmt.Errorf("--every: want between 100ms and 1h, not %s", o.every),
			Command: cmd.CommandPath()}
	}
	s, err := recordTarget(a, cmd, &o.recordOptions, args)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	w := &watch{app: a, opts: &o.recordOptions, limit: o.limit, node: s.Follow(ops.RecordOptions{Dir: o.dir}),
		seen: map[uint64]seenEntry{}}
	defer func() { w.node.Close(ctx) }()
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	if in, out := cmdutil.Terminals(a); cmdutil.IsPage(o.output) && !a.Quiet && tui.Possible(in, out) {
		return watchLive(ctx, a, s, w, o.every, tick.C, in, out)
	}
	if err := w.printNew(ctx); err != nil {
		return a.NotMeasured(err)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := w.printNew(ctx); err != nil && !w.noteError(err) {
			return err
		}
	}
}

// watchLive shows the record on a terminal.
func watchLive(
	ctx context.Context, a *cmdutil.App, s *ops.Session, w *watch, every time.Duration, tick <-chan time.Time,
	in, out *os.File,
) error {
	l := &liveRecord{app: a, node: s.Subject().NodeID, command: s.Command, every: every, tick: tick, now: time.Now,
		read: func(ctx context.Context) (*diag.RecordFacts, error) {
			ctx, cancel := context.WithTimeout(ctx, w.opts.Deadline)
			defer cancel()
			return w.node.Read(ctx, w.limit)
		}}
	if err := l.begin(ctx); err != nil {
		return a.NotMeasured(err)
	}
	return l.show(ctx, in, out)
}

// watch follows one record.
type watch struct {
	app   *cmdutil.App
	node  *ops.Follower
	opts  *recordOptions
	limit int // for the first read; later ones must not miss what a busy agent wrote in between

	seen    map[uint64]seenEntry
	since   time.Time // start of the series of good contacts that was printed
	broken  bool
	columns []page.Column // widths of what was printed; with titles before the first row
}

// seenEntry is an entry as it was printed.
type seenEntry struct {
	boot  string
	count int64
}

// printNew prints new entries.
func (w *watch) printNew(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, w.opts.Deadline)
	defer cancel()
	limit := w.limit
	if len(w.seen) > 0 {
		limit = maxEntries / 4
	}
	r, err := w.node.Read(looking, limit)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if w.broken {
		w.broken = false
		w.app.Note("the record can be read again")
	}
	return w.print(append(r.Entries, w.contact(r.Pinned)...))
}

// contact returns the last good contact if it follows a failure: the platform answers again.
func (w *watch) contact(pinned []diag.RecordEntry) []diag.RecordEntry {
	for _, e := range pinned {
		if e.Pin == record.PinContact && !e.First.Equal(w.since) {
			w.since = e.First.Time
			return []diag.RecordEntry{e}
		}
	}
	return nil
}

// noteError reports once that reads of the record fail; it returns false if err ends the watch.
func (w *watch) noteError(err error) bool {
	if errors.Is(err, context.Canceled) || errors.As(err, new(*stdoutError)) {
		return false
	}
	if !w.broken {
		w.broken = true
		w.app.Note("%v; looking on", err)
	}
	return true
}

// stdoutError is the error of an output whose reader is gone.
type stdoutError struct{ err error }

func (e *stdoutError) Error() string { return e.err.Error() }
func (e *stdoutError) Unwrap() error { return e.err }

// print writes entries that are new, or whose count has grown, oldest first.
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
	if err := w.app.ShowPage(diag.Documents[diag.Document](entryLines(fresh)), w.opts.output, w.table(fresh)); err != nil {
		return &stdoutError{err}
	}
	return nil
}

// table formats the entries in the columns of those printed before, as far as they fit.
func (w *watch) table(fresh []*diag.RecordEntry) page.Block {
	if w.columns == nil {
		w.columns = page.Titles(entryHeading()...)
		for i, least := range [...]int{24, 8, 3, 18, 9, 8, 11, 12} {
			w.columns[i].Min = least
		}
	}
	t := page.Table{Columns: slices.Clone(w.columns)}
	for _, e := range fresh {
		row := entryRow(e)
		t.Rows = append(t.Rows, page.Cells(row...))
		for i, cell := range row {
			w.columns[i] = page.Column{Min: max(w.columns[i].Min, page.Width(page.Clean(cell)))}
		}
	}
	return t
}
