//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// silicon: over a profile from the recording of a real GPU, the probe's answers are those that it gave there. The
// signals that it did not read then are not compared.
func silicon(t *testing.T, b *built) {
	load := func(c *control) {
		c.set(0, "nvmlDeviceGetCurrentClocksEventReasons", 4)
		c.set(0, "nvmlDeviceGetPcieReplayCounter", 1)
		c.set(0, "nvmlDeviceGetPowerUsage", 694356)
		c.set(0, "nvmlDeviceGetTemperature", 59)
		c.set(0, "nvmlDeviceGetMarginTemperature", 29)
		c.set(0, "field_82", 49)
	}
	for file, change := range map[string]func(*control){"h200.sample.json": func(*control) {},
		"h200.sample-load.json": load} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		want, err := report.DecodeSample(text)
		if err != nil {
			t.Fatal(err)
		}
		c := newControl(t, "h200")
		change(c)
		got := b.once(t, b.fake, c)
		w, g := &want.GPUs[0], &got.GPUs[0]
		for signal, r := range w.Signals {
			if !g.Signals[signal].Equal(r) {
				t.Errorf("%s: %s is %s, was %s", file, signal, g.Signals[signal], r)
			}
		}
		if len(w.Signals) < 53 || len(want.GPUs) != len(got.GPUs) || !want.Count.Equal(got.Count) {
			t.Errorf("%s: %d signals of %d GPUs", file, len(w.Signals), len(want.GPUs))
		}
		identity := func(s *report.Sample) string {
			g := &s.GPUs[0]
			return fmt.Sprint(s.Library.State, s.Library.Driver, s.Library.NVML, s.Library.CUDA, s.Library.Absent, g.Index,
				g.UUID, g.PCI, g.Name, g.Handle, g.MIG, g.LinksDown, g.Refusals)
		}
		if is, was := identity(got), identity(want); is != was {
			t.Errorf("%s: %s, was %s", file, is, was)
		}
	}
}

// activity: how busy a GPU is, and where its links and paths lead, are what the library answers.
func activity(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	c.entry(1, "nvmlDeviceGetUtilizationRates").v = [4]int64{99, 24}
	c.entry(1, "nvmlDeviceGetClockInfo").v = [4]int64{1455, 3201}
	c.refuse(3, "nvmlDeviceGetTopologyCommonAncestor", 999)
	s := b.once(t, b.fake, c)
	for signal, want := range map[report.Signal]string{report.Utilization: "99", report.MemoryUtilization: "24",
		report.ClockSM: "1455", report.ClockMemory: "3201", report.ClockSMMax: "1980", report.ClockMemoryMax: "2619",
		report.MemoryUsed: "577765376", report.MemoryReserved: "577765376", report.Serial: "0000000000000"} {
		if got := s.GPUs[1].Signals[signal].String(); got != want {
			t.Errorf("%s is %s, want %s", signal, got, want)
		}
	}
	if l := s.GPUs[0].Links; len(l) != 18 || l[5].Link != 5 || l[5].Remote.String() != "0000:85:00.0" ||
		l[5].Type.String() != string(report.EndSwitch) {
		t.Errorf("links %+v", l)
	}
	var paths []string
	for i := range s.GPUs {
		for _, p := range s.GPUs[i].Peers {
			paths = append(paths, fmt.Sprint(i, "-", p.GPU, " ", p.Path))
		}
	}
	if all := strings.Join(paths, ", "); len(paths) != 28 ||
		!strings.HasPrefix(all, "0-1 NODE, 0-2 NODE, 0-3 NODE, 0-4 SYS") ||
		!strings.Contains(all, "3-4 failed (999)") || !strings.HasSuffix(all, "6-7 NODE") {
		t.Errorf("%s", all)
	}
	refusal := report.Refusal{Call: "nvmlDeviceGetTopologyCommonAncestor", Code: 999}
	if r := s.GPUs[3].Refusals; len(r) != 1 || r[0] != refusal {
		t.Errorf("refusals %+v", r)
	}
	m := b.once(t, b.fake, newControl(t, "a100-mig")).GPUs[0].MIG
	if len(m) != 4 || m[3].Profile != "1g.20gb" || m[3].Memory == nil || *m[3].Memory != 19968<<20 {
		t.Errorf("instances of MIG: %+v", m)
	}
	facts := policy.FactsOf(policy.Evidence{Sample: s})
	if !strings.Contains(fmt.Sprint(facts.Notes), "GPU 3: nvmlDeviceGetTopologyCommonAncestor: an internal error") {
		t.Errorf("notes %q", facts.Notes)
	}
}

// processList: processes are listed up to a limit, and counted beyond it; one that is there has its name and user.
func processList(t *testing.T, b *built) {
	const compute, graphics = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"
	for _, tc := range []struct {
		running, counted, listed int64
	}{{0, 0, 0}, {1, 1, 1}, {64, 64, 32}, {65, 65, 32}, {1000, 1000, 32}, {1 << 20, 1 << 20, 0}} {
		c := newControl(t, "h100x8")
		c.entry(0, compute).v = [4]int64{tc.running, int64(os.Getpid()), 7 << 30, 0}
		c.entry(0, graphics).v = [4]int64{1, 1, -1, 3}
		g := &b.once(t, b.fake, c).GPUs[0]
		n, _ := g.Value(report.ComputeProcesses)
		want := min(tc.listed+1, report.MaxProcesses) // and that one which draws
		if n != tc.counted || int64(len(g.Processes)) != want {
			t.Fatalf("%d run: %d are counted, %d listed", tc.running, n, len(g.Processes))
		}
		if mps := g.Signals[report.MPSProcesses].String(); (mps == "not asked (not_there)") != (tc.running == 0) {
			t.Errorf("%d run, of MPS %s", tc.running, mps)
		}
		if tc.running != 1 {
			continue
		}
		p, q := g.Processes[0], g.Processes[1]
		if p.PID != os.Getpid() || p.Type != report.Compute || *p.Memory != 7<<30 || p.GPUInstance != nil ||
			p.UID == nil || *p.UID != os.Geteuid() || !strings.HasPrefix(filepath.Base(os.Args[0]), p.Name) || p.Name == "" {
			t.Errorf("%+v", p)
		}
		if q.PID != 1 || q.Type != report.Graphics || q.Memory != nil || *q.GPUInstance != 2 || *q.ComputeInstance != 0 {
			t.Errorf("%+v", q)
		}
	}
}

// rareAnswers: what hardly ever changes is read once, and again while it is refused.
func rareAnswers(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	c.refuse(1, "nvmlDeviceGetSerial", 999)
	r := b.start(t, c, patient)
	first := r.next(3)
	if n := c.asked(0, "nvmlDeviceGetSerial"); n != 1 {
		t.Errorf("a serial number was asked for %d times", n)
	}
	if n := c.asked(1, "nvmlDeviceGetSerial"); n < 3 {
		t.Errorf("one that is refused was asked for %d times", n)
	}
	g := &first.GPUs[0]
	if g.Signals[report.Serial].Text == nil || len(g.Links) != 18 || len(g.Peers) != 7 {
		t.Errorf("%+v", g)
	}
	c.refuse(1, "nvmlDeviceGetSerial", 0)
	r.await("the serial number", func(s *report.Sample) bool { return s.GPUs[1].Signals[report.Serial].Text != nil })
	c.set(0, "nvmlDeviceGetNvLinkState", 18) // fewer of them are active
	c.entry(0, "nvmlDeviceGetNvLinkState").v[1] = 0xff
	now := time.Now()
	s := r.await("fewer links", func(s *report.Sample) bool { return s.At.After(now) && len(s.GPUs[0].Links) == 8 })
	if down := s.GPUs[0].LinksDown; len(down) != 10 {
		t.Errorf("links down: %v", down)
	}
	if n := c.asked(2, "nvmlDeviceGetNvLinkRemotePciInfo_v2"); n != 18 {
		t.Errorf("links of another GPU were asked for %d times", n)
	}
}

// wordsOfCodes: a library that does not start is explained to people, once, and in the judgement, with the repair.
func wordsOfCodes(t *testing.T, b *built) {
	for code, want := range map[int]string{4: "no permission", 9: "modprobe nvidia", 17: "blocks the device nodes",
		18:  "driver and library are of two versions (NVML's return code 18): reboot, or reload the driver",
		999: "kernel log"} {
		c := newControl(t, "lab")
		c.refuse(noGPUs, "nvmlInit_v2", code)
		r := b.start(t, c, patient)
		s := r.next(3)
		_ = r.stdin.Close()
		err := <-r.ended
		r.ended <- err
		if err != nil {
			t.Fatal(err)
		}
		floors := fmt.Sprint(policy.FactsOf(policy.Evidence{Sample: s}).Floors)
		said := r.errs.String()
		if strings.Count(said, want) != 1 || strings.Count(said, "\n") != 1 || !strings.Contains(floors, want) {
			t.Errorf("%d: %q, judged as %s", code, said, floors)
		}
	}
}

// BenchmarkProbe runs the probe over the profiles of one GPU and of eight, and gives what it takes as shares of its
// goals: 0.1 % of a processor at a sample each 15 seconds, and 32 MiB. What a real driver takes comes on top: 16 MiB
// and half of the time on an H200.
func BenchmarkProbe(b *testing.B) {
	programs := buildAll(b)
	for _, profile := range []string{"h200", "h100x8"} {
		b.Run(profile, func(b *testing.B) { programs.measure(b, profile) })
	}
}

func (p *built) measure(b *testing.B, profile string) {
	const samples, goalCPU, goalMemory = 30, 15 * time.Millisecond, 32 << 10
	for b.Loop() {
		r := p.start(b, newControl(b, profile), patient)
		r.next(samples)
		resident := residentPeak(b, r.cmd.Process.Pid)
		_ = r.stdin.Close()
		err := <-r.ended
		r.ended <- err
		if err != nil {
			b.Fatal(err)
		}
		state := r.cmd.ProcessState
		took := (state.UserTime() + state.SystemTime()) / samples // its start included
		b.ReportMetric(float64(took)/float64(goalCPU), "of-goal-cpu")
		b.ReportMetric(float64(resident)/goalMemory, "of-goal-memory")
	}
}

// residentPeak returns the most memory that a running process had resident since it was executed, in KiB.
func residentPeak(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nVmHWM:")
	kib, err := strconv.Atoi(strings.Fields(after + " -")[0])
	if err != nil {
		b.Fatal(err)
	}
	return kib
}
