package fault_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/fault"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
)

const (
	uuid = "GPU-00000000-1111-2222-3333-444444444444"
	pci  = "0000:00:06.0"
)

// began is when the node of these tests was booted.
func began() time.Time { return time.Date(2026, 11, 27, 22, 26, 0, 0, time.UTC) }

// sampled completes a GPU's identity as a sample with one GPU does.
func sampled(id report.Identity) report.Identity {
	if id.PCI == pci || id.UUID == uuid {
		id.PCI, id.UUID, id.Index = pci, uuid, new(0)
	}
	return id
}

// nvml returns what NVML reports, seconds after the boot.
func nvml(code int, seconds float64) report.Event {
	return report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.XIDEvent, BootID: "b",
		Source: report.FromNVML, At: began().Add(time.Duration(seconds * 1e9)),
		GPU: &report.Identity{Index: new(0), UUID: uuid, PCI: pci}, XID: &report.XID{Code: &code, Times: 1}}
}

// lines returns the events of the kernel log, as an agent reports them. A line is "SECONDS REST", where REST follows
// "NVRM: Xid (PCI:".
func lines(t testing.TB, apart bool, all ...string) (events []report.Event) {
	t.Helper()
	var tally kmsg.Tally
	for i, text := range all {
		var seconds float64
		rest := ""
		if _, err := fmt.Sscanf(text, "%g", &seconds); err != nil {
			t.Fatal(err)
		}
		_, rest, _ = strings.Cut(text, " ")
		l, ok := kmsg.ParseLine("NVRM: Xid (PCI:" + rest)
		if !ok {
			t.Fatal(text)
		}
		at := time.Duration(seconds * 1e9)
		e := kmsg.Event{Line: l, BootID: "b", Seq: uint64(i), First: at, Last: at, Count: 1}
		if apart { // an agent that reports each line
			events = append(events, *state.KernelEvent(&e, began(), 0))
			continue
		}
		tally.Add(e)
	}
	for i := range tally.Events {
		events = append(events, *state.KernelEvent(&tally.Events[i], began(), 0))
	}
	return events
}

// silicon are the lines that an H200 printed about two faults of programs.
func silicon() []string {
	return []string{
		"51.528634 0000:00:06): 13, Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): Misaligned Address",
		"51.529893 0000:00:06): 13, Graphics Exception: ESR 0x519730=0x501000f 0x519734=0x0 0x519728=0x1f81fb60",
		"51.531463 0000:00:06): 13, pid=509, name=python3, Graphics Exception: channel 0x0000000a, Class 0000cbc0, Offset 0",
		"58.249241 0000:00:06): 31, pid=560, name=python3, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS " +
			"GPC1 GPCCLIENT_T1_8 faulted @ 0x83f6_afe00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
	}
}

// shown describes faults.
func shown(all []fault.Fault) (words []string) {
	for _, f := range all {
		s := "lost"
		if f.XID.Code != nil {
			s = fmt.Sprint(*f.XID.Code)
		}
		if f.XID.Times > 1 {
			s += fmt.Sprint(" x", f.XID.Times)
		}
		for _, source := range f.Sources {
			s += " " + string(source)
		}
		if f.XID.PID != nil {
			s += fmt.Sprint(" ", f.XID.Process, " ", *f.XID.PID)
		}
		if f.GPU.UUID == uuid && f.GPU.Index != nil {
			s += " named"
		}
		if f.GPU.GPUInstance != nil {
			s += fmt.Sprint(" instance ", *f.GPU.GPUInstance)
		}
		words = append(words, s)
	}
	return words
}

// total is the number of faults.
func total(all []fault.Fault) (n int64) {
	for _, f := range all {
		n += f.XID.Times
	}
	return n
}

// TestOneFaultCountsOnce: what the kernel log and NVML report about one fault is one, whichever comes first, or late,
// or never; and no two are taken for one.
func TestOneFaultCountsOnce(t *testing.T) {
	on := func(e report.Event, of report.Identity) report.Event { e.GPU = &of; return e }
	thrice := []string{"10 0000:00:06): 31, pid=1, name=a, x", "11 0000:00:06): 31, pid=2, name=a, x",
		"12 0000:00:06): 31, pid=3, name=a, x"}
	equal := []string{"10 0000:00:06): 31, x", "11 0000:00:06): 31, x", "12 0000:00:06): 31, x"}
	instance := "58 0000:00:06 GPU-I:01 GPU-CI:00): 31, pid=1, name=a, x"
	log, one := silicon()[3:], func(seconds ...float64) (all []report.Event) {
		for _, s := range seconds {
			all = append(all, nvml(31, s))
		}
		return all
	}
	others := func(of report.Identity) []report.Event { return []report.Event{on(nvml(31, 58), of)} }
	const both, alone = "31 kernel_log nvml python3 560 named", "31 kernel_log python3 560 named"
	for name, tc := range map[string]struct {
		lines []string
		nvml  []report.Event
		want  string
	}{
		"of an H200": {silicon(), []report.Event{nvml(13, 51.54), nvml(31, 58.25)},
			"13 kernel_log nvml python3 509 named; " + both},
		"NVML is late":    {log, one(59.3), both},
		"NVML's is lost":  {log, nil, alone},
		"the log's is":    {nil, one(58), "31 nvml named"},
		"too far apart":   {log, one(68), alone + "; 31 nvml named"},
		"another code":    {log, []report.Event{nvml(43, 58)}, alone + "; 43 nvml named"},
		"of another GPU":  {log, others(report.Identity{UUID: "u", PCI: "p"}), alone + "; 31 nvml"},
		"of no known GPU": {log, others(report.Identity{}), alone + "; 31 nvml"},
		"by UUID alone":   {log, others(report.Identity{UUID: uuid}), both},
		"thrice, each": {thrice, one(10, 11, 12), "31 kernel_log nvml a 1 named; 31 kernel_log nvml a 2 named; " +
			"31 kernel_log nvml a 3 named"},
		"NVML had one": {thrice, one(12), "31 kernel_log a 2 named; 31 kernel_log a 3 named; " +
			"31 kernel_log nvml a 1 named"},
		"the log had one": {thrice[:1], one(10, 10.1, 10.2), "31 kernel_log nvml a 1 named; 31 nvml named; 31 nvml named"},
		"equal ones":      {equal, one(10, 11, 12), "31 x3 kernel_log nvml named"},
		"equal, and one":  {equal, one(10, 11, 12, 12), "31 nvml named; 31 x3 kernel_log nvml named"},
		"of an instance that NVML does not tell": {[]string{instance}, one(58),
			"31 kernel_log nvml a 1 named instance 1"},
		"of two instances": {[]string{instance}, others(report.Identity{UUID: uuid, PCI: pci, GPUInstance: new(2)}),
			"31 kernel_log a 1 named instance 1; 31 nvml named instance 2"},
		"off the bus": {[]string{"5 0000:00:06): 79, GPU has fallen off the bus."}, []report.Event{nvml(79, 5)},
			"79 kernel_log nvml named"},
	} {
		for _, order := range []string{"log first", "NVML first"} {
			events := append(lines(t, false, tc.lines...), tc.nvml...)
			if order == "NVML first" {
				events = append(slices.Clone(tc.nvml), lines(t, false, tc.lines...)...)
			}
			all := shown(fault.Merge(events, sampled))
			slices.Sort(all)
			if got := strings.Join(all, "; "); got != tc.want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, order, got, tc.want)
			}
		}
	}
	other := nvml(31, 58)
	other.BootID = "a"
	if got := fault.Merge(append(lines(t, false, silicon()[3:]...), other), sampled); len(got) != 2 {
		t.Errorf("of two boots: %v", shown(got))
	}
}

// TestLinesOfAnOlderAgent: an agent that reports each line, or reads them at two times, has reported the same faults.
func TestLinesOfAnOlderAgent(t *testing.T) {
	events := append(lines(t, true, silicon()...), nvml(13, 51.54), nvml(31, 58.25))
	if len(events) != 6 {
		t.Fatal(len(events))
	}
	got := fault.Merge(events, sampled)
	if len(got) != 2 || !slices.Equal(got[0].Numbers, []int{0, 1, 2, 4}) || *got[0].XID.PID != 509 ||
		!slices.Equal(got[0].Places, []string{"GPC 1, TPC 4, SM 0"}) ||
		!slices.Equal(got[1].Places, []string{"GPC 1, GPCCLIENT_T1_8"}) {
		t.Errorf("%+v", got)
	}
	if fmt.Sprint(got[0].At) != fmt.Sprint(events[0].At) || got[0].Since() != got[0].At {
		t.Errorf("%s, %s", got[0].At, got[0].Since())
	}
	lost := report.Event{Type: report.LostEvent, Source: report.FromKernelLog, At: began().Add(5 * time.Second),
		BootID: "b", GPU: &report.Identity{PCI: pci}, XID: &report.XID{Times: 1, Text: "GPU has fallen off the bus."}}
	if got := fault.Merge([]report.Event{lost, nvml(79, 5)}, sampled); len(got) != 1 || got[0].Type != report.XIDEvent {
		t.Errorf("without a code: %v", shown(got))
	}
}

// TestOtherEvents: a change of the recovery action is one of its own; a sample is no fault. No event is changed.
func TestOtherEvents(t *testing.T) {
	asks := report.Event{Type: report.RecoveryEvent, Source: report.FromNVML, GPU: &report.Identity{UUID: uuid},
		Action: &report.Recovery{To: 1}}
	device := report.Event{Type: report.DeviceEvent, Source: report.FromNVML, Device: &report.Device{}}
	events := append(lines(t, true, silicon()...), nvml(13, 51.54), asks, device)
	before, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	got := fault.Merge(events, sampled)
	after, err := json.Marshal(events)
	if err != nil || string(before) != string(after) {
		t.Errorf("changed: %s\n%s, %v", before, after, err)
	}
	if len(got) != 3 || got[2].Type != report.RecoveryEvent || got[2].GPU.PCI != pci {
		t.Errorf("%+v", got)
	}
}

// scene makes events of both sources from bytes: faults at close times, on two GPUs, some of which one source lost.
func scene(t testing.TB, bytes []byte) (events []report.Event) {
	at := 1.0
	for i, b := range bytes {
		at += float64(b&3) * 2
		code, gpu := 31+int(b>>2&1), []string{"0000:00:06", "0000:00:07"}[b>>3&1]
		if b>>4&3 != 0 {
			one := lines(t, false, fmt.Sprintf("%g %s): %d, x", at, gpu, code))
			one[0].XID.Record = new(uint64(i))
			events = append(events, one...)
		}
		if b>>6 != 0 {
			e := nvml(code, at+float64(b>>6)*0.1)
			if e.GPU.PCI = gpu + ".0"; gpu != "0000:00:06" {
				e.GPU.UUID, e.GPU.Index = "GPU-other", new(1)
			}
			events = append(events, e)
		}
	}
	return events
}

// FuzzMerge: the order in which the sources come never changes the number of faults; no fault has two reports of one
// source that each are one, and none is lost.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{0xff, 0x50, 0x55, 0xa1, 0x13, 0x42}, uint64(1))
	f.Add(slices.Repeat([]byte{0x50, 0x58, 0x5c}, 40), uint64(2))
	f.Fuzz(func(t *testing.T, bytes []byte, seed uint64) {
		bytes = bytes[:min(len(bytes), 200)]
		events := scene(t, bytes)
		want := total(fault.Merge(events, sampled))
		log := slices.DeleteFunc(slices.Clone(events), func(e report.Event) bool { return e.Source == report.FromNVML })
		if n := int64(len(events) - len(log)); want < max(n, int64(len(log))) || want > int64(len(events)) {
			t.Fatalf("%d faults of %d and %d reports", want, len(log), n)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		for range 4 {
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			if got := total(fault.Merge(events, sampled)); got != want {
				t.Fatalf("%d faults, and %d in another order", want, got)
			}
		}
	})
}

// TestManyEvents: a flood is merged in little time, and counted.
func TestManyEvents(t *testing.T) {
	const faults = 50_000 // of each source
	var events []report.Event
	for i := range faults {
		e := nvml(31, float64(i)/1000)
		k := e
		k.Source, k.GPU = report.FromKernelLog, &report.Identity{PCI: pci}
		k.XID = &report.XID{Code: new(31), Times: 1, Record: new(uint64(i)), PID: new(i), Text: "x"}
		events = append(events, k, e)
	}
	if got := fault.Merge(events, sampled); len(got) != faults || total(got) != faults {
		t.Errorf("%d faults", len(got))
	}
}
