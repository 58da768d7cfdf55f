package gpucmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/gpu/logfile"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

func seenOf(s logfile.Seen) *Seen {
	if s.Count == 0 {
		return nil
	}
	seen := Seen{Count: s.Count}
	for _, l := range s.Lines {
		seen.Lines = append(seen.Lines, SeenLine(l))
	}
	return &seen
}

func (doc *Scan) code() int {
	code := cmdutil.ExitPass
	if doc.Lines == 0 || doc.Unkept > 0 || doc.Unread != nil || doc.Doubt != "" || doc.Cut != "" {
		code = cmdutil.ExitInconclusive
	}
	for _, f := range doc.Errors {
		switch {
		case f.Earlier:
		case f.Condemns == xid.GPU, f.Condemns == xid.Node:
			return cmdutil.ExitFailed
		case f.Condemns == xid.Undecided:
			code = cmdutil.ExitInconclusive
		}
	}
	return code
}

func (doc *Scan) page() []page.Block {
	var blocks []page.Block
	if len(doc.Errors) > 0 {
		blocks = append(blocks, cmdutil.Table(doc.rows()), page.Blank{})
	}
	say := func(format string, args ...any) {
		blocks = append(blocks, page.Para{Text: fmt.Sprintf(format, args...)})
	}
	if len(doc.Errors) > 0 {
		say("%d lines read; gpuaasctl gpu xid explain CODE has what to do", doc.Lines)
	} else {
		say("%d lines read, no XID and no SXID", doc.Lines)
	}
	if doc.Doubt != "" {
		say("%s: this says nothing of the GPUs. The kernel log is what dmesg or journalctl -k prints", doc.Doubt)
	}
	if doc.Cut != "" {
		say("the log was not read to its end: %s", doc.Cut)
	}
	if doc.Coverage != nil && len(doc.Coverage.Gaps) > 0 {
		say("%d records of this boot were not looked at: the kernel had overwritten them, or gave them out damaged",
			doc.Coverage.Lost)
	}
	if doc.Unkept > 0 {
		say("%d more lines with errors are not listed", doc.Unkept)
	}
	blocks = append(blocks, seenBlocks(doc.Unread, "with the driver's words, but not understood: look at")...)
	blocks = append(blocks, seenBlocks(doc.Foreign,
		"with the driver's words that the kernel did not write, not counted:")...)
	return blocks
}

// rows is the table of errors. Columns that no error has are left out.
func (doc *Scan) rows() [][]string {
	var host, when, boot bool
	for _, f := range doc.Errors {
		host, when, boot = host || f.Host != "", when || f.First != "", boot || f.Earlier
	}
	choose := func(row []string, hostCell, first, last, bootCell string) []string {
		if host {
			row = append([]string{hostCell}, row...)
		}
		if when {
			row = append(row, first, last)
		}
		if boot {
			row = append(row, bootCell)
		}
		return row
	}
	head := []string{"count", "device", "error", "title", "class", "condemns"}
	rows := [][]string{append(choose(head, "host", "first", "last", "boot"), "process", "text")}
	for _, f := range doc.Errors {
		name, process, bootCell := string(f.Type), f.Process, "newest"
		if f.Code != nil {
			name += " " + strconv.Itoa(*f.Code)
		}
		if f.PID != nil {
			process = strings.TrimSpace(process + " " + strconv.Itoa(*f.PID))
		}
		if f.Earlier {
			bootCell = "earlier"
		}
		row := []string{
			strconv.FormatUint(f.Count, 10), f.Device, name, f.Title, string(f.Class), string(f.Condemns),
		}
		rows = append(rows, append(choose(row, f.Host, f.First, f.Last, bootCell), process, f.Text))
	}
	return rows
}

// seenBlocks lists lines that did not count.
func seenBlocks(s *Seen, what string) []page.Block {
	if s == nil {
		return nil
	}
	lines := "lines"
	if s.Count == 1 {
		lines = "line"
	}
	blocks := []page.Block{page.Blank{}, page.Para{Text: fmt.Sprintf("%d %s %s", s.Count, lines, what)}}
	rows := make([][]string, 0, len(s.Lines)+1)
	rows = append(rows, []string{"line", "text"})
	for _, l := range s.Lines {
		rows = append(rows, []string{strconv.Itoa(l.Line), l.Text})
	}
	return append(blocks, cmdutil.Table(rows))
}
