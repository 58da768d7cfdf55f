package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// maxKernelRecords bounds what is read of the log: more than the largest buffer of a kernel holds.
	maxKernelRecords = 1_000_000
	// maxKernelLine is how much of a line is kept.
	maxKernelLine = 240
	// kernelRecord is the kernel's own bound on one read.
	kernelRecord = 8 << 10
)

// kernelLine tells a kind of line by what it begins with or has. All texts are the kernel's own, of its printk calls.
type kernelLine struct {
	kind diag.KernelKind
	says *regexp.Regexp
}

// kernelLines are the kinds in order of precedence.
var kernelLines = []kernelLine{
	{diag.KernelOOM, regexp.MustCompile(`^(Memory cgroup out of memory|Out of memory): Kill(ed)? process `)},
	{diag.KernelHung, regexp.MustCompile(`^INFO: task .{1,64} blocked for more than \d+ seconds`)},
	{diag.KernelUncorrected, regexp.MustCompile(`(?i)^(mce: )?(\[Hardware Error\]: ).{0,80}(uncorrected|fatal)|` +
		`^EDAC .{1,40}: \d+ UE |^Memory failure: 0x|^(mce: )?.{0,40}Machine Check Exception|` +
		`AER: .{0,60}Uncorrect(ed|able) \(Fatal\)|severity=Uncorrect(ed|able) \(Fatal\)`)},
	{diag.KernelCorrected, regexp.MustCompile(`^(mce: )?\[Hardware Error\]: .{0,80}(Corrected|Machine check events)|` +
		`^mce: \[Hardware Error\]: Machine check events logged|^EDAC .{1,40}: \d+ CE `)},
	{diag.KernelRemounted, regexp.MustCompile(`Remounting filesystem read-only|forced readonly|` +
		`^XFS \(.{1,64}\): .{0,80}([Ss]hutting down filesystem|Filesystem has been shut down)`)},
	{diag.KernelFileSystem, regexp.MustCompile(`^EXT4-fs error |^XFS \(.{1,64}\): .{0,80}[Cc]orruption|` +
		`^BTRFS (error|critical) .{0,80}(corrupt|csum|checksum|failed to|bad )`)},
	{diag.KernelNVMe, regexp.MustCompile(`^nvme nvme\d+: .{0,80}(controller is down|Removing after probe failure|` +
		`[Dd]evice not ready|timeout, (reset controller|aborting|disable controller))`)},
	{diag.KernelIO, regexp.MustCompile(`(I/O|medium|critical target) error, dev \S+, sector|^Buffer I/O error on dev|` +
		`^critical (medium|target) error`)},
	{diag.KernelNFS, regexp.MustCompile(`^nfs4?: server \S+ not responding`)},
	{diag.KernelBug, regexp.MustCompile(`^(kernel BUG at|BUG: |Oops: |watchdog: BUG: |rcu: INFO: .{0,40}detected stalls|` +
		`Kernel panic|general protection fault)`)},
}

// kernelKindOf returns the kind of a line; "" for one that reports no fault.
func kernelKindOf(text string) diag.KernelKind {
	for i := range kernelLines {
		if kernelLines[i].says.MatchString(text) {
			return kernelLines[i].kind
		}
	}
	return ""
}

// kernel reads the kernel log of this boot, as far as the kernel still has it. A program may write to the log as well:
// only the kernel's own lines count. Failures: not_permitted, file_missing, file_unreadable, unsupported.
func (p *Prober) kernel(ctx context.Context, _ diag.Request, f *diag.Fact) {
	log, err := kmsg.Open(cmp.Or(p.KernelLog, kmsg.Path))
	if err != nil {
		measure.Fail(f, "read", measure.FileWord(err), err)
		return
	}
	defer log.Close() // it was only read
	k := kernelReader{facts: &diag.KernelFacts{Container: containerKind(p.root)}, up: kmsg.Uptime()}
	if err := k.read(ctx, log); err != nil {
		measure.Fail(f, "read", measure.FileWord(err), err)
		return
	}
	f.Kernel = k.facts
}

// kernelReader collects lines by kind.
type kernelReader struct {
	facts *diag.KernelFacts
	up    time.Duration // of the machine, as the reading began
	first bool          // a record was read
}

// read reads the records of a source that behaves as /dev/kmsg, until none is left.
func (k *kernelReader) read(ctx context.Context, log io.Reader) error {
	buffer := make([]byte, kernelRecord)
	for range maxKernelRecords {
		n, err := log.Read(buffer)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EINVAL):
			continue
		case err != nil:
			return err
		case n == 0: // not a kernel log, such as a container's /dev/null
			return &os.PathError{Op: "read", Path: kmsg.Path, Err: io.ErrNoProgress}
		}
		k.record(buffer[:n])
		if k.facts.Records%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (k *kernelReader) record(raw []byte) {
	r, err := kmsg.ParseRecord(raw)
	if err != nil {
		return
	}
	k.facts.Records++
	ago := int64(max(0, k.up-r.At).Seconds())
	if !k.first {
		k.first, k.facts.Lost, k.facts.FromS = true, r.Seq, &ago
	}
	if r.Facility != 0 {
		return
	}
	text, _, _ := strings.Cut(r.Text, "\n")
	e := diag.KernelEvent{AgoS: ago, Count: 1}
	if l, is := kmsg.ParseLine(text); is && (l.Kind == kmsg.XID || l.Kind == kmsg.SXID || l.Kind == kmsg.Lost) {
		e.Kind, e.Device = diag.KernelXID, l.Device
		if l.Code != kmsg.Absent {
			e.Code = l.Code
		}
		if l.Kind == kmsg.Lost || (l.Kind == kmsg.XID && l.Code == lostXID) {
			e.Kind = diag.KernelGPULost
		}
	} else if e.Kind = kernelKindOf(text); e.Kind == "" {
		return
	}
	e.Text = scrub.Text(text[:min(len(text), maxKernelLine)])
	k.add(e)
}

// lostXID is the code of a GPU that has fallen off the bus.
const lostXID = 79

// add counts a line with those of its kind, and of its GPU.
func (k *kernelReader) add(e diag.KernelEvent) {
	for i := range k.facts.Events {
		had := &k.facts.Events[i]
		if had.Kind == e.Kind && had.Code == e.Code && had.Device == e.Device {
			had.Count++
			had.AgoS, had.Text = e.AgoS, e.Text
			return
		}
	}
	if len(k.facts.Events) < diag.MaxListed {
		k.facts.Events = append(k.facts.Events, e)
	}
}
