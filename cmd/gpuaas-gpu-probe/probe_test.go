//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// built holds the programs that the tests run.
type built struct {
	probe, without string // with and without cgo
	fake           string
	flavours       map[string]string // builds of the fake, by the macro that they are compiled with
}

// compiler returns the host's C compiler; without one the test is skipped.
func compiler(t testing.TB) string {
	t.Helper()
	tier.NeedsHost(t)
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(strings.TrimSpace(string(out)))
	if err != nil {
		t.Skip("skipped: needs a C compiler")
	}
	return path
}

func goBuild(t testing.TB, to, cgo, from string) {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", to, from)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "CGO_CFLAGS=-Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}

func buildAll(t testing.TB) built {
	t.Helper()
	cc := compiler(t)
	dir := t.TempDir()
	b := built{probe: filepath.Join(dir, "probe"), without: filepath.Join(dir, "without"), flavours: map[string]string{}}
	goBuild(t, b.probe, "1", ".")
	goBuild(t, b.without, "0", ".")
	for _, define := range []string{"WHOLE", "BEFORE_535", "BEFORE_560", "WITHOUT_FIELDS"} {
		b.flavours[define] = filepath.Join(dir, "libnvidia-ml-"+define+".so")
		compileFake(t, cc, define, b.flavours[define])
	}
	b.fake = b.flavours["WHOLE"]
	return b
}

// compileFake makes a flavour of the fake library.
func compileFake(t testing.TB, cc, define, to string) {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-D"+define, "-o", to,
		filepath.Join(nvmlDir, "fake.c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile the fake: %v\n%s", err, out)
	}
}

// patient disables reports of stuck calls, however slow the machine is.
const patient = "--call-deadline=10m"

// command prepares the probe with a fake library.
func (b *built) command(t testing.TB, library string, c *control, args ...string) *exec.Cmd {
	tier.NeedsHost(t)
	cmd := exec.CommandContext(t.Context(), b.probe, args...)
	cmd.Env = append(os.Environ(), libraryVariable+"="+library, "GOMEMLIMIT=48MiB", "GOMAXPROCS=2") // as the agent does
	if c != nil {
		cmd.Env = append(cmd.Env, "GPUAAS_NVML_FAKE="+c.path)
	}
	return cmd
}

// once runs the probe for one sample.
func (b *built) once(t testing.TB, library string, c *control) *report.Sample {
	t.Helper()
	cmd := b.command(t, library, c, patient)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.Bytes())
	}
	return decode(t, out)
}

func decode(t testing.TB, line []byte) *report.Sample {
	t.Helper()
	s, err := report.DecodeSample(line)
	if err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	for i := range s.GPUs {
		for _, row := range report.Signals() {
			if r := s.GPUs[i].Signals[row.Signal]; r.String() == "no reading" {
				t.Errorf("GPU %d: %s is missing", i, row.Signal)
			}
		}
	}
	return s
}

// running is a running probe, with its output.
type running struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
	errs  bytes.Buffer
	ended chan error

	mu      sync.Mutex // guards what is below
	samples []*report.Sample
	events  []*report.Event
	odd     []string // lines that are neither
}

func (b *built) start(t testing.TB, c *control, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: b.command(t, b.fake, c, append([]string{"--interval=100ms"}, args...)...),
		ended: make(chan error, 1)}
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdin, r.cmd.Stderr = stdin, &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.read(out)
		r.ended <- r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
	return r
}

func (r *running) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, report.MaxSample)
	for lines.Scan() {
		var head struct{ Kind string }
		_ = json.Unmarshal(lines.Bytes(), &head)
		s, notSample := report.DecodeSample(lines.Bytes())
		e, notEvent := report.DecodeEvent(lines.Bytes())
		r.mu.Lock()
		switch {
		case head.Kind == report.KindSample && notSample == nil:
			r.samples = append(r.samples, s)
		case head.Kind == report.KindEvent && notEvent == nil:
			r.events = append(r.events, e)
		default:
			r.odd = append(r.odd, lines.Text())
		}
		r.mu.Unlock()
	}
}

// await returns when a sample arrives for which ok is true.
func (r *running) await(what string, ok func(*report.Sample) bool) *report.Sample {
	r.t.Helper()
	var found *report.Sample
	wait.For(r.t, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.IndexFunc(r.samples, ok); i >= 0 {
			found = r.samples[i]
		}
		return found != nil
	})
	return found
}

// next returns after n more samples, the first of which begins after the call.
func (r *running) next(n int) *report.Sample {
	r.t.Helper()
	now, seen := time.Now(), 0
	return r.await(fmt.Sprint(n, " samples"), func(s *report.Sample) bool {
		if s.At.After(now) {
			seen++
		}
		if seen > n {
			return true
		}
		if s == r.samples[len(r.samples)-1] {
			seen = 0 // start from the beginning the next time
		}
		return false
	})
}

// event returns when an event of the type arrives for which ok is true.
func (r *running) event(t report.EventType, what string, ok func(*report.Event) bool) *report.Event {
	r.t.Helper()
	var found *report.Event
	wait.For(r.t, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.events, func(e *report.Event) bool { return e.Type == t && ok(e) })
		if i >= 0 {
			found = r.events[i]
		}
		return found != nil
	})
	return found
}

// count counts the events for which so is true.
func (r *running) count(so func(*report.Event) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if so(e) {
			n++
		}
	}
	return n
}

func (r *running) xids(code int) int {
	return r.count(func(e *report.Event) bool { return e.XID != nil && *e.XID.Code == code })
}

// TestProbe builds the probe and a library in C, and tests everything that a driver may do.
func TestProbe(t *testing.T) {
	b := buildAll(t)
	for name, test := range map[string]func(*testing.T, *built){
		"profiles": profiles, "no driver": noDriver, "without cgo": withoutCGO, "every call refused": everyCallRefused,
		"lost between count and handle": lostHandle, "one lost call": oneLostCall, "missing symbols": missingSymbols,
		"hang": hang, "hang once": hangOnce, "crash": crash, "XID once": xidOnce, "no spin": noSpin,
		"recovery actions": recoveryActions, "UUID changes": uuidChanges, "unloaded": unloaded, "recording": recording,
		"events are refused": eventsRefused, "flood of events": floodOfEvents, "stdin": stdinCloses,
		"hangs anywhere": hangsAnywhere, "crashes anywhere": crashesAnywhere, "odd texts": oddTexts,
		"huge numbers": hugeNumbers, "a library that prints": printingLibrary, "memory": eatsMemory,
		"unloaded within a sample": unloadedWithin, "handed over": handedOver, "other readers": otherReaders,
		"silicon": silicon, "activity": activity, "processes": processList, "rare answers": rareAnswers,
		"words": wordsOfCodes,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, &b) })
	}
}

// profiles: values of a profile are in the sample, and other signals are not supported.
func profiles(t *testing.T, b *built) {
	for profile, want := range map[string]map[report.Signal]string{
		"h100x8": {report.Temperature: "29", report.TemperatureMargin: "56", report.ShutdownTLimit: "-8",
			report.NVLinks: "18", report.NVLinksActive: "18", report.ClocksEventReasons: "136", report.FabricState: "3",
			report.RecoveryAction: "not supported", report.TemperatureShutdown: "not supported", report.Power: "67740",
			report.ECCDBEAggregate: "0", report.GSPFirmware: "535.161.08", report.MIGMode: "0"},
		"h100-broken": {report.PCIeReplays: "120", report.ECCMode: "failed (999)", report.Temperature: "failed (999)",
			report.ECCDBEVolatile: "failed (999)", report.RemapPending: "failed (999)"},
		"a100-mig": {report.MIGMode: "1", report.RemapPending: "not supported", report.NVLinks: "not supported",
			report.TemperatureShutdown: "92", report.TemperatureMemory: "44"},
		"a10-remap": {report.RemapUncorrectable: "4", report.RemapPending: "1", report.RemapFailure: "0",
			report.ECCDBEVolatile: "0"},
		"t4": {report.RetiredPending: "0", report.PCIeWidth: "8", report.PCIeWidthMax: "16",
			report.MIGMode: "not supported"},
		"rtx4000-ada": {report.RecoveryAction: "0", report.ECCMode: "0", report.PCIeGen: "1",
			report.ECCDBEVolatile: "not supported"},
	} {
		s := b.once(t, b.fake, newControl(t, profile))
		g := &s.GPUs[0]
		for signal, reading := range want {
			if got := g.Signals[signal].String(); got != reading {
				t.Errorf("%s: %s is %s, want %s", profile, signal, got, reading)
			}
		}
		if g.Lost() || s.Library.State != report.Loaded || len(s.Library.Absent) != 0 {
			t.Errorf("%s: %+v", profile, s.Library)
		}
		if profile == "a100-mig" && (len(g.MIG) != 4 || g.MIG[0].GPUInstance != 1) {
			t.Errorf("instances of MIG: %+v", g.MIG)
		}
		if profile == "h100x8" && (len(s.GPUs) != 8 || s.GPUs[7].PCI != "0000:db:00.0" || s.GPUs[6].UUID == s.GPUs[7].UUID) {
			t.Errorf("%d GPUs, the last is %+v", len(s.GPUs), s.GPUs[7])
		}
	}
}

// noDriver: a missing library and a missing driver are distinct states, and neither has a GPU.
func noDriver(t *testing.T, b *built) {
	garbage := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(garbage, []byte("no library\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	coded := func(code int) *control {
		c := newControl(t, "h100x8")
		c.refuse(noGPUs, "nvmlInit_v2", code)
		return c
	}
	for _, tc := range []struct {
		library string
		c       *control
		state   report.LibraryState
		code    int
	}{
		{garbage + ".none", nil, report.LibraryNotFound, 12},
		{garbage, nil, report.LibraryNotFound, 12},
		{"libc.so.6", nil, report.InitFailed, 13},
		{b.fake, coded(9), report.DriverNotLoaded, 9},
		{b.fake, coded(18), report.InitFailed, 18},
		{b.fake, coded(15), report.InitFailed, 15},
	} {
		s := b.once(t, tc.library, tc.c)
		if s.Library.State != tc.state || s.Library.Code != tc.code || len(s.GPUs) != 0 || s.Count.Known() {
			t.Errorf("%s: %+v, count %s, %d GPUs", tc.library, s.Library, s.Count, len(s.GPUs))
		}
	}
	c := coded(9)
	r := b.start(t, c, patient)
	r.next(1)
	c.refuse(noGPUs, "nvmlInit_v2", 0)
	s := r.await("the driver is loaded later", func(s *report.Sample) bool { return s.Count.Known() })
	if len(s.GPUs) != 8 {
		t.Errorf("%d GPUs", len(s.GPUs))
	}
}

func withoutCGO(t *testing.T, b *built) {
	tier.NeedsHost(t)
	cmd := exec.CommandContext(t.Context(), b.without)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	s := decode(t, out)
	if s.Library.State != report.BuiltWithout || s.Count.Known() || errs.String() != "gpu: unknown, built without NVML\n" {
		t.Errorf("%+v\n%s", s, errs.Bytes())
	}
}

// everyCallRefused: if any one call is refused, the sample is complete, and the refused value is neither zero nor
// set.
func everyCallRefused(t *testing.T, b *built) {
	names := callNames(t)
	for i, name := range names {
		if testing.Short() && i%5 != 0 {
			continue
		}
		for _, code := range []int{3, 6, 15, report.NeedsReset, 999} {
			c := newControl(t, "h100x8")
			before := b.once(t, b.fake, c)
			c.refuse(2, name, code)
			c.refuse(noGPUs, name, code)
			s := b.once(t, b.fake, c)
			if name == "nvmlInit_v2" || name == "nvmlDeviceGetCount_v2" {
				if len(s.GPUs) != 0 {
					t.Errorf("%s refused with %d: %d GPUs", name, code, len(s.GPUs))
				}
				continue
			}
			g := &s.GPUs[2]
			asked := c.asked(2, name) > 0 && !strings.HasPrefix(name, "nvmlEvent")
			if got, want := g.Lost(), code == report.GPUIsLost && asked; got != want {
				t.Errorf("%s refused with %d: lost is %t", name, code, got)
			}
			if _, got := g.MustReset(); got != (code == report.NeedsReset && asked) {
				t.Errorf("%s refused with %d: must be reset is %t", name, code, got)
			}
			for signal, r := range before.GPUs[2].Signals {
				follows := strings.HasPrefix(name, "nvmlDeviceGetNvLink") ||
					(signal == report.MPSProcesses && name == "nvmlDeviceGetComputeRunningProcesses_v3")
				if now := g.Signals[signal]; !now.Equal(r) && now.Known() && !follows {
					t.Errorf("%s refused with %d: %s was %s, is %s", name, code, signal, r, now)
				}
			}
			if s.GPUs[3].Lost() || !s.GPUs[3].Signals[report.Power].Known() {
				t.Errorf("%s refused with %d: another GPU: %+v", name, code, s.GPUs[3])
			}
		}
	}
}

// lostHandle: a GPU that is counted but has no handle is a GPU without values.
func lostHandle(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	c.refuse(3, "nvmlDeviceGetHandleByIndex_v2", report.GPUIsLost)
	s := b.once(t, b.fake, c)
	g := &s.GPUs[3]
	if len(s.GPUs) != 8 || !g.Lost() || g.UUID != "" {
		t.Errorf("%+v", g)
	}
	for signal, r := range g.Signals {
		if r.NotAsked != report.NoHandle {
			t.Errorf("%s is %s", signal, r)
		}
	}
}

// oneLostCall: if a library returns cached values for a lost GPU, the GPU is not healthy, and no further calls are
// made about it.
func oneLostCall(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	c.refuse(5, "nvmlDeviceGetRemappedRows", report.GPUIsLost)
	s := b.once(t, b.fake, c)
	if !s.GPUs[5].Lost() || s.GPUs[4].Lost() || s.GPUs[5].Signals[report.Power].NotAsked != report.WasLost {
		t.Errorf("%+v", s.GPUs[5])
	}
	if n := c.asked(5, "nvmlDeviceGetPowerUsage"); n != 0 {
		t.Errorf("the lost GPU was asked on, %d times", n)
	}
}

// missingSymbols: a library that lacks calls does not end the process, and the missing calls are reported.
func missingSymbols(t *testing.T, b *built) {
	for define, lacks := range map[string][]report.Signal{
		"BEFORE_535":     {report.SRAMThreshold, report.TemperatureMargin, report.FabricHealth},
		"BEFORE_560":     {report.TemperatureMargin, report.FabricHealth},
		"WITHOUT_FIELDS": {report.RecoveryAction, report.TemperatureMemory},
	} {
		s := b.once(t, b.flavours[define], newControl(t, "h100x8"))
		g := &s.GPUs[0]
		for _, signal := range lacks {
			if g.Signals[signal].NotAsked != report.NoSymbol {
				t.Errorf("%s: %s is %s", define, signal, g.Signals[signal])
			}
		}
		if n, _ := g.Value(report.ClocksEventReasons); n != 0x88 || len(s.Library.Absent) == 0 {
			t.Errorf("%s: clocks %d, absent %v", define, n, s.Library.Absent)
		}
		if n, ok := g.Value(report.FabricState); !ok || n != 3 {
			t.Errorf("%s: fabric %s", define, g.Signals[report.FabricState])
		}
	}
}

// hang: a hanging call is reported with its GPU; when it returns, samples continue.
func hang(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, "--call-deadline=10s")
	r.next(1)
	c.hang(6, "nvmlDeviceGetPowerUsage")
	e := r.event(report.ProbeEvent, "a stuck call", func(e *report.Event) bool {
		return e.Probe.State == report.Stuck && e.Probe.Call == "nvmlDeviceGetPowerUsage"
	})
	took := e.At.Sub(*e.Probe.Since)
	if *e.GPU.Index != 6 || e.GPU.UUID == "" || e.Probe.PID != r.cmd.Process.Pid || took < 10*time.Second {
		t.Errorf("%+v of %+v", e.Probe, e.GPU)
	}
	c.release(6, "nvmlDeviceGetPowerUsage")
	r.next(1)
}

// hangOnce: with a single sample the probe does not wait for a hanging call.
func hangOnce(t *testing.T, b *built) {
	c := newControl(t, "t4")
	c.hang(0, "nvmlDeviceGetTemperature")
	cmd := b.command(t, b.fake, c, "--call-deadline=10s")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != exitStuck {
		t.Fatalf("%v\n%s", err, out)
	}
	e, err := report.DecodeEvent(out)
	if err != nil || e.Probe.State != report.Stuck || e.Probe.Call != "nvmlDeviceGetTemperature" {
		t.Errorf("%v\n%s", err, out)
	}
}

// crash: after a crash in a call the output has only complete lines.
func crash(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.next(1)
	c.entry(7, "nvmlDeviceGetName").crash = 1
	err := <-r.ended
	r.ended <- err
	if err == nil || len(r.odd) != 0 {
		t.Errorf("%v, odd lines %q", err, r.odd)
	}
}

// xidOnce: an XID is one event, however many samples follow.
func xidOnce(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.event(report.CoverageEvent, "events are waited for", func(e *report.Event) bool { return e.Coverage.Blind == "" })
	wait.For(t, "a wait", func() bool { return c.asked(noGPUs, "nvmlEventSetWait_v2") > 0 })
	c.raise(4, 8, 79)
	e := r.event(report.XIDEvent, "XID 79", func(e *report.Event) bool { return *e.XID.Code == 79 })
	if *e.GPU.Index != 4 || e.GPU.PCI != "0000:9b:00.0" || e.XID.Times != 1 || e.Source != report.FromNVML {
		t.Errorf("%+v of %+v", e.XID, e.GPU)
	}
	r.next(3)
	c.raise(4, 8, 999)
	r.event(report.XIDEvent, "an XID that NVML does not know", func(e *report.Event) bool { return *e.XID.Code == 999 })
	if n := r.xids(79); n != 1 {
		t.Errorf("XID 79 came %d times", n)
	}
}

// noSpin: a wait that returns at once is not repeated at once: three calls take two seconds.
func noSpin(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	c.head().impatient = 1
	r := b.start(t, c, patient)
	wait.For(t, "a wait", func() bool { return c.asked(noGPUs, "nvmlEventSetWait_v2") > 0 })
	began, n := time.Now(), c.asked(noGPUs, "nvmlEventSetWait_v2")
	wait.For(t, "three more waits", func() bool { return c.asked(noGPUs, "nvmlEventSetWait_v2") >= n+3 })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("three waits within %v", took)
	}
	c.raise(0, 8, 31)
	c.head().impatient = 0
	r.event(report.XIDEvent, "XID 31", func(e *report.Event) bool { return *e.XID.Code == 31 })
}

// recoveryActions: each change of the driver's recovery action is an event, even without an event of the driver,
// and an unknown number is unknown.
func recoveryActions(t *testing.T, b *built) {
	c := newControl(t, "rtx4000-ada")
	r := b.start(t, c, patient)
	r.next(1)
	was := int64(0)
	for _, n := range []int64{1, 2, 3, 4, 5, 7, 0} {
		c.set(0, "field_230", n)
		if n%2 == 1 {
			c.raise(0, 0x8000, uint64(n))
		}
		e := r.event(report.RecoveryEvent, fmt.Sprint("action ", n), func(e *report.Event) bool { return e.Action.To == n })
		if e.Action.Action != report.ActionOf(n) || e.Action.From == nil || *e.Action.From != was || *e.GPU.Index != 0 {
			t.Errorf("action %d: %+v", n, e.Action)
		}
		was = n
	}
	if n := r.count(func(e *report.Event) bool { return e.Action != nil }); n != 7 {
		t.Errorf("%d events about 7 changes", n)
	}
}

// uuidChanges: after a reset a GPU may have another UUID, and its events are received.
func uuidChanges(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	wait.For(t, "a wait", func() bool { return c.asked(noGPUs, "nvmlEventSetWait_v2") > 0 })
	const other = "GPU-00000000-1111-2222-3333-444444444444"
	registered := c.asked(1, "nvmlDeviceRegisterEvents")
	c.words(1, "nvmlDeviceGetUUID", other)
	r.await("the other UUID", func(s *report.Sample) bool { return s.GPUs[1].UUID == other })
	wait.For(t, "its events", func() bool { return c.asked(7, "nvmlDeviceRegisterEvents") > registered })
	c.raise(1, 8, 48)
	e := r.event(report.XIDEvent, "XID 48", func(e *report.Event) bool { return *e.XID.Code == 48 })
	if e.GPU.UUID != other {
		t.Errorf("%+v", e.GPU)
	}
}

// unloaded: when the driver is unloaded, the probe exits, since the loaded library belongs to that driver.
func unloaded(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.next(1)
	c.refuse(noGPUs, "nvmlDeviceGetCount_v2", 9)
	err := <-r.ended
	r.ended <- err
	if r.cmd.ProcessState.ExitCode() != report.ExitReloaded || !strings.Contains(r.errs.String(), "driver was unloaded") {
		t.Errorf("%v: %s", err, r.errs.Bytes())
	}
}

// eventsRefused: if events are not supported, that is reported once, and samples continue.
func eventsRefused(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	for g := range 8 {
		c.refuse(g, "nvmlDeviceRegisterEvents", 3)
	}
	r := b.start(t, c, patient)
	r.event(report.CoverageEvent, "events are refused", func(e *report.Event) bool { return e.Coverage.Blind != "" })
	r.next(3)
	must := func(want bool) func(*report.Sample) bool {
		since := time.Now()
		return func(s *report.Sample) bool {
			_, must := s.GPUs[5].MustReset()
			return s.At.After(since) && must == want
		}
	}
	c.refuse(5, "nvmlDeviceRegisterEvents", report.NeedsReset)
	r.await("a GPU whose events are refused must be reset", must(true))
	for g := range 8 {
		c.refuse(g, "nvmlDeviceRegisterEvents", 0)
	}
	r.await("it was reset", must(false))
	r.event(report.CoverageEvent, "events again", func(e *report.Event) bool { return e.Coverage.Blind == "" })
	if n := r.count(func(e *report.Event) bool { return e.Type == report.CoverageEvent }); n < 2 || n > 4 {
		t.Errorf("%d events about two states, and at most two words of the first", n)
	}
}

// floodOfEvents: endless events of a driver do not delay samples, and none is lost.
func floodOfEvents(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	wait.For(t, "a wait", func() bool { return c.asked(noGPUs, "nvmlEventSetWait_v2") > 0 })
	for range 200 {
		c.raise(0, 8, 31)
	}
	wait.For(t, "200 events", func() bool { return r.xids(31) == 200 })
	r.next(2)
}

// stdinCloses: a probe whose agent has exited exits.
func stdinCloses(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.next(5)
	_ = r.stdin.Close()
	err := <-r.ended
	r.ended <- err
	if err != nil {
		t.Errorf("%v: %s", err, r.errs.Bytes())
	}
}

// TestLibrary loads the library that an environment variable names: no crash, no busy loop, complete samples, and
// no values of a GPU whose handle is refused because it is lost.
func TestLibrary(t *testing.T) {
	library := os.Getenv(libraryVariable)
	if library == "" {
		t.Skip("skipped: needs GPUAAS_NVML_LIBRARY, a library to load")
	}
	compiler(t)
	b := built{probe: filepath.Join(t.TempDir(), "probe"), fake: library}
	goBuild(t, b.probe, "1", ".")
	s := b.once(t, library, nil)
	t.Logf("%+v, %s GPUs", s.Library, s.Count)
	for i := range s.GPUs {
		t.Logf("GPU %d %s lost %t: %v", i, s.GPUs[i].UUID, s.GPUs[i].Lost(), s.GPUs[i].Signals)
	}
	for i := range s.GPUs {
		known := 0
		for _, reading := range s.GPUs[i].Signals {
			if reading.Known() {
				known++
			}
		}
		if lost := s.GPUs[i].Handle.FailedWith(report.GPUIsLost); lost && known > 0 {
			t.Errorf("GPU %d has no handle, and %d signals", i, known)
		}
	}
	began := time.Now()
	r := b.start(t, nil, patient, "--interval=1s")
	r.next(6) // longer than a wait for events
	wall := time.Since(began)
	var use syscall.Rusage
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := <-r.ended
	r.ended <- err
	if u, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		use = *u
	}
	if err != nil || len(r.odd) != 0 {
		t.Errorf("%v, odd lines %q", err, r.odd)
	}
	cpu := r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
	if t.Logf("%v of CPU in %v, %d KiB at most", cpu, wall, use.Maxrss); cpu > wall/4 {
		t.Errorf("it took %v of CPU in %v", cpu, wall)
	}
}
