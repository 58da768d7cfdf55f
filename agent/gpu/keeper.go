package gpu

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// keepApart is the minimum time between two writes of the file.
const keepApart = 5 * time.Second

// keeper maintains the file of package state. The file is for inspection of the node; the outbox forgets delivered
// events. If the disk takes no writes, the file just gets old. A keeper is safe for concurrent use.
type keeper struct {
	disk  durable.Dir
	log   *slog.Logger
	apart time.Duration
	wake  chan struct{} // has one entry while a write is due

	writing sync.Mutex // serializes writes, so that the newest one wins; guards failing
	failing bool       // the last write failed

	mu      sync.Mutex // guards what is below
	state   state.State
	written time.Time
}

// newKeeper continues with the state that an earlier agent stored during this boot.
func newKeeper(c Config, boot string) *keeper {
	k := &keeper{disk: c.Disk, log: c.Log, apart: keepApart, wake: make(chan struct{}, 1)}
	s, err := state.Read(c.Disk.Path(state.FileName))
	switch {
	case err == nil:
		k.state = *s
	case !os.IsNotExist(err):
		c.Log.Error("what was kept of this node's GPUs is not known", "error", err)
	}
	k.state.Begin(boot)
	return k
}

// event stores an error or the probe's state.
func (k *keeper) event(e *report.Event) {
	k.change(func(s *state.State) bool { return s.Keep(e) })
}

// sample stores the last sample. changed means that anything except gauges and counters differs from the previous
// one.
func (k *keeper) sample(of *report.Sample, changed bool) {
	k.change(func(s *state.State) bool {
		s.Sample = of
		return changed
	})
}

// coverage stores how far the kernel log was read.
func (k *keeper) coverage(so kmsg.Coverage, changed bool) {
	k.change(func(s *state.State) bool {
		s.Log = &so
		return changed
	})
}

// change applies a change. If it matters, or the file is old, a write is scheduled.
func (k *keeper) change(by func(*state.State) (matters bool)) {
	k.mu.Lock()
	due := by(&k.state) || time.Since(k.written) >= state.Every
	k.mu.Unlock()
	if !due {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default: // it is due already
	}
}

// run writes the file when needed until ctx ends, and once more then.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			k.write()
			return
		case <-k.wake:
		}
		k.write()
		if !sleep.For(ctx, k.apart) {
			k.write()
			return
		}
	}
}

// write writes the file. It logs only the first of several failures.
func (k *keeper) write() {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	k.state.APIVersion, k.state.Kind, k.state.At = report.APIVersion, state.Kind, time.Now().UTC()
	text, err := json.Marshal(&k.state)
	k.written = k.state.At
	k.mu.Unlock()
	if err == nil {
		err = k.disk.Write(state.FileName, append(text, '\n'), 0o600)
	}
	if err != nil && !k.failing {
		k.log.Error("the state of the GPUs cannot be kept in a file", "error", err)
	}
	k.failing = err != nil
}
