// Package gpu watches this node's GPUs for the agent: it supervises gpuaas-gpu-probe and reads the kernel log,
// keeps raw events in the agent's outbox until the platform has them, and keeps the last known state in a file
// (package gpu/state). It judges nothing.
//
// A hung probe is killed. If the kill does not end it, it is left alone: its call, GPU and time are reported as an
// event, and no second probe is started. Errors in the kernel log are read without the probe. Whatever exceeds the
// limits of rate and size is counted, and the counts are reported as an event. The package writes nothing to the
// diagnostic record.
package gpu

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Config configures a watch. The zero value of an optional field means the default in its comment.
type Config struct {
	Probe     string      // path of gpuaas-gpu-probe; "": nothing is watched
	KernelLog string      // default kmsg.Path
	Disk      durable.Dir // stores how far the kernel log was read
	Out       Outbox
	Log       *slog.Logger

	// For tests; the defaults are the constants below.
	Interval, CallDeadline, Slack, Backoff, Poll time.Duration
	MaxMemory                                    int64
	Kill                                         func(pid int) // default: SIGKILL to the probe's process group
}

// Outbox keeps events until the platform has them.
type Outbox interface {
	Add(wire.Event) error
	Unsent(kindPrefix string) int // number of undelivered events of such a kind
	Has(text string) bool         // whether an event with the text in its detail is kept
}

// Resource limits of the watch.
const (
	interval     = 15 * time.Second
	callDeadline = 10 * time.Second
	slack        = 20 * time.Second // added to interval and call: start of the probe on a busy node
	minBackoff   = time.Second
	maxBackoff   = time.Minute
	maxMemory    = 64 << 20 // of the probe, resident
	poll         = 5 * time.Second
)

// Run watches until ctx ends. It returns once everything that it started has ended, except a probe that cannot be
// killed.
func Run(ctx context.Context, c Config) {
	c.Interval, c.CallDeadline = cmp.Or(c.Interval, interval), cmp.Or(c.CallDeadline, callDeadline)
	c.Backoff, c.Poll, c.Slack = cmp.Or(c.Backoff, minBackoff), cmp.Or(c.Poll, poll), cmp.Or(c.Slack, slack)
	c.MaxMemory, c.KernelLog = cmp.Or(c.MaxMemory, maxMemory), cmp.Or(c.KernelLog, kmsg.Path)
	if c.Kill == nil {
		c.Kill = kill
	}
	boot, err := kmsg.BootID()
	if err != nil {
		c.Log.Error("events about GPUs do not name this boot", "error", err)
	}
	s := &spool{out: c.Out, log: c.Log, boot: boot, file: newKeeper(c, boot)}
	var wg sync.WaitGroup
	wg.Go(func() { s.reportAll(ctx) })
	wg.Go(func() { s.file.run(ctx) })
	wg.Go(func() { (&kernelLog{Config: c, spool: s}).watch(ctx) })
	(&supervisor{Config: c, spool: s}).watch(ctx)
	wg.Wait()
}
