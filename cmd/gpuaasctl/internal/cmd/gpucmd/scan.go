package gpucmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/logfile"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
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
	// Unread are lines with the driver's words that were not understood, Foreign those that another program wrote.
	Unread  *Seen  `json:"unread,omitempty"`
	Foreign *Seen  `json:"foreign,omitempty"`
	Doubt   string `json:"doubt,omitempty"` // why no error found says nothing
	Cut     string `json:"cut,omitempty"`   // why the log was not read to its end
}

// Seen are lines of a log that did not count. Only the first ones are listed.
type Seen struct {
	Count int        `json:"count"`
	Lines []SeenLine `json:"lines"`
}

// SeenLine is one of them, cut to its part that matters.
type SeenLine struct {
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
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
	Place           string    `json:"place,omitempty"` // the part of the hardware that the text names, if it is one
	Count           uint64    `json:"count"`
	// Host is the machine that the log names, for a log of several. Earlier: the boot of which the error was has ended,
	// by the log itself. First and Last are times on Clock, as far as the log has any.
	Host     string        `json:"host,omitempty"`
	Earlier  bool          `json:"earlier,omitempty"`
	First    string        `json:"first,omitempty"`
	Last     string        `json:"last,omitempty"`
	Clock    logfile.Clock `json:"clock,omitempty"`
	Folded   bool          `json:"folded,omitempty"` // lines that differ in process or text are counted together
	Class    xid.Class     `json:"class"`
	Condemns xid.Scope     `json:"condemns"`
}

func newScan(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, scan, &cobra.Command{
		Use:   "scan LOG",
		Short: "Find errors of NVIDIA's drivers in a kernel log, and explain them",
		Long: `Finds XIDs, SXIDs, and what the driver reports without a code: a GPU that is lost, could not be initialized or must be
reset, and a program whose library is of another version than the driver. Reads a log as dmesg, a syslog daemon,
journalctl, a container's runtime or a log store writes it, packed by gzip or bzip2 or not, "-" for stdin, or /dev/kmsg,
the kernel log of this machine. Equal lines are counted. Of /dev/kmsg it is also shown which part the kernel no longer
had: there, no error found does not mean that there was none. For a node's log, pipe it here: gpuaasctl ssh exec NODE --
dmesg.

Where the log says who wrote a line, only the kernel's count; those of other programs are listed. So are lines with the
driver's words that are not understood. Errors of a boot that ended, by the log itself, are listed as earlier and
condemn nothing now.

Exit codes: 0 no error that condemns a GPU or the node, 2 the log cannot be opened or is of another kind than text, 3 an
error does, 5 an error is undecided by its code alone, a line with the driver's words was not understood, the log ends
early or is empty, or nothing in it looks like a kernel log.`,
		Example: `  gpuaasctl gpu xid scan /var/log/kern.log
  gpuaasctl gpu xid scan - <kern.log
  gpuaasctl gpu xid scan /dev/kmsg -o json`,
		Args: cmdutil.Args(1, 1),
	}, cmdutil.PageFormats()...)
}

func scan(a *cmdutil.App, cmd *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	doc := Scan{Head: diag.NewHead("XIDScan"), Tables: xid.Digest, Log: args[0], Errors: []Found{}}
	if err := doc.read(cmd.Context(), a, args[0]); err != nil {
		return err
	}
	return a.ExitError(doc.code(), a.ShowPage(doc, o.Output, doc.page()...))
}

// read finds the errors of the log.
func (doc *Scan) read(ctx context.Context, a *cmdutil.App, path string) error {
	if path == kmsg.Path {
		return doc.readKernel()
	}
	log, err := cmdutil.From(ctx, a, "the log", path, logfile.Read)
	if refused := (*logfile.Refused)(nil); errors.As(err, &refused) {
		return &cmdutil.UsageError{Err: fmt.Errorf("%s is %w", path, refused)}
	}
	if err != nil {
		return err
	}
	doc.Lines, doc.Unkept, doc.Cut = log.Lines, log.Unkept, log.Cut
	doc.Unread, doc.Foreign = seenOf(log.Unread), seenOf(log.Foreign)
	switch nothing := len(log.Found) == 0 && doc.Unread == nil && doc.Foreign == nil; {
	case log.Blank:
		doc.Doubt = "the log is empty"
	case nothing && !log.Kernel:
		doc.Doubt = "no line looks like one of a kernel log"
	}
	for _, e := range log.Found {
		f := foundOf(e.Event)
		f.Host, f.Earlier = e.Host, e.Earlier
		f.First, f.Last, f.Clock = e.Clock.Format(e.First), e.Clock.Format(e.Last), e.Clock
		doc.Errors = append(doc.Errors, f)
	}
	return nil
}

// readKernel reads what this machine's kernel still has.
func (doc *Scan) readKernel() error {
	boot, err := kmsg.BootID()
	if err != nil {
		return &cmdutil.UsageError{Err: err}
	}
	d, err := kmsg.Open(kmsg.Path)
	if err != nil {
		return &cmdutil.UsageError{Err: err}
	}
	defer d.Close()
	r := kmsg.NewReader(d, boot, kmsg.Coverage{}, kmsg.Uptime)
	b, err := r.Drain(0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the kernel log %s: %w", kmsg.Path, err)
	}
	c := r.Coverage()
	doc.Lines, doc.Coverage, doc.Unkept = b.Records, &c, c.Unkept
	for _, e := range b.Events {
		f := foundOf(e)
		f.First, f.Last, f.Clock = logfile.Boot.Format(e.First), logfile.Boot.Format(e.Last), logfile.Boot
		doc.Errors = append(doc.Errors, f)
	}
	return nil
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
	if places := kmsg.Places(e.Code, e.Text); len(places) == 1 {
		f.Place = places[0]
	}
	f.Class, f.Condemns = reported.Consequence()
	return f
}
