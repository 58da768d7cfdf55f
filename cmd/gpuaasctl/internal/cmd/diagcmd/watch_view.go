package diagcmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui/explorer"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// liveRecord is a record on a terminal, which is read repeatedly.
type liveRecord struct {
	app     *cmdutil.App
	node    string
	command func(words ...string) string // about the node
	every   time.Duration
	read    func(ctx context.Context) (*diag.RecordFacts, error)
	tick    <-chan time.Time
	now     func() time.Time

	facts *diag.RecordFacts // as it was read last
	at    time.Time
	lost  error // why it has not been readable since the last read
}

// begin reads the record for the first time.
func (l *liveRecord) begin(ctx context.Context) (err error) {
	l.facts, err = l.read(ctx)
	l.at = l.now()
	return err
}

// show shows the record until the user quits, and reads it at each tick.
func (l *liveRecord) show(ctx context.Context, in, out *os.File) error {
	return explorer.Run(ctx, l.document(), explorer.Options{
		In: in, Out: out, Display: l.app.RenderOptions(cmdutil.FormatFull), Explain: cmdutil.Explainer(), Follow: l.follow,
	})
}

func (l *liveRecord) follow(ctx context.Context, show func(explorer.Document)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tick:
		}
		facts, err := l.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.lost = err; err == nil {
			l.facts, l.at = facts, l.now()
		}
		show(l.document())
	}
}

// document is the record as a whole, then its entries, newest first, so that new ones are visible.
func (l *liveRecord) document() explorer.Document {
	r := ops.NewRecord(l.node, *l.facts)
	d := explorer.Document{Title: l.title(), Noun: "entry", Whole: "the record", Pick: "the record as a whole",
		Commands: l.commands()}
	st := l.status()
	d.Items = append(d.Items, explorer.Item{
		ID: "record", Name: "the record", Note: l.statusText(), Mark: page.Cell{Text: st.Symbol(),
			Style: page.StatusStyle(st)},
		Sections: func(render.Options) []render.Section { return l.about(r) },
	})
	for _, e := range slices.Backward(r.Record.InTime()) {
		d.Items = append(d.Items, entryItem(e))
	}
	return d
}

func (l *liveRecord) title() string {
	title := "record of " + l.node
	if l.lost != nil {
		return title + " · not read since " + l.at.UTC().Format(clockLayout) + ", trying on: " + l.lost.Error()
	}
	return title + " · read at " + l.at.UTC().Format(clockLayout) + ", every " + l.every.String()
}

// clockLayout is a time of day in UTC.
const clockLayout = "15:04:05Z"

func (l *liveRecord) status() diag.Status {
	switch f := l.facts; {
	case l.lost != nil:
		return diag.StatusInconclusive
	case f.Degraded != "" || len(f.Damaged) > 0:
		return diag.StatusFail
	}
	return diag.StatusPass
}

func (l *liveRecord) statusText() string {
	if l.lost != nil {
		return "not read"
	}
	return ""
}

// about is the record as a whole. The sections show this reading, even if a newer one arrives meanwhile.
func (l *liveRecord) about(r *ops.Record) []render.Section {
	var next page.Doc
	for i, c := range l.commands() {
		next.Add(page.Fields{{Label: fmt.Sprintf("[%d]", i+1), Command: c}})
	}
	return []render.Section{
		{Title: "story", Blocks: []page.Block{storyFields(*r)}},
		{Title: "next", Blocks: next.Blocks},
	}
}

// commands show more about the node.
func (l *liveRecord) commands() []string {
	return []string{l.command("diag", "show"), l.command("diag", "classify", "--explain"), l.command("diag", "trust")}
}

// entryItem is an entry as an item. Its number, boot and decision identify it in every reading of the record.
func entryItem(e *diag.RecordEntry) explorer.Item {
	mark := page.Cell{Text: "·", Style: page.Faint}
	switch {
	case e.Pin == record.PinContact:
		mark = page.Cell{Text: diag.StatusPass.Symbol(), Style: page.StatusStyle(diag.StatusPass)}
	case e.Failure != diag.OK:
		mark = page.Cell{Text: diag.StatusFail.Symbol(), Style: page.StatusStyle(diag.StatusFail)}
	}
	item := explorer.Item{
		ID:   strings.Join([]string{e.BootID, strconv.FormatUint(e.Seq, 10), e.Decision}, " "),
		Name: when(e).UTC().Format(time.TimeOnly) + " " + cmp.Or(reasonOf(e), e.About+" "+e.Decision), Mark: mark,
		Sections: func(render.Options) []render.Section {
			return []render.Section{{Title: "entry", Blocks: []page.Block{entryFields(e)}}}
		},
	}
	if e.Count > 1 {
		item.Note = "x" + strconv.FormatInt(e.Count, 10)
	}
	item.Words = append(item.Words, page.NonEmpty(string(e.Reason), string(e.Failure), e.Code)...)
	return item
}

// entryFields is everything that an entry has.
func entryFields(e *diag.RecordEntry) page.Fields {
	rows := page.Fields{}
	add := func(label, text string) {
		if text != "" && text != "0" {
			rows = append(rows, page.Field{Label: label, Text: text})
		}
	}
	add("decision", e.Decision+", about "+e.About)
	add("reason", reasonOf(e))
	add("failure", strings.TrimSuffix(string(e.Failure)+": "+e.Failure.Words(), ": "))
	add("time", stamp(when(e)))
	if e.Count > 1 {
		add("counted", fmt.Sprintf("%d times since %s", e.Count, stamp(e.First)))
	}
	if e.Attempt > 0 {
		add("attempt", try(e))
	}
	if e.CeilingMS > 0 {
		add("at most", (time.Duration(e.CeilingMS) * time.Millisecond).String())
	}
	if e.Status != 0 {
		add("answer", "HTTP "+strconv.Itoa(e.Status))
	}
	add("code", e.Code)
	add("detail", e.Detail)
	add("task", e.TaskID)
	add("request", e.CorrelationID)
	add("pinned", e.Pin)
	add("entry", strconv.FormatUint(e.Seq, 10)+" of boot "+e.BootID)
	add("node", strings.TrimSpace(e.NodeID+" "+e.InstanceID))
	add("agent", e.Agent)
	add("generation", strconv.FormatInt(e.Generation, 10))
	for _, name := range slices.Sorted(maps.Keys(e.Facts)) {
		add(name, e.Facts[name])
	}
	return rows
}
