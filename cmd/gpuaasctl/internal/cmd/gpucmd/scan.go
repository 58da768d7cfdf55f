package gpucmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/state"
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
	UUID            string    `json:"uuid,omitempty"` // of the GPU, where the log has it
	GPUInstance     *int      `json:"gpu_instance,omitempty"`
	ComputeInstance *int      `json:"compute_instance,omitempty"`
	PID             *int      `json:"pid,omitempty"`
	Process         string    `json:"process,omitempty"`
	CausedBy        *int      `json:"caused_by,omitempty"` // an XID
	Recovery        *int64    `json:"recovery,omitempty"`  // the driver's number of the action
	Severity        string    `json:"severity,omitempty"`  // the driver's word
	Reset           string    `json:"reset,omitempty"`     // the driver's word: none, gpu_reset or drain_and_reset
	Port            *int      `json:"port,omitempty"`      // of an SXID: the link
	Link            *int      `json:"link,omitempty"`      // of the GPU or switch
	Unit            string    `json:"unit,omitempty"`      // of an NVLink 5 error
	Status          string    `json:"status,omitempty"`    // registers or status words of a link
	Injected        bool      `json:"injected,omitempty"`  // for a test, as the driver marks it
	Text            string    `json:"text"`
	Count           uint64    `json:"count"`
	Folded          bool      `json:"folded,omitempty"` // lines that differ in process or text are counted together
	Class           xid.Class `json:"class"`
	Condemns        xid.Scope `json:"condemns"`
}

func newScan(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, scan, &cobra.Command{
		Use:   "scan LOG",
		Short: "Find errors of NVIDIA's drivers in a kernel log, and explain them",
		Long: `Finds XIDs, SXIDs, and what the driver reports without a code: a GPU that is lost, could not be initialized or must be
reset, and a program whose library is of another version than the driver. Reads a log as dmesg, a syslog daemon or journalctl writes it, "-" for stdin, or /dev/kmsg, the kernel log of this
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
	event := state.KernelEvent(&e, time.Time{}, 0)
	x, at, reported := event.XID, event.GPU, policy.Reported(event)
	f := Found{
		Type: e.Kind, Code: x.Code, Title: reported.Title(), Device: at.PCI, UUID: at.UUID, GPUInstance: at.GPUInstance,
		ComputeInstance: at.ComputeInstance, PID: x.PID, Process: x.Process, CausedBy: x.CausedBy, Recovery: x.Recovery,
		Severity: x.Severity, Reset: x.Reset, Port: x.Port, Link: x.Link, Unit: x.Unit, Status: x.Status,
		Injected: x.Injected, Text: x.Text, Count: e.Count, Folded: e.Folded,
	}
	f.Class, f.Condemns = reported.Consequence()
	return f
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
