package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// recordDoc is a node's record as one JSON document.
type recordDoc struct {
	Node   string           `json:"node,omitempty"`
	Story  record.Story     `json:"story"`
	Record diag.RecordFacts `json:"record"`
}

// writeRecord writes what was read of a record, as one document. Its error is for a record that is damaged or degraded.
// Agents scrub what they write; what an older one, or another hand, let through does not leave by this tool.
func (a *app) writeRecord(node string, f diag.RecordFacts, format string) error {
	redacted{}.record(&f)
	doc := recordDoc{Node: node, Story: record.Tell(f), Record: f}
	var err error
	switch format {
	case formatJSON:
		err = a.writeJSON(doc)
	case formatNDJSON:
		err = a.write(recordLines(doc))
	default:
		err = a.write(recordText(doc, width(a.stdout)))
	}
	if err == nil && (f.Degraded != "" || len(f.Damaged) > 0) {
		err = &verdictError{exitFailed}
	}
	return err
}

// recordLines is one entry per line, pinned ones first, then the story and the record's own state.
func recordLines(doc recordDoc) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, list := range [...][]diag.RecordEntry{doc.Record.Pinned, doc.Record.Entries} {
		for _, e := range list {
			_ = enc.Encode(e) // strings, numbers and times, into memory
		}
	}
	doc.Record.Pinned, doc.Record.Entries = nil, nil
	_ = enc.Encode(doc)
	return b.Bytes()
}

// recordText is the record for people, on a terminal that is limit wide, or on a pipe where it is 0.
func recordText(doc recordDoc, limit int) []byte {
	var b bytes.Buffer
	f := doc.Record
	day, boot := "", ""
	if limit > 0 {
		if day, boot = common(slices.Concat(f.Pinned, f.Entries)); day != "" || boot != "" {
			b.WriteString(strings.Join(slices.DeleteFunc([]string{day, boot, "times in UTC"}, func(s string) bool { return s == "" }), ", ") + "\n\n")
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
	if len(f.Pinned) > 0 {
		rows := [][]string{append([]string{"PINNED"}, row(entryHeading())...)}
		for i := range f.Pinned {
			rows = append(rows, append([]string{f.Pinned[i].Pin}, row(entryRow(&f.Pinned[i]))...))
		}
		b.Write(columnsIn(rows, limit))
		b.WriteByte('\n')
	}
	if len(f.Entries) > 0 {
		rows := [][]string{row(entryHeading())}
		for i := range f.Entries {
			rows = append(rows, row(entryRow(&f.Entries[i])))
		}
		b.Write(columnsIn(rows, limit))
		b.WriteByte('\n')
	}
	b.Write(columnsIn(storyRows(doc), limit))
	return b.Bytes()
}

// common is what all entries share and need not repeat: their day, and their boot in words; "" where they differ.
func common(entries []diag.RecordEntry) (day, boot string) {
	for i := range entries {
		e := &entries[i]
		d, in := when(e).UTC().Format(time.DateOnly), "boot "+render.Clean(e.BootID[:min(8, len(e.BootID))])
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

// entryRow is one entry, by the time of the last decision that it stands for.
func entryRow(e *diag.RecordEntry) []string {
	return []string{
		stamp(when(e)), render.Clean(e.BootID[:min(8, len(e.BootID))]), strconv.FormatUint(e.Seq, 10),
		render.Clean(reasonOf(e)), render.Clean(e.About), render.Clean(e.Decision), try(e),
		orMinus(render.Clean(string(e.Failure))), orMinus(render.Clean(detail(e))),
	}
}

// reasonOf is an entry's reason. One word of the record stands for revoked, retired and fenced, which an operator undoes
// in three ways: the platform's own code says which.
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

func orMinus(s string) string { return cmp.Or(s, "-") }

// try is the attempt and what was waited for it.
func try(e *diag.RecordEntry) string {
	if e.Attempt == 0 {
		return "-"
	}
	return strconv.Itoa(e.Attempt) + " in " + (time.Duration(e.DelayMS) * time.Millisecond).Round(100*time.Millisecond).String()
}

// detail is everything else that an entry says, shortest first.
func detail(e *diag.RecordEntry) string {
	var parts []string
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d times since %s", e.Count, stamp(e.First)))
	}
	if e.Status != 0 {
		parts = append(parts, "HTTP "+strconv.Itoa(e.Status))
	}
	code := e.Code
	if e.Reason == diag.RecIdentityRevoked { // said with the reason
		code = ""
	}
	for _, p := range [...]string{code, e.Detail} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.TaskID != "" {
		parts = append(parts, "task "+e.TaskID)
	}
	return strings.Join(parts, "; ")
}

// storyRows are the lines that sum a record up.
func storyRows(doc recordDoc) [][]string {
	s := doc.Story
	rows := [][]string{
		{"first cause", sentence(s.FirstCause, "nothing went wrong since the last good contact")},
		{"last contact", sentence(s.LastContact, "none is on record")},
		{"last decision", sentence(s.LastDecision, "none is on record")},
	}
	if s.LastUpdate != nil {
		rows = append(rows, []string{"last update", sentence(s.LastUpdate, "")})
	}
	if s.FirstCause == nil && s.LastContact == nil {
		rows[0][1] = "none is on record"
	}
	return append(rows, recordState(doc.Record)...)
}

func sentence(e *diag.RecordEntry, none string) string {
	if e == nil {
		return none
	}
	text := stamp(when(e)) + "  " + reasonOf(e) + ", " + e.About + ": " + e.Decision
	if e.Failure != diag.OK {
		text += " after " + string(e.Failure)
	}
	if d := detail(e); d != "" {
		text += " (" + d + ")"
	}
	return render.Clean(text)
}

// recordState is where the record was read, and what is wrong with it.
func recordState(f diag.RecordFacts) [][]string {
	rows := [][]string{{"record", fmt.Sprintf("%s: %d of %d slots hold an entry, the newest is %d", render.Clean(f.Path), f.Valid, f.Slots, f.Newest)}}
	if f.Missing > 0 {
		rows = append(rows, []string{"missing", fmt.Sprintf("%d sequence numbers that no slot holds", f.Missing)})
	}
	for _, d := range f.Damaged {
		rows = append(rows, []string{"damaged", render.Clean(fmt.Sprintf("%s, slot %d: %s", d.File, d.Slot, d.Why))})
	}
	if f.Source == record.SourceMirror {
		rows = append(rows, []string{"read from", "the copy in memory"})
	}
	if f.Degraded != "" {
		rows = append(rows, []string{"degraded", render.Clean(f.Degraded)})
	}
	if f.Promise != "" {
		rows = append(rows, []string{"not promised", render.Clean(f.Promise)})
	}
	return rows
}
