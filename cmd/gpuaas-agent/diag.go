package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// runDiag prints this host's diagnostic record. It needs no running agent, no network, and no disk space.
func runDiag(_ context.Context, args []string, sys system) error {
	fs := flag.NewFlagSet("gpuaas-agent diag", flag.ContinueOnError)
	dir := fs.String("dir", recorder.DefaultDir, "folder of the record")
	mirror := fs.String("mirror", recorder.DefaultMirror,
		"folder of its copy in memory, for what is not on the disk; empty: none")
	limit := fs.Int("limit", 32, "newest `ENTRIES` to print; 0 prints all")
	asJSON := fs.Bool("json", false, "as one JSON document")
	if err := parse(fs, args, sys); err != nil {
		return err
	}
	if *limit < 0 {
		return &usageError{fmt.Errorf("-limit: want 0 or more, not %d", *limit)}
	}
	f, err := readRecord(*dir, *mirror)
	if err != nil {
		return err
	}
	f = record.Newest(f, *limit)
	if *asJSON {
		return json.NewEncoder(sys.out).Encode(f)
	}
	return printRecord(sys.out, f)
}

// readRecord reads the record, and adds what only its mirror has.
func readRecord(dir, mirror string) (diag.RecordFacts, error) {
	f, err := record.ReadBoth(os.DirFS(dir), os.DirFS(mirror))
	f.Path = dir
	if f.Source == record.SourceMirror {
		f.Path = mirror
	}
	return f, err
}

// printRecord writes one line per entry, pinned entries first, and then the problems of the record.
func printRecord(w io.Writer, f diag.RecordFacts) error {
	var b strings.Builder
	for _, e := range f.Pinned {
		b.WriteString(line(e.Pin, e))
	}
	for _, e := range f.Entries {
		b.WriteString(line("", e))
	}
	fmt.Fprintf(&b, "%s: %d of %d slots hold an entry, the newest is %d\n", f.Path, f.Valid, f.Slots, f.Newest)
	for _, d := range f.Damaged {
		fmt.Fprintf(&b, "damaged: %s slot %d: %s\n", d.File, d.Slot, d.Why)
	}
	if f.Degraded != "" {
		fmt.Fprintf(&b, "degraded: %s\n", f.Degraded)
	}
	if f.Promise != "" {
		fmt.Fprintf(&b, "not promised: %s\n", f.Promise)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line is one entry as one line of printable text.
func line(pin string, e diag.RecordEntry) string {
	words := []string{e.At.UTC().Format(diag.TimeLayout), strconv.FormatUint(e.Seq, 10), pin, string(e.Reason), e.About,
		e.Decision}
	add := func(key, v string) {
		if v != "" && v != "0" {
			words = append(words, key+"="+v)
		}
	}
	add("attempt", strconv.Itoa(e.Attempt))
	add("delay_ms", strconv.FormatInt(e.DelayMS, 10))
	add("count", strconv.FormatInt(e.Count, 10))
	if !e.First.IsZero() {
		add("first", e.First.UTC().Format(diag.TimeLayout))
	}
	add("failure", string(e.Failure))
	add("status", strconv.Itoa(e.Status))
	add("code", e.Code)
	if e.Detail != "" {
		add("detail", strconv.Quote(e.Detail))
	}
	add("task", e.TaskID)
	add("boot", e.BootID)
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text) + "\n"
}
