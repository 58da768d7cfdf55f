package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// file is the state in the agent's file, empty if the file is missing.
func (n *node) file() *state.State {
	s, err := state.Read(n.Disk.Path(state.FileName))
	if err != nil {
		return &state.State{}
	}
	return s
}

// TestTheFileHasWhatIsKnown: the file contains sample, probe, kernel log and errors, even if the platform has all
// events of the outbox.
func TestTheFileHasWhatIsKnown(t *testing.T) {
	n := newNode(t, "cat $OUT; exec sleep 100000", line(t, sample(8, report.ReadingOf(7))))
	n.run()
	wait.For(t, "the file", func() bool {
		s := n.file()
		return s.Sample != nil && s.Probe != nil && s.Log != nil
	})
	s := n.file()
	if len(s.Sample.GPUs) != 8 || s.Probe.Probe.State != report.Sampling || s.Log.Blind == "" || s.BootID == "" {
		t.Errorf("%+v", s)
	}

	n = newNode(t, "", "")
	k := n.drain(records("NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."), kmsg.Coverage{})
	if err := n.out.Replay(1); err != nil {
		t.Fatal(err)
	}
	got, err := state.Read(n.Disk.Path(state.FileName))
	if err != nil || len(got.Events) != 1 || *got.Events[0].XID.Code != 79 || got.Log.Records != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	// an agent that died before it had stored the position reads the record again, and keeps it once
	k.found(&kmsg.Event{Line: kmsg.Line{Kind: kmsg.XID, Code: 79, Device: "0000:3b:00.0", PID: 7,
		GPUInstance: kmsg.Absent, ComputeInstance: kmsg.Absent, Cause: kmsg.Absent, Recovery: kmsg.Absent,
		Verdict: kmsg.Verdict{Link: kmsg.Absent}}, BootID: "boot", Count: 1})
	if n := len(k.spool.file.state.Events); n != 1 {
		t.Errorf("%d events of one record", n)
	}
}

// TestTheFileOfAnEarlierBoot: nothing of an earlier boot's file is used, and everything of this boot's.
func TestTheFileOfAnEarlierBoot(t *testing.T) {
	n := newNode(t, "", "")
	k := newKeeper(n.Config, "one")
	code := 79
	k.event(&report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.XIDEvent,
		Source: report.FromKernelLog, At: time.Now(), BootID: "one", XID: &report.XID{Code: &code, Times: 1}})
	k.write()
	if s := newKeeper(n.Config, "one").state; len(s.Events) != 1 {
		t.Errorf("the same boot: %+v", s)
	}
	if s := newKeeper(n.Config, "two").state; len(s.Events) != 0 || s.BootID != "two" {
		t.Errorf("another boot: %+v", s)
	}
}

// TestTheFileIsWrittenRarely: once a minute at rest, within seconds after a change, and less often than once per
// change in a storm.
func TestTheFileIsWrittenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		n := newNode(t, "", "")
		n.Disk.FS = durable.Host{Before: func(op, _ string) error {
			if op == durable.OpRename {
				writes.Add(1)
			}
			return nil
		}}
		k := newKeeper(n.Config, "one")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { k.run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }() // the last write may go to a folder that is removed by then
		samples := func(d time.Duration, changed bool) int64 {
			before := writes.Load()
			for range d / interval {
				k.sample(sample(8, report.ReadingOf(7)), changed)
				synctest.Wait()
				time.Sleep(interval)
			}
			return writes.Load() - before
		}
		samples(time.Minute, true)
		if got := samples(time.Hour, false); got < 55 || got > 60 {
			t.Errorf("%d writes in an hour at rest, want about one a minute", got)
		}
		before := writes.Load()
		k.coverage(kmsg.Coverage{}, true)
		synctest.Wait()
		if writes.Load() != before+1 {
			t.Error("a change is not written at once")
		}
		for range 1000 {
			k.coverage(kmsg.Coverage{}, true)
			time.Sleep(10 * time.Millisecond)
		}
		if got := writes.Load() - before; got > 4 {
			t.Errorf("%d writes in 10 s of changes", got)
		}
	})
}

// TestTheFileOnAFullDisk: the old file stays, one line is logged, events still go to the outbox, and the file is
// written again once there is space.
func TestTheFileOnAFullDisk(t *testing.T) {
	n := newNode(t, "", "")
	var log bytes.Buffer
	n.Log = slog.New(slog.NewTextHandler(&log, nil))
	full := false
	n.Disk.FS = durable.Host{Before: func(string, string) error {
		if full {
			return syscall.ENOSPC
		}
		return nil
	}}
	k := newKeeper(n.Config, "boot")
	k.sample(sample(1, report.ReadingOf(1)), true)
	k.write()
	full = true
	k.sample(sample(8, report.ReadingOf(1)), true)
	k.write()
	k.write()
	if s := n.file(); len(s.Sample.GPUs) != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%+v\n%s", s, &log)
	}
	full = false
	k.write()
	if s := n.file(); len(s.Sample.GPUs) != 8 {
		t.Errorf("%+v", s)
	}
	entries, err := os.ReadDir(n.Disk.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "tmp") || strings.Contains(e.Name(), "new") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestABadFileIsReplaced: an agent that finds an invalid file starts with an empty state, and reports that.
func TestABadFileIsReplaced(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte("\x00\x1b[2J{"), 0o600) },
		"a FIFO":  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":  func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "", "")
			var log bytes.Buffer
			n.Log = slog.New(slog.NewTextHandler(&log, nil))
			if err := os.MkdirAll(n.Disk.Root, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := make(n.Disk.Path(state.FileName)); err != nil {
				t.Fatal(err)
			}
			k := newKeeper(n.Config, "boot")
			k.write()
			if s := n.file(); s.BootID != "boot" || log.Len() == 0 {
				t.Errorf("%+v\n%s", s, &log)
			}
			text, err := json.Marshal(k.state)
			if err != nil || len(text) > 1000 {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
}
