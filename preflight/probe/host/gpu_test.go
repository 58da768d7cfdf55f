package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// gpuState returns an agent's state file for n GPUs sampled just now.
func gpuState(t *testing.T, n int) *state.State {
	t.Helper()
	boot, err := kmsg.BootID()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	s := &state.State{APIVersion: report.APIVersion, Kind: state.Kind, At: now, BootID: boot,
		Sample: &report.Sample{APIVersion: report.APIVersion, Kind: report.KindSample, At: now,
			Count: report.ReadingOf(int64(n)),
			Library: report.Library{State: report.Loaded, Driver: report.Words("535.161.08"), NVML: report.Words("12.535"),
				CUDA: report.ReadingOf(12020)}},
		Probe: &report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.ProbeEvent,
			Source: report.FromAgent, At: now, BootID: boot,
			Probe: &report.Probe{State: report.Sampling, Library: report.Loaded, Count: &n}},
		Log: &kmsg.Coverage{BootID: boot, Next: 8, Records: 8, Until: kmsg.Uptime()},
	}
	for i := range n {
		g := report.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), PCI: fmt.Sprintf("0000:%02x:00.0", i+1), Name: "NVIDIA H100",
			Handle: report.ReadingOf(1), Signals: map[report.Signal]report.Reading{}}
		for _, row := range report.Signals() {
			g.Signals[row.Signal] = report.Reading{Unsupported: true}
		}
		g.Signals[report.VBIOS] = report.Words("96.00.89.00.01")
		g.Signals[report.NVLinksActive] = report.ReadingOf(18)
		g.Signals[report.ECCMode] = report.Refused(999)
		s.Sample.GPUs = append(s.Sample.GPUs, g)
	}
	return s
}

func keepGPU(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return kit.TempFile(t, string(text))
}

// gpuRun measures with a kernel log of these records.
func gpuRun(t *testing.T, path string, evidence bool, records ...string) diag.Fact {
	t.Helper()
	log := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	// like /dev/kmsg, it has no end and does not block; one record, since one read of a FIFO returns everything
	hold, err := os.OpenFile(log, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	if _, err := hold.WriteString(strings.Join(records, "")); err != nil {
		t.Fatal(err)
	}
	module := kit.TempFile(t, "535.161.08\n")
	p := &Prober{gpus: gpuPaths{log: log, module: module}}
	return kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpGPU, Target: path, Evidence: evidence})
}

// TestGPUFacts: known, unsupported and failed readings are kept apart, and nothing else is reported.
func TestGPUFacts(t *testing.T) {
	f := gpuRun(t, keepGPU(t, gpuState(t, 8)), false)
	g := f.GPU
	if !f.Passed() || g.Module != "535.161.08" || g.Driver.Words() != "535.161.08" || g.Probe != "sampling" ||
		len(g.GPUs) != 8 || g.Count.Words() != "8" || g.EarlierBoot || g.Evidence != nil || g.KernelLog.ReadOn {
		t.Fatalf("%+v %+v", f, g)
	}
	d := g.GPUs[3]
	if vbios := d.Config["vbios"]; *vbios.Text != "96.00.89.00.01" || d.Config["ecc_mode"].Failed != 999 ||
		!d.Config["mig_mode"].NotSupported || !d.State["pcie_gen"].NotSupported {
		t.Errorf("%+v", d)
	}
	if _, gauge := d.State["temperature"]; gauge {
		t.Error("a gauge is a fact")
	}
}

// TestGPUProperties: nodes with the same GPUs in another order and with other UUIDs do not differ; a single different
// VBIOS is reported with its GPU.
func TestGPUProperties(t *testing.T) {
	properties := func(s *state.State) map[string]string {
		f, all := gpuRun(t, keepGPU(t, s), false), map[string]string{}
		for _, property := range f.Properties() {
			if property.Kind != diag.ChangeGPUIdentity {
				all[property.Field] = property.Value
			}
		}
		return all
	}
	one, other := gpuState(t, 8), gpuState(t, 8)
	for i := range other.Sample.GPUs {
		g := &other.Sample.GPUs[i]
		g.UUID, g.PCI = "GPU-other-"+g.UUID, fmt.Sprintf("0000:%02x:00.0", 8-i)
	}
	a, b := properties(one), properties(other)
	if fmt.Sprint(a) != fmt.Sprint(b) || a["gpu.vbios"] != "96.00.89.00.01" || a["gpu.ecc_mode"] != "failed (999)" ||
		a["gpu.mig_mode"] != "not supported" || a["gpu.cuda"] != "12.2" {
		t.Errorf("%v\n%v", a, b)
	}
	other.Sample.GPUs[2].Signals[report.VBIOS] = report.Words("96.00.90")
	if got := properties(other)["gpu.vbios"]; got != "96.00.89.00.01 on 7, 96.00.90 on 1 (0000:06:00.0)" {
		t.Error(got)
	}
}

// TestGPUEvidence: raw events that every reader accepts; the rest of the kernel log is read only if the agent does not
// read it.
func TestGPUEvidence(t *testing.T) {
	xid := "4,9,%d,-;NVRM: Xid (PCI:0000:03:00): 79, pid=7, GPU has fallen off the bus.\n"
	xid = fmt.Sprintf(xid, kmsg.Uptime().Microseconds())
	events := func(f diag.Fact) (all []*report.Event) {
		for _, text := range f.GPU.Evidence {
			e, err := report.DecodeEvent(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			all = append(all, e)
		}
		return all
	}
	count := func(f diag.Fact, of report.EventType) (n int) {
		for _, e := range events(f) {
			if e.Type == of {
				n++
			}
		}
		return n
	}
	s := gpuState(t, 8)
	f := gpuRun(t, keepGPU(t, s), true, xid)
	if count(f, report.DeviceEvent) != 8 || count(f, report.XIDEvent) != 0 || f.GPU.KernelLog.ReadOn {
		t.Errorf("the agent reads the log: %+v", f.GPU.KernelLog)
	}
	s.Log.Blind = "operation not permitted"
	f = gpuRun(t, keepGPU(t, s), true, xid)
	if count(f, report.XIDEvent) != 1 || !f.GPU.KernelLog.ReadOn || f.GPU.KernelLog.Blind != "" ||
		f.GPU.ErrorCount != 1 || f.GPU.Errors[0].What != "xid 79" {
		t.Errorf("a blind agent: %+v %+v", f.GPU.KernelLog, f.GPU.Errors)
	}
	s = gpuState(t, 8)
	s.Probe.Probe = &report.Probe{State: report.Unknown, Library: report.LibraryNotFound, Code: 12}
	if f = gpuRun(t, keepGPU(t, s), true); count(f, report.DeviceEvent) != 0 || count(f, report.ProbeEvent) != 1 {
		t.Errorf("GPUs of a library that has gone: %s", f.GPU.Evidence)
	}
	s = gpuState(t, 8)
	s.BootID, s.Log.BootID = "another", "another"
	code := 79
	s.Events = []report.Event{{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.XIDEvent,
		Source: report.FromKernelLog, At: s.At, BootID: "another", XID: &report.XID{Code: &code, Times: 1}}}
	f = gpuRun(t, keepGPU(t, s), true)
	if len(events(f)) != 1 || count(f, report.CoverageEvent) != 1 || !f.GPU.EarlierBoot || f.GPU.Errors != nil {
		t.Errorf("of an earlier boot: %s", f.GPU.Evidence)
	}
	f = gpuRun(t, filepath.Join(t.TempDir(), "none"), true, xid)
	if f.Failure != diag.FileMissing || count(f, report.XIDEvent) != 1 || count(f, report.CoverageEvent) != 1 {
		t.Errorf("no agent: %s %s", f.Failure, f.GPU.Evidence)
	}
}

// TestGPUFileIsHostile: whatever file is in its place, the measurement ends with an error and without a GPU.
func TestGPUFileIsHostile(t *testing.T) {
	newer := gpuState(t, 1)
	text, err := json.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(from, to string) string {
		out := bytes.Replace(text, []byte(from), []byte(to), 1)
		if bytes.Equal(out, text) {
			t.Fatalf("there is no %s in %s", from, text)
		}
		return kit.TempFile(t, string(out))
	}
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := os.Symlink(keepGPU(t, newer), link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		path string
		word diag.Failure
	}{
		"a newer agent's fields":  {changed(`"kind":"GPUNodeState"`, `"kind":"GPUNodeState","more":{"x":1}`), diag.OK},
		"a newer agent's signal":  {changed(`"vbios"`, `"radio":{"value":1},"vbios"`), diag.OK},
		"another kind":            {changed(`GPUNodeState`, `Pod`), diag.FileUnparseable},
		"a reading of two":        {changed(`"vbios":{`, `"vbios":{"value":1,`), diag.FileUnparseable},
		"more GPUs than counted":  {changed(`"count":{"value":1}`, `"count":{"value":3}`), diag.FileUnparseable},
		"garbage":                 {kit.TempFile(t, "\x00\x1b[2J\xff{"), diag.FileUnparseable},
		"empty":                   {kit.TempFile(t, ""), diag.FileUnparseable},
		"too long":                {kit.TempFile(t, strings.Repeat(" ", state.MaxBytes+1)), diag.FileUnparseable},
		"too deep":                {kit.TempFile(t, strings.Repeat("[", 100_000)), diag.FileUnparseable},
		"a FIFO that has no data": {fifo, diag.FileUnparseable},
		"a link":                  {link, diag.FileUnparseable},
		"a folder":                {dir, diag.FileUnparseable},
		"missing":                 {filepath.Join(dir, "none"), diag.FileMissing},
	} {
		t.Run(name, func(t *testing.T) {
			f := gpuRun(t, tc.path, true)
			if f.Failure != tc.word || (len(f.GPU.GPUs) > 0) != (tc.word == diag.OK) {
				t.Errorf("%s: %s, %d GPUs", f.Failure, f.Detail, len(f.GPU.GPUs))
			}
			if strings.ContainsAny(f.Detail, "\x00\x1b") {
				t.Errorf("%q", f.Detail)
			}
		})
	}
}
