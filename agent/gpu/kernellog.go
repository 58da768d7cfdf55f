package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// Files and intervals of the kernel log.
const (
	stateFile  = "kernel-log" // in Disk: how far the log was read
	keepEvery  = time.Minute  // how often that is written while no error is found
	coverEvery = time.Hour    // how often an unchanged coverage is reported
)

// kernelLog reads the kernel log and stores the driver's reports.
type kernelLog struct {
	Config
	spool *spool

	so      kmsg.Coverage
	kept    time.Time // when so was written
	covered time.Time // when the coverage was last reported
	last    kmsg.Coverage
	began   time.Time
}

// watch reads until ctx ends. An unreadable log is reported as an event and retried.
func (k *kernelLog) watch(ctx context.Context) {
	k.began = time.Now()
	k.load()
	for {
		if err := k.read(ctx); err != nil {
			k.so = kmsg.NotCovered(k.so, err)
			k.cover()
		}
		if !sleep.For(ctx, k.Poll) {
			return
		}
	}
}

// load restores the position of an earlier agent. Without it, the whole kernel buffer is read again; events that
// are still in the outbox are not stored twice.
func (k *kernelLog) load() {
	text, err := k.Disk.Read(stateFile)
	if err != nil {
		return // a first start, or a disk that does not respond
	}
	var so kmsg.Coverage
	if err := bounded.Unmarshal(text, &so, bounded.Small()); err != nil {
		k.Log.Error("what was read of the kernel log is not known", "error", err)
		return
	}
	k.so = so
}

// read reads until ctx ends or the log fails.
func (k *kernelLog) read(ctx context.Context) error {
	boot, err := kmsg.BootID()
	if err != nil {
		return err
	}
	source, err := kmsg.Open(k.KernelLog)
	if err != nil {
		return err
	}
	defer source.Close()
	return k.drain(ctx, kmsg.NewReader(source, boot, k.so, kmsg.Uptime))
}

func (k *kernelLog) drain(ctx context.Context, r *kmsg.Reader) error {
	for {
		b, err := r.Drain(0)
		for i := range b.Events {
			k.found(&b.Events[i])
		}
		k.so = r.Coverage()
		if err != nil && err != io.EOF { //nolint:errorlint // a Reader does not wrap it
			return fmt.Errorf("read the kernel log: %w", err)
		}
		k.cover()
		if len(b.Events) > 0 { // events must be in the outbox before they count as read
			k.spool.file.write()
		}
		if len(b.Events) > 0 || time.Since(k.kept) > keepEvery {
			k.keep()
		}
		if !sleep.For(ctx, k.Poll) {
			k.keep()
			return nil
		}
	}
}

// keep stores the position after the events before it.
func (k *kernelLog) keep() {
	text, err := json.Marshal(k.so)
	if err == nil {
		err = k.Disk.Write(stateFile, text, 0o600)
	}
	if err != nil && k.kept.IsZero() {
		k.Log.Error("what was read of the kernel log cannot be kept", "error", err)
	}
	k.kept = time.Now()
}

// found stores an event. If the agent dies between found and keep, the next one reads the record again.
func (k *kernelLog) found(e *kmsg.Event) {
	event := state.KernelEvent(e, time.Now(), kmsg.Uptime())
	k.spool.file.event(event)
	if k.Out.Has(fmt.Sprintf(`"record":%d,"boot_id":%q`, e.Seq, e.BootID)) {
		return
	}
	k.spool.add(event)
	k.Log.Warn("the driver reported an error", "kind", string(e.Kind), "code", e.Code, "gpu", e.Device, "times", e.Count)
}

// cover reports the coverage when it changes, and every hour.
func (k *kernelLog) cover() {
	same := k.so.Blind == k.last.Blind && k.so.Lost == k.last.Lost && len(k.so.Gaps) == len(k.last.Gaps) &&
		k.so.BootID == k.last.BootID
	k.spool.file.coverage(k.so, !same)
	if same && time.Since(k.covered) < coverEvery {
		return
	}
	k.last, k.covered = k.so, time.Now()
	now := time.Now()
	c := state.CoverageOf(k.so, k.began, now, kmsg.Uptime())
	k.spool.add(&report.Event{Type: report.CoverageEvent, Source: report.FromKernelLog, At: now, Coverage: c})
}
