package diagcmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// recordDocument is the content of a record. Its lines are the entries, pinned ones first, then the story and the
// record's own state.
type recordDocument struct{ *ops.Record }

// entryLine is one entry as a document.
type entryLine struct {
	diag.Head
	*diag.RecordEntry
}

func entryLines(entries []*diag.RecordEntry) (lines []diag.Document) {
	for _, e := range entries {
		lines = append(lines, entryLine{diag.NewHead("NodeRecordEntry"), e})
	}
	return lines
}

// Lines returns the document for line-by-line formats.
func (d recordDocument) Lines() []diag.Document {
	var entries []*diag.RecordEntry
	r := *d.Record
	for _, list := range [...][]diag.RecordEntry{r.Record.Pinned, r.Record.Entries} {
		for i := range list {
			entries = append(entries, &list[i])
		}
	}
	r.Record.Pinned, r.Record.Entries = nil, nil
	return append(entryLines(entries), r)
}

// writeRecord writes the content of a record as one document. Its error means that the record is damaged or degraded.
func writeRecord(a *cmdutil.App, r *ops.Record, format string) error {
	err := a.ShowPage(recordDocument{r}, format, recordPage(*r, a.Width(a.Stdout) > 0)...)
	if err == nil && (r.Record.Degraded != "" || len(r.Record.Damaged) > 0) {
		err = &cmdutil.VerdictError{Code: cmdutil.ExitFailed}
	}
	return err
}

// recordPage is the record for people. On a terminal, what all entries share is printed once.
func recordPage(doc ops.Record, terminal bool) (blocks []page.Block) {
	f := doc.Record
	day, boot := "", ""
	if terminal {
		if day, boot = common(slices.Concat(f.Pinned, f.Entries)); day != "" || boot != "" {
			shared := slices.DeleteFunc([]string{day, boot, "times in UTC"}, func(s string) bool { return s == "" })
			blocks = append(blocks, page.Para{Text: strings.Join(shared, ", ")}, page.Blank{})
		}
	}
	row := func(cells []string) []string {
		if day != "" {
			cells[0], _, _ = strings.Cut(strings.TrimPrefix(cells[0], day+"T"), ".")
		}
		if boot != "" {
			cells = slices.Delete(cells, 1, 2)
		}
		return cells
	}
	pinned, rows := [][]string{append([]string{"PINNED"}, row(entryHeading())...)}, [][]string{row(entryHeading())}
	for i := range f.Pinned {
		pinned = append(pinned, append([]string{f.Pinned[i].Pin}, row(entryRow(&f.Pinned[i]))...))
	}
	for i := range f.Entries {
		rows = append(rows, row(entryRow(&f.Entries[i])))
	}
	for _, table := range [...][][]string{pinned, rows} {
		if len(table) > 1 {
			blocks = append(blocks, cmdutil.Table(table), page.Blank{})
		}
	}
	return append(blocks, storyFields(doc))
}

// common returns what all entries share and need not repeat: their day, and their boot as text; "" if they differ.
func common(entries []diag.RecordEntry) (day, boot string) {
	for i := range entries {
		e := &entries[i]
		d, in := when(e).UTC().Format(time.DateOnly), "boot "+e.BootID[:min(8, len(e.BootID))]
		if i == 0 {
			day, boot = d, in
		}
		if d != day {
			day = ""
		}
		if in != boot {
			boot = ""
		}
	}
	return day, boot
}

func entryHeading() []string {
	return []string{"TIME", "BOOT", "SEQ", "REASON", "ABOUT", "DECISION", "TRY", "FAILURE", "DETAIL"}
}

// entryRow is one entry, with the time of the last decision that it counts.
func entryRow(e *diag.RecordEntry) []string {
	return []string{
		stamp(when(e)), e.BootID[:min(8, len(e.BootID))], strconv.FormatUint(e.Seq, 10),
		reasonOf(e), e.About, e.Decision, try(e),
		string(e.Failure), detail(e),
	}
}

// reasonOf returns an entry's reason. The record has one reason for revoked, retired and fenced, which an operator
// undoes in three ways: the platform's own code distinguishes them.
func reasonOf(e *diag.RecordEntry) string {
	if e.Reason == diag.RecIdentityRevoked && e.Code != "" {
		return string(e.Reason) + " (" + e.Code + ")"
	}
	return string(e.Reason)
}

func when(e *diag.RecordEntry) diag.Time {
	if !e.Last.IsZero() {
		return e.Last
	}
	return e.At
}

func stamp(t diag.Time) string { return t.UTC().Format(diag.TimeLayout) }

// try is the attempt and the wait before it.
func try(e *diag.RecordEntry) string {
	if e.Attempt == 0 {
		return "-"
	}
	return strconv.Itoa(e.Attempt) + " in " + (time.Duration(e.DelayMS) * time.Millisecond).Round(100*time.Millisecond).
		String()
}

// detail is the rest of an entry, shortest first.
func detail(e *diag.RecordEntry) string {
	var parts []string
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d times since %s", e.Count, stamp(e.First)))
	}
	if e.Status != 0 {
		parts = append(parts, "HTTP "+strconv.Itoa(e.Status))
	}
	code := e.Code
	if e.Reason == diag.RecIdentityRevoked { // printed with the reason
		code = ""
	}
	return strings.Join(append(parts, page.NonEmpty(code, e.Detail, page.Prefixed("task ", e.TaskID))...), "; ")
}

// storyFields are the lines that sum up a record.
func storyFields(doc ops.Record) page.Fields {
	s := doc.Story
	rows := page.Fields{
		{Label: "first cause", Text: sentence(s.FirstCause, "nothing went wrong since the last good contact")},
		{Label: "last contact", Text: sentence(s.LastContact, "none is on record")},
		{Label: "last decision", Text: sentence(s.LastDecision, "none is on record")},
	}
	if s.LastUpdate != nil {
		rows = append(rows, page.Field{Label: "last update", Text: sentence(s.LastUpdate, "")})
	}
	if s.FirstCause == nil && s.LastContact == nil {
		rows[0].Text = "none is on record"
	}
	return append(rows, recordState(doc.Record)...)
}

func sentence(e *diag.RecordEntry, none string) string {
	if e == nil {
		return none
	}
	text := strings.TrimSpace(stamp(when(e))+" "+reasonOf(e)) + ", " + e.About + ": " + e.Decision
	if e.Failure != diag.OK {
		text += " after " + string(e.Failure)
	}
	if d := detail(e); d != "" {
		text += " (" + d + ")"
	}
	return text
}

// recordState is where the record was read, and its damage.
func recordState(f diag.RecordFacts) page.Fields {
	rows := page.Fields{{Label: "record",
		Text: fmt.Sprintf("%s: %d of %d slots hold an entry, the newest is %d", f.Path, f.Valid, f.Slots, f.Newest)}}
	if f.Missing > 0 {
		rows = append(rows, page.Field{Label: "missing",
			Text: fmt.Sprintf("%d sequence numbers that no slot holds", f.Missing)})
	}
	for _, d := range f.Damaged {
		rows = append(rows, page.Field{Label: "damaged", Text: fmt.Sprintf("%s, slot %d: %s", d.File, d.Slot, d.Why)})
	}
	if f.Source == record.SourceMirror {
		rows = append(rows, page.Field{Label: "read from", Text: "the copy in memory"})
	}
	if f.Degraded != "" {
		rows = append(rows, page.Field{Label: "degraded", Text: f.Degraded})
	}
	if f.Promise != "" {
		rows = append(rows, page.Field{Label: "not promised", Text: f.Promise})
	}
	return rows
}
