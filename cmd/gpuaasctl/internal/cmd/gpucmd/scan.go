package gpucmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Scan is the output of scan -o json.
type Scan struct {
	diag.Head        // XIDScan
	Tables    string `json:"tables"`
	Log       string `json:"log"`
	Lines     int    `json:"lines"` // number of lines read
	// Coverage is which part of the kernel log was read; absent for a log file.
	Coverage *kmsg.Coverage `json:"coverage,omitempty"`
	Errors   []Found        `json:"errors"`
	Unkept   uint64         `json:"unkept,omitempty"` // lines dropped because the limit was reached
}

// Found is one error in the log, with the number of equal lines. Values that a line does not have are absent.
type Found struct {
	Type            kmsg.Kind `json:"type"`
	Code            *int      `json:"code,omitempty"`
	Title           string    `json:"title"`
	Device          string    `json:"device,omitempty"`
	GPUInstance     *int      `json:"gpu_instance,omitempty"`
	ComputeInstance *int      `json:"compute_instance,omitempty"`
	PID             *int      `json:"pid,omitempty"`
	Process         string    `json:"process,omitempty"`
	CausedBy        *int      `json:"caused_by,omitempty"` // an XID
	Recovery        *int      `json:"recovery,omitempty"`  // the driver's number of the action
	Severity        string    `json:"severity,omitempty"`
	Port            *int      `json:"port,omitempty"`
	Text            string    `json:"text"`
	Count           uint64    `json:"count"`
	Folded          bool      `json:"folded,omitempty"` // lines that differ in process or text are counted together
	Class           xid.Class `json:"class"`
	Condemns        xid.Scope `json:"condemns"`
}

func newScan(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, scan, &cobra.Command{
		Use:   "scan LOG",
		Short: "Find XIDs and SXIDs in a kernel log, and explain them",
		Long: `Reads a log as dmesg, a syslog daemon or journalctl writes it, "-" for stdin, or /dev/kmsg, the kernel log of this
machine. Equal lines are counted. Of /dev/kmsg it is also shown which part the kernel no longer had: there, no error
found does not mean that there was none. For a node's log, pipe it here: gpuaasctl ssh exec NODE -- dmesg.

Exit codes: 0 no error that condemns a GPU or the node, 2 the log cannot be opened, 3 an error does, 5 an error is
undecided by its code alone, or the log is empty.`,
		Example: `  gpuaasctl gpu xid scan /var/log/kern.log
  gpuaasctl gpu xid scan - <kern.log
  gpuaasctl gpu xid scan /dev/kmsg -o json`,
		Args: cmdutil.Args(1, 1),
	}, cmdutil.PageFormats()...)
}

func scan(a *cmdutil.App, cmd *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	doc := Scan{Head: diag.NewHead("XIDScan"), Tables: xid.Digest, Log: args[0], Errors: []Found{}}
	tally, err := doc.read(cmd.Context(), a, args[0])
	if err != nil {
		return err
	}
	doc.Unkept = tally.Unkept
	for _, e := range tally.Events {
		doc.Errors = append(doc.Errors, foundOf(e))
	}
	return a.ExitError(doc.code(), a.ShowPage(doc, o.Output, doc.page()...))
}

// read counts the errors of the log.
func (doc *Scan) read(ctx context.Context, a *cmdutil.App, path string) (*kmsg.Tally, error) {
	if path == kmsg.Path {
		return doc.readKernel()
	}
	r, err := cmdutil.From(ctx, a, "the log", path, readLog)
	doc.Lines = r.lines
	return r.tally, err
}

// counted is the result of reading a log.
type counted struct {
	tally *kmsg.Tally
	lines int
}

// maxLine bounds a line; the rest is ignored.
const maxLine = 8 << 10

// readLog reads a log of any length in bounded memory.
func readLog(in io.Reader) (counted, error) {
	var f kmsg.Finder
	c := counted{tally: &kmsg.Tally{}}
	r := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			c.lines++
			if l, ok := f.FindInLog(strings.TrimRight(string(line), "\r\n")); ok {
				c.tally.Add(kmsg.Event{Line: l, Count: 1})
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
}

// readKernel reads what this machine's kernel still has.
func (doc *Scan) readKernel() (*kmsg.Tally, error) {
	boot, err := kmsg.BootID()
	if err != nil {
		return nil, &cmdutil.UsageError{Err: err}
	}
	d, err := kmsg.Open(kmsg.Path)
	if err != nil {
		return nil, &cmdutil.UsageError{Err: err}
	}
	defer d.Close()
	r := kmsg.NewReader(d, boot, kmsg.Coverage{}, kmsg.Uptime)
	b, err := r.Drain(0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the kernel log %s: %w", kmsg.Path, err)
	}
	c := r.Coverage()
	doc.Lines, doc.Coverage = b.Records, &c
	return &kmsg.Tally{Events: b.Events, Unkept: c.Unkept}, nil
}

func foundOf(e kmsg.Event) Found {
	number := func(n int) *int {
		if n == kmsg.Absent {
			return nil
		}
		return &n
	}
	f := Found{
		Type: e.Kind, Code: number(e.Code), Device: e.Device, GPUInstance: number(e.GPUInstance),
		ComputeInstance: number(e.ComputeInstance), PID: number(e.PID), Process: e.Name, CausedBy: number(e.Cause),
		Recovery: number(e.Recovery), Severity: e.Severity, Port: number(e.Port), Text: e.Text, Count: e.Count,
		Folded: e.Folded,
	}
	f.Class, f.Title = classOf(e.Line)
	f.Condemns = xid.ClassRowOf(f.Class).Condemns
	if e.Recovery != kmsg.Absent {
		f.Condemns = recoveryScope(e.Recovery)
	}
	return f
}

// classOf returns the class of a line. A severity in the line itself outranks the table, and a lost GPU counts as XID
// 79.
func classOf(l kmsg.Line) (xid.Class, string) {
	switch l.Kind {
	case kmsg.Lost:
		r, _ := xid.Lookup(79)
		return r.Class, r.Title
	case kmsg.XID:
		if r, ok := xid.Lookup(l.Code); ok {
			return r.Class, r.Title
		}
		return xid.Unknown, "not in the tables"
	}
	r, ok := xid.LookupSwitch(l.Code)
	if !ok {
		r = xid.SwitchRow{Symbol: "not in the tables", Class: xid.Unlisted}
	}
	switch {
	case l.Severity == "Fatal" && r.Class != xid.AlwaysFatal:
		return xid.Fatal, r.Symbol
	case l.Severity == "Non-fatal":
		return xid.Nonfatal, r.Symbol
	}
	return r.Class, r.Symbol
}

// recoveryScope returns what an action of the driver condemns: 0 none, 1 GPU reset, 2 node reboot, 3 drain
// peer-to-peer, 4 drain and reset, 5 an IMEX domain, which is not about this GPU. An unknown number is undecided, never
// none.
func recoveryScope(action int) xid.Scope {
	switch action {
	case 0, 5:
		return xid.None
	case 1, 3, 4:
		return xid.GPU
	case 2:
		return xid.Node
	}
	return xid.Undecided
}

func (doc *Scan) code() int {
	code := cmdutil.ExitPass
	if doc.Lines == 0 || doc.Unkept > 0 {
		code = cmdutil.ExitInconclusive
	}
	for _, f := range doc.Errors {
		switch f.Condemns {
		case xid.GPU, xid.Node:
			return cmdutil.ExitFailed
		case xid.Undecided:
			code = cmdutil.ExitInconclusive
		}
	}
	return code
}

func (doc *Scan) page() []page.Block {
	summary := fmt.Sprintf("%d lines read, no XID and no SXID", doc.Lines)
	var blocks []page.Block
	if len(doc.Errors) > 0 {
		rows := [][]string{{"count", "device", "error", "title", "class", "condemns", "process", "text"}}
		for _, f := range doc.Errors {
			name, process := string(f.Type), f.Process
			if f.Code != nil {
				name += " " + strconv.Itoa(*f.Code)
			}
			if f.PID != nil {
				process = strings.TrimSpace(process + " " + strconv.Itoa(*f.PID))
			}
			rows = append(rows, []string{
				strconv.FormatUint(f.Count, 10), f.Device, name, f.Title, string(f.Class), string(f.Condemns), process, f.Text,
			})
		}
		blocks = append(blocks, cmdutil.Table(rows), page.Blank{})
		summary = fmt.Sprintf("%d lines read; gpuaasctl gpu xid explain CODE has what to do", doc.Lines)
	}
	blocks = append(blocks, page.Para{Text: summary})
	if doc.Coverage != nil && len(doc.Coverage.Gaps) > 0 {
		blocks = append(blocks, page.Para{Text: fmt.Sprintf(
			"%d records of this boot were not looked at: the kernel had overwritten them, or gave them out damaged",
			doc.Coverage.Lost)})
	}
	if doc.Unkept > 0 {
		blocks = append(blocks, page.Para{Text: fmt.Sprintf("%d more lines with errors are not listed", doc.Unkept)})
	}
	return blocks
}
