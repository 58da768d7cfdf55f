package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/outbox"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// sample returns a sample of n GPUs whose signals are all r.
func sample(n int, r report.Reading) *report.Sample {
	s := &report.Sample{APIVersion: report.APIVersion, Kind: report.KindSample, At: time.Now().UTC(),
		Count: report.ReadingOf(int64(n)), Library: report.Library{State: report.Loaded, Driver: report.Words("535.161.08"),
			NVML: report.Words("12"), CUDA: report.ReadingOf(12020)}}
	for i := range n {
		g := report.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), PCI: fmt.Sprintf("0000:%02x:00.0", i+1),
			Handle: report.ReadingOf(1), Signals: map[report.Signal]report.Reading{}}
		for _, row := range report.Signals() {
			g.Signals[row.Signal] = r
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

func line(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// node is a node whose probe is a script, with a real outbox.
type node struct {
	Config
	t      *testing.T
	out    *outbox.Outbox
	starts string // file with a line for each start of the probe
	dir    string
}

// newNode returns a node whose probe runs script; $OUT is a file that contains text.
func newNode(t *testing.T, script, text string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	n.starts = filepath.Join(n.dir, "starts")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(n.dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("out", text, 0o600)
	probe := write("probe", fmt.Sprintf("#!/bin/sh\nPATH=/bin:/usr/bin\nOUT=%s/out\necho $$ >> %s\n%s\n", n.dir, n.starts,
		script), 0o700)
	disk := durable.Dir{Root: filepath.Join(n.dir, "state")}
	var err error
	if n.out, err = outbox.Open(disk); err != nil {
		t.Fatal(err)
	}
	if err := n.out.Replay(1); err != nil { // the platform has no events yet
		t.Fatal(err)
	}
	n.Config = Config{Probe: probe, KernelLog: filepath.Join(n.dir, "no-log"), Disk: disk, Out: n.out,
		Log: slog.New(slog.DiscardHandler), Backoff: time.Millisecond, Poll: 10 * time.Millisecond}
	return n
}

// run watches until the test ends.
func (n *node) run() {
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{})
	go func() { Run(ctx, n.Config); close(ended) }()
	n.t.Cleanup(func() { cancel(); <-ended })
}

func (n *node) events() (all []*report.Event) {
	n.t.Helper()
	for _, w := range n.out.Batch() {
		e, err := report.DecodeEvent(w.Detail)
		if err != nil || w.Kind != e.Type.WireKind() {
			n.t.Fatalf("%s: %v\n%s", w.Kind, err, w.Detail)
		}
		all = append(all, e)
	}
	return all
}

// await returns when an event for which ok is true is in the outbox.
func (n *node) await(what string, ok func(*report.Event) bool) (found *report.Event) {
	n.t.Helper()
	wait.For(n.t, what, func() bool {
		for _, e := range n.events() {
			if ok(e) {
				found = e
			}
		}
		return found != nil
	})
	return found
}

func inState(s report.ProbeState) func(*report.Event) bool {
	return func(e *report.Event) bool { return e.Probe != nil && e.Probe.State == s }
}

func (n *node) started() int {
	text, _ := os.ReadFile(n.starts)
	return strings.Count(string(text), "\n")
}

// TestSamplesBecomeEvents: each GPU is reported once while nothing changes, and the probe's state once.
func TestSamplesBecomeEvents(t *testing.T) {
	n := newNode(t, "while cat $OUT && echo x >> $0.turns; do sleep 0.05; done", line(t, sample(8, report.ReadingOf(7))))
	n.run()
	n.await("sampling", inState(report.Sampling))
	n.await("the last GPU", func(e *report.Event) bool { return e.Device != nil && e.Device.GPU.Index == 7 })
	wait.For(t, "more samples", func() bool {
		text, _ := os.ReadFile(n.Probe + ".turns")
		return len(text) > 20
	})
	count := map[report.EventType]int{}
	for _, e := range n.events() {
		count[e.Type]++
	}
	if count[report.DeviceEvent] != 8 || count[report.ProbeEvent] != 1 {
		t.Errorf("%v", count)
	}
}

// TestUnknownIsReported: a driver that cannot be queried is reported as unknown with Init's code, and no GPU is
// reported.
func TestUnknownIsReported(t *testing.T) {
	s := sample(0, report.ReadingOf(0))
	s.Library.State, s.Library.Code, s.Count = report.DriverNotLoaded, 9, report.Skipped(report.NoLibrary)
	n := newNode(t, "cat $OUT; exec sleep 100000", line(t, s))
	n.run()
	e := n.await("unknown", inState(report.Unknown))
	if e.Probe.Library != report.DriverNotLoaded || e.Probe.Code != 9 || e.Probe.Count != nil {
		t.Errorf("%+v", e.Probe)
	}
	if slices.ContainsFunc(n.events(), func(e *report.Event) bool { return e.Device != nil }) {
		t.Error("a GPU of a driver that is not loaded")
	}
}

// noMemory allows a probe no memory. It is weighed so late that its shell can note the start first.
func noMemory(n *node) { n.MaxMemory, n.Poll = 1, time.Second }

// TestBadProbes: a misbehaving probe is reported, killed and restarted.
func TestBadProbes(t *testing.T) {
	began, index := time.Now().UTC(), 3
	stuck := &report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.ProbeEvent,
		Source: report.FromNVML, At: began, GPU: &report.Identity{Index: &index, UUID: "GPU-3"},
		Probe: &report.Probe{State: report.Stuck, Call: "nvmlDeviceGetPowerUsage", Since: &began, PID: 7}}
	good, passed := line(t, sample(1, report.ReadingOf(1))), sample(1, report.ReadingOf(1))
	passed.Elsewhere = []string{"0000:5e:00.0 (vfio-pci)"}
	for name, tc := range map[string]struct {
		script, text string
		state        report.ProbeState
		set          func(*node)
		check        func(*report.Event) bool
	}{
		"ends": {script: "cat $OUT; exit 3", text: good, state: report.Ended},
		"the driver is reloaded": {script: "cat $OUT; exit 4", text: good, state: report.Ended,
			check: func(e *report.Event) bool { return e.Probe.Why == "the driver was unloaded or reloaded" }},
		"passed through": {script: "cat $OUT", text: line(t, passed), state: report.Sampling,
			check: func(e *report.Event) bool {
				return e.Probe.Why == "NVIDIA's driver does not have 0000:5e:00.0 (vfio-pci)"
			}},
		"crashes": {script: "cat $OUT; kill -SEGV $$", text: good, state: report.Ended},
		"garbage": {script: "echo healthy; exec sleep 100000", state: report.Garbled},
		"a line too long": {script: "head -c 400000 /dev/zero; exec sleep 100000",
			state: report.Garbled},
		"a hanging call": {script: "cat $OUT; exec sleep 100000", text: good + line(t, stuck), state: report.Stuck,
			check: func(e *report.Event) bool {
				return e.Probe.Call == "nvmlDeviceGetPowerUsage" && *e.GPU.Index == 3 && e.Probe.Since.Equal(began)
			}},
		"silence": {script: "exec sleep 100000", state: report.Stuck,
			set: func(n *node) {
				n.Interval, n.CallDeadline, n.Slack = time.Millisecond, time.Millisecond, 100*time.Millisecond
			}},
		"much memory": {script: "cat $OUT; exec sleep 100000", text: good, state: report.Ended,
			set:   noMemory,
			check: func(e *report.Event) bool { return strings.Contains(e.Probe.Why, "memory") }},
		"much memory and no line": {script: "exec sleep 100000", state: report.Ended,
			set:   noMemory,
			check: func(e *report.Event) bool { return strings.Contains(e.Probe.Why, "memory") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, tc.script, tc.text)
			if tc.set != nil {
				tc.set(n)
			}
			n.run()
			if e := n.await(name, inState(tc.state)); tc.check != nil && !tc.check(e) {
				t.Errorf("%+v of %+v", e.Probe, e.GPU)
			}
			wait.For(t, "a second start", func() bool { return n.started() >= 2 })
		})
	}
	for name, tc := range map[string]struct {
		spoil func(*node) error
		state report.ProbeState
		why   string
	}{
		"missing": {func(n *node) error { n.Probe += "-none"; return nil }, report.Missing, "no such file"},
		"there, and nobody may run it": {func(n *node) error { return os.Chmod(n.Probe, 0) }, report.Unstartable,
			"permission denied"},
		"there without its interpreter": {func(n *node) error {
			return os.WriteFile(n.Probe, []byte("#!/none/sh\n"), 0o700)
		}, report.Unstartable, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "", "")
			if err := tc.spoil(n); err != nil {
				t.Fatal(err)
			}
			n.run()
			if e := n.await(name, inState(tc.state)); !strings.Contains(e.Probe.Why, tc.why) {
				t.Errorf("%+v", e.Probe)
			}
		})
	}
}

// TestOneStuckProbe: no second probe is started next to one that cannot be killed; one is started when that has
// exited.
func TestOneStuckProbe(t *testing.T) {
	n := newNode(t, "exec sleep 100000", "")
	asked := make(chan int, 100)
	n.Kill = func(pid int) { asked <- pid }
	n.Interval, n.CallDeadline, n.Slack = time.Millisecond, time.Millisecond, 100*time.Millisecond
	n.run()
	e := n.await("stuck", inState(report.Stuck))
	pid := <-asked
	wait.For(t, "its own line", func() bool { return n.started() > 0 }) // it may hang before it gets to that
	if e.Probe.PID != pid || e.Probe.Since == nil || n.started() != 1 {
		t.Errorf("%+v, started %d times, %d was to be ended", e.Probe, n.started(), pid)
	}
	if err := syscall.Kill(pid, 0); err != nil || n.started() != 1 {
		t.Errorf("started %d times beside a probe that lives (%v)", n.started(), err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := <-asked
	if second == pid {
		t.Fatalf("the same probe twice: %d", pid)
	}
	wait.For(t, "the second's line", func() bool { return n.started() > 1 })
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.Config.Kill = nil
	t.Cleanup(func() { // what was started since
		for len(asked) > 0 {
			_ = syscall.Kill(<-asked, syscall.SIGKILL)
		}
	})
}

// TestNoSecrets: the probe gets nothing of the agent's environment except the variable that names its library.
func TestNoSecrets(t *testing.T) {
	t.Setenv("GPUAAS_ENROLLMENT_TOKEN", "secret")
	t.Setenv("GPUAAS_NVML_LIBRARY", "/x.so")
	n := newNode(t, "env > $0.env; exec sleep 100000", "")
	n.run()
	var text []byte
	wait.For(t, "the environment", func() bool {
		text, _ = os.ReadFile(n.Probe + ".env")
		return strings.Contains(string(text), "GPUAAS_NVML_LIBRARY=/x.so")
	})
	if strings.Contains(string(text), "secret") {
		t.Errorf("%s", text)
	}
}

// TestKernelLogIsBlind: an unreadable kernel log is reported, even without a probe.
func TestKernelLogIsBlind(t *testing.T) {
	n := newNode(t, "", "")
	n.Probe += "-none"
	n.run()
	n.await("blind", func(e *report.Event) bool {
		return e.Source == report.FromKernelLog && e.Coverage != nil && strings.Contains(e.Coverage.Blind, "no-log")
	})
}

// log is a kernel log in memory.
type log struct{ lines []string }

func (l *log) Read(p []byte) (int, error) {
	if len(l.lines) == 0 {
		return 0, syscall.EAGAIN
	}
	n := copy(p, l.lines[0])
	l.lines = l.lines[1:]
	return n, nil
}

func records(texts ...string) *log {
	l := &log{}
	for i, text := range texts {
		l.lines = append(l.lines, fmt.Sprintf("4,%d,%d,-;%s\n", i, 1_000_000+i, text))
	}
	return l
}

// drain reads a log once, like an agent that ends afterwards.
func (n *node) drain(source io.Reader, so kmsg.Coverage) *kernelLog {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	cancel()
	k := &kernelLog{Config: n.Config, spool: &spool{out: n.out, log: n.Log, file: newKeeper(n.Config, "boot")},
		so: so}
	if err := k.drain(ctx, kmsg.NewReader(source, "boot", so, nil)); err != nil {
		n.t.Fatal(err)
	}
	return k
}

func (n *node) codes() (all []string) {
	for _, e := range n.events() {
		if e.XID != nil {
			all = append(all, fmt.Sprintf("%d x%d %s", *e.XID.Code, e.XID.Times, e.GPU.PCI))
		}
	}
	return all
}

// TestKernelLogIsKept: events are in the outbox before the position is on the disk; an agent that dies in between
// reads them again and stores none twice.
func TestKernelLogIsKept(t *testing.T) {
	n := newNode(t, "", "")
	texts := []string{"usb 1-1: new device", "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=x, GPU has fallen off the bus.",
		"NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=x, GPU has fallen off the bus.",
		"NVRM: Xid (PCI:0000:5e:00): 45, Ch 00000008 caused by previous Xid 79", "eth0: link up"}
	k := n.drain(records(texts...), kmsg.Coverage{})
	want := []string{"79 x2 0000:3b:00.0", "45 x1 0000:5e:00.0"}
	if got := n.codes(); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	e := n.await("the cause", func(e *report.Event) bool { return e.XID != nil && e.XID.CausedBy != nil })
	if *e.XID.CausedBy != 79 {
		t.Errorf("%+v", e.XID)
	}
	n.drain(records(texts...), kmsg.Coverage{}) // the disk lost what was read
	if got := n.codes(); !slices.Equal(got, want) {
		t.Errorf("after a crash: %q", got)
	}
	again := &kernelLog{Config: n.Config}
	again.load()
	if again.so.Next != k.so.Next || again.so.BootID != "boot" {
		t.Errorf("read again: %+v", again.so)
	}
	more := records(append(texts, "NVRM: Xid (PCI:0000:3b:00): 48, x")...)
	n.drain(more, again.so)
	if got := n.codes(); !slices.Equal(got, append(want, "48 x1 0000:3b:00.0")) {
		t.Errorf("%q", got)
	}
}

// fullOutbox is an outbox with n undelivered events.
type fullOutbox struct {
	n    int
	kept []wire.Event
	fail error
}

func (o *fullOutbox) Add(e wire.Event) error { o.kept = append(o.kept, e); return o.fail }
func (o *fullOutbox) Unsent(string) int      { return o.n }
func (o *fullOutbox) Has(string) bool        { return false }

// TestWhatIsDroppedIsCounted: events over the limits of rate, size and undelivered events are counted, and the
// exact counts are reported.
func TestWhatIsDroppedIsCounted(t *testing.T) {
	o := &fullOutbox{fail: errors.New("disk full")}
	s := &spool{out: o, log: slog.New(slog.DiscardHandler), file: newKeeper(newNode(t, "", "").Config, "")}
	code, added := 31, 0
	xid := func(text string) *report.Event {
		return &report.Event{Type: report.XIDEvent, Source: report.FromKernelLog, At: time.Now(),
			XID: &report.XID{Code: &code, Times: 1, Text: text}}
	}
	for range 100_000 {
		if s.add(xid("")) {
			added++
		}
	}
	if added < maxBurst || added > 10_000 {
		t.Errorf("%d of 100000 were kept", added)
	}
	if s.add(xid(strings.Repeat("x", report.MaxEvent))) {
		t.Error("an event that is too long")
	}
	o.n = maxUnsent
	if s.add(xid("")) {
		t.Error("an event beyond what may wait")
	}
	s.reportDropped() // if the counts do not fit either, they are kept
	o.n = 0
	s.reportDropped()
	got := map[string]int64{}
	for _, w := range o.kept[added:] {
		e, err := report.DecodeEvent(w.Detail)
		if err != nil {
			t.Fatal(err)
		}
		got[e.Dropped.Why] += e.Dropped.Count[report.XIDEvent]
	}
	if got["rate"] != int64(100_000-added) || got["size"] != 1 || got["unsent"] != 1 {
		t.Errorf("%v, %d kept", got, added)
	}
}

// TestWhatOfAGPUIsTold: a change of a GPU's state is reported at once, its full state every minute.
func TestWhatOfAGPUIsTold(t *testing.T) {
	var d devices
	now := time.Now()
	s := sample(2, report.ReadingOf(1))
	told := func(after time.Duration, want int, what string) {
		t.Helper()
		now = now.Add(after)
		if got, _ := d.events(s, interval, now); len(got) != want {
			t.Errorf("%s: %d events, want %s", what, len(got), strconv.Itoa(want))
		}
	}
	told(0, 2, "the first")
	told(time.Second, 0, "the same")
	s.GPUs[1].Signals[report.Temperature] = report.ReadingOf(2)
	told(time.Second, 0, "a gauge")
	told(deviceEvery*interval, 2, "all after a minute")
	s.GPUs[0].Signals[report.RecoveryAction] = report.ReadingOf(2)
	told(time.Second, 1, "a state")
	s.GPUs[0].Signals[report.Temperature] = report.Refused(15)
	told(time.Second, 1, "a gauge that is refused")
	s.GPUs[0].Refusals = []report.Refusal{{Call: "nvmlDeviceGetName", Code: report.NeedsReset}}
	told(time.Second, 1, "a call that is refused")
	s.GPUs[0].Signals[report.MPSProcesses] = report.ReadingOf(1)
	told(0, 0, "a gauge")
	s.GPUs[0].Signals[report.MPSProcesses] = report.Skipped(report.NotThere)
	told(time.Second, 0, "what a gauge counts has ended")
	told(deviceEvery*interval, 2, "all again")
	s.GPUs, s.Count = s.GPUs[:1], report.ReadingOf(1)
	told(time.Second, 0, "one is gone")
	s.GPUs = append(s.GPUs, sample(2, report.ReadingOf(1)).GPUs[1])
	told(time.Second, 1, "it comes again")
}
