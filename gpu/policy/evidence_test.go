package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

func at(seconds int) time.Time { return caseTime().Add(time.Duration(seconds) * time.Second) }

// device returns an event about a GPU, from a sample in which the driver counted that many.
func device(index, counted, seconds int, signals map[report.Signal]report.Reading) report.Event {
	all := map[report.Signal]report.Reading{}
	for _, s := range report.Signals() {
		all[s.Signal] = report.Reading{Unsupported: true}
	}
	for s, r := range signals {
		all[s] = r
	}
	return report.Event{Type: report.DeviceEvent, Source: report.FromNVML, At: at(seconds), Device: &report.Device{
		SampledAt: at(seconds), Driver: "535.161.08", Count: counted,
		GPU: report.GPU{Index: index, UUID: fmt.Sprint("GPU-", index), Handle: report.ReadingOf(1), Signals: all},
	}}
}

func watched() report.Event {
	return report.Event{Type: report.CoverageEvent, Source: report.FromAgent, At: at(0),
		Coverage: &report.Coverage{From: at(0), To: at(0), BootID: "b"}}
}

func xidOf(code, seconds int, uuid string) report.Event {
	return report.Event{Type: report.XIDEvent, Source: report.FromNVML, At: at(seconds),
		GPU: &report.Identity{UUID: uuid}, XID: &report.XID{Code: &code, Times: 1}}
}

func recoveryOf(to int64, seconds int, uuid string) report.Event {
	return report.Event{Type: report.RecoveryEvent, Source: report.FromNVML, At: at(seconds),
		GPU: &report.Identity{UUID: uuid}, Action: &report.Recovery{To: to, Action: report.ActionOf(to)}}
}

// floors returns the texts of the findings that no policy can turn green.
func floors(f Facts) string {
	var all []string
	for _, one := range f.Floors {
		if one.Health != Unknown {
			all = append(all, "not unknown")
		}
		all = append(all, one.Subject.What+": "+one.Why)
	}
	return strings.Join(all, "; ")
}

// TestSampleOfEvents: a platform has the last event about each GPU, and about the probe.
func TestSampleOfEvents(t *testing.T) {
	expected := 2
	stuck := at(3)
	probe := func(s report.ProbeState, l report.LibraryState, code int) report.Event {
		p := &report.Probe{State: s, Library: l, Code: code}
		if s == report.Stuck {
			p.Since, p.Call, p.PID = &stuck, "nvmlDeviceGetTemperature", 7
		}
		return report.Event{Type: report.ProbeEvent, Source: report.FromAgent, At: at(5), Probe: p}
	}
	two := []report.Event{watched(), device(0, 2, 1, nil), device(1, 2, 1, nil)}
	for name, tc := range map[string]struct {
		events []report.Event
		gpus   int
		want   string // part of the floors; "": no floor
	}{
		"two":      {two, 2, ""},
		"again":    {append(slices.Clone(two), device(0, 2, 9, nil)), 2, ""},
		"sampling": {append(slices.Clone(two), probe(report.Sampling, report.Loaded, 0)), 2, ""},
		"nothing":  {[]report.Event{watched()}, 0, "there is no sample of any GPU"},
		"one is gone": {append(slices.Clone(two), device(0, 1, 9, nil)), 2,
			"counts 1 GPUs, and reported 2 of them in this boot"},
		"one not looked at": {two[:2], 1, "counts 2 GPUs, and 1 were looked at"},
		"fewer than enrolled": {[]report.Event{watched(), device(0, 1, 1, nil)}, 1,
			"should have 2 GPUs, and the driver counts 1"},
		"stuck": {append(slices.Clone(two), probe(report.Stuck, "", 0)), 2,
			"the probe is stuck, in nvmlDeviceGetTemperature, since 2026-01-01T00:00:03Z"},
		"no driver": {append(slices.Clone(two), probe(report.Unknown, report.DriverNotLoaded, 9)), 2,
			"NVIDIA's library is driver_not_loaded: the driver's kernel module is not loaded (NVML's return code 9): load"},
		"recovered": {append(slices.Clone(two), probe(report.Stuck, "", 0), probe(report.Sampling, report.Loaded, 0)), 2,
			""},
		"not watched": {two[1:], 2, "the kernel log was not watched"},
	} {
		f := FactsOf(Evidence{Events: tc.events, Expected: &expected, Now: at(10)})
		if got := floors(f); len(f.GPUs) != tc.gpus || (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %d GPUs, floors %q; want %d and %q", name, len(f.GPUs), got, tc.gpus, tc.want)
		}
	}
	late := FactsOf(Evidence{Events: two, Expected: &expected, Now: at(182)})
	if got := floors(late); !strings.Contains(got, "last looked at 3m1s ago") || len(late.Observations) != 1 {
		t.Errorf("stale: %q, %d observations", got, len(late.Observations))
	}
	lost := device(0, 2, 1, map[report.Signal]report.Reading{report.Power: report.Refused(report.GPUIsLost)})
	if got := floors(FactsOf(Evidence{Events: []report.Event{watched(), lost, two[2]},
		Expected: &expected})); !strings.Contains(got,
		"GPU 0: a call was answered with GPU_IS_LOST") {
		t.Error(got)
	}
}

// TestPastEvents: which events are no longer judged.
func TestPastEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		events []report.Event
		past   int
	}{
		"a reset":                      {[]report.Event{xidOf(119, 1, "a"), recoveryOf(1, 2, "a"), recoveryOf(0, 3, "a")}, 2},
		"of another GPU":               {[]report.Event{xidOf(119, 1, "a"), recoveryOf(0, 3, "b")}, 0},
		"of a GPU that nobody names":   {[]report.Event{xidOf(119, 1, ""), recoveryOf(0, 3, "")}, 0},
		"an error after it":            {[]report.Event{recoveryOf(0, 1, "a"), xidOf(119, 2, "a")}, 0},
		"an error reported late":       {[]report.Event{xidOf(119, 5, "a"), recoveryOf(0, 3, "a")}, 0},
		"it asks for something again":  {[]report.Event{xidOf(119, 1, "a"), recoveryOf(0, 2, "a"), recoveryOf(1, 3, "a")}, 1},
		"an error that takes a reboot": {[]report.Event{xidOf(79, 1, "a"), recoveryOf(0, 3, "a")}, 0},
		"a reboot that was asked for":  {[]report.Event{recoveryOf(2, 1, "a"), recoveryOf(0, 3, "a")}, 0},
		"an application's error":       {[]report.Event{xidOf(31, 1, "a"), recoveryOf(0, 3, "a")}, 0},
		"an unknown error":             {[]report.Event{xidOf(9999, 1, "a"), recoveryOf(0, 3, "a")}, 0},
	} {
		f := FactsOf(Evidence{Events: tc.events})
		if len(f.Past) != tc.past || len(f.Past)+len(f.Observations)-1 != len(tc.events) {
			t.Errorf("%s: %d of %d are past, want %d: %+v", name, len(f.Past), len(tc.events), tc.past, f.Past)
		}
	}
	old := xidOf(79, 1, "a")
	old.XID.BootID = "another"
	if f := FactsOf(Evidence{Events: []report.Event{old, watched()}}); len(f.Past) != 1 {
		t.Errorf("of an earlier boot: %+v", f)
	}
	if f := FactsOf(Evidence{Events: []report.Event{old}}); len(f.Past) != 0 {
		t.Errorf("the boot of now is not known: %+v", f)
	}
	// Everything reported in an earlier boot: an action requested by the driver, a GPU that is gone, and dropped
	// events.
	before := []report.Event{recoveryOf(2, 1, "a"), device(1, 2, 1, nil), {Type: report.DroppedEvent,
		Source: report.FromAgent, At: at(1), Dropped: &report.Dropped{Since: at(1), Why: "rate",
			Count: map[report.EventType]int64{report.XIDEvent: 4}}}}
	for i := range before {
		before[i].BootID = "a"
	}
	now := device(0, 1, 1, nil)
	now.BootID = "b"
	f := FactsOf(Evidence{Events: append(before, watched(), now)})
	if len(f.Past) != 1 || len(f.GPUs) != 1 || floors(f) != "" {
		t.Errorf("of an earlier boot: %+v", f)
	}
}

// TestDriversEventsAreNotTheKernelLog: coverage of the driver's own events is not coverage of the kernel log.
func TestDriversEventsAreNotTheKernelLog(t *testing.T) {
	of := func(source report.Source, blind string) report.Event {
		e := watched()
		e.Source, e.Coverage = source, &report.Coverage{From: at(0), To: at(0), BootID: "b", Blind: blind}
		return e
	}
	for name, tc := range map[string]struct{ log, driver, want string }{
		"the log is blind":        {"it cannot be opened", "", "the kernel log is not watched: it cannot be opened"},
		"the driver has no event": {"", "refused with 3", ""},
	} {
		f := FactsOf(Evidence{Events: []report.Event{device(0, 1, 1, nil), of(report.FromKernelLog, tc.log),
			of(report.FromNVML, tc.driver)}})
		if got := floors(f); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestTooManyEvents: the newest are judged, and a note counts the others.
func TestTooManyEvents(t *testing.T) {
	events := []report.Event{watched()}
	for range MaxEvents {
		events = append(events, xidOf(31, 1, "a"))
	}
	if f := FactsOf(Evidence{Events: events[1:]}); strings.Contains(floors(f), "events were reported") {
		t.Error(floors(f))
	}
	f := FactsOf(Evidence{Events: events})
	if len(f.Observations) != MaxEvents+1 || !strings.Contains(floors(f), "1001 events were reported, and the last 1000") {
		t.Errorf("%d, %s", len(f.Observations), floors(f))
	}
}

// TestDroppedEvents: events that a node dropped are not taken for absent.
func TestDroppedEvents(t *testing.T) {
	dropped := func(of report.EventType) report.Event {
		return report.Event{Type: report.DroppedEvent, Source: report.FromAgent, At: at(2),
			Dropped: &report.Dropped{Since: at(1), Count: map[report.EventType]int64{of: 4}, Why: "rate"}}
	}
	none := map[report.Signal]report.Reading{report.RecoveryAction: report.ReadingOf(0)}
	for name, tc := range map[string]struct {
		events []report.Event
		want   string
	}{
		"XIDs": {[]report.Event{watched(), device(0, 1, 1, nil), dropped(report.XIDEvent)},
			"4 events were dropped"},
		"samples":                       {[]report.Event{watched(), device(0, 1, 1, nil), dropped(report.DeviceEvent)}, ""},
		"XIDs, and the action is known": {[]report.Event{watched(), device(0, 1, 1, none), dropped(report.XIDEvent)}, ""},
	} {
		f := FactsOf(Evidence{Events: tc.events})
		if got := floors(f); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestValuesOfGPUs: unsupported, failed and zero are kept apart.
func TestValuesOfGPUs(t *testing.T) {
	g := report.GPU{Signals: map[report.Signal]report.Reading{
		report.Temperature: report.ReadingOf(0), report.Power: {Unsupported: true}, report.ECCMode: report.Flag(false),
		report.ECCDBEVolatile: report.Refused(999), report.PCIeWidth: report.Skipped(report.NoSymbol),
		report.NVLinks: report.Skipped(report.NotThere), report.PCIeGen: report.Skipped(report.Late),
		report.RecoveryAction:     report.ReadingOf(7),
		report.ClocksEventReasons: report.ReadingOf(report.HWSlowdown | report.HWPowerBrake),
		report.VBIOS:              report.Words("96.00"), report.GSPFirmware: report.ReadingOf(3),
		report.PowerLimit: report.Words("low"),
	}, LinksDown: []int{1}}
	for _, s := range report.Signals() { // zero is a word, a number or false, and none of these is a failure
		if of, why := answer(report.Refused(999), s); of != nil || why !=
			"could not be read: an internal error of the driver (NVML's return code 999)" {
			t.Errorf("%s: %v %s", s.Signal, of, why)
		}
	}
	v := gpuValues(&g)
	for name, want := range map[string]any{
		"temperature": int64(0), "ecc_mode": false, "recovery_action": "unknown", "hw_slowdown": true, "hw_power_brake": true,
		"hw_thermal_slowdown": false, "sw_thermal_slowdown": false, "vbios": "96.00", "lost": false,
	} {
		if v[name].Of != want || v[name].Failed != "" {
			t.Errorf("%s is %+v, want %v", name, v[name], want)
		}
	}
	for name, want := range map[string]string{"ecc_dbe_volatile": "return code 999", "pcie_gen": "was not measured",
		"pcie_gen_max": "was not measured", "gsp_firmware": "of another type",
		"power_limit": "of another type: low"} {
		if v[name].Of != nil || !strings.Contains(v[name].Failed, want) {
			t.Errorf("%s is %+v, want a failure: %s", name, v[name], want)
		}
	}
	for _, name := range []string{"power", "pcie_width", "nvlinks", "nvlinks_down"} {
		if of, there := v[name]; there {
			t.Errorf("%s is %+v, and the GPU does not have it", name, of)
		}
	}
}

// TestValuesOfLinksAndClocks: how many links are down, and why the clocks are lowered, is known only if their signals
// are.
func TestValuesOfLinksAndClocks(t *testing.T) {
	for _, tc := range []struct {
		links, clocks report.Reading
		want          string
	}{
		{report.ReadingOf(18), report.ReadingOf(report.HWThermalSlowdown), "2 false true false false"},
		{report.ReadingOf(18), report.ReadingOf(0), "2 false false false false"},
		{report.Refused(9), report.Refused(8), strings.TrimSpace("could not be read: " + report.CodeOf(9).Words() +
			strings.Repeat(" could not be read: "+report.CodeOf(8).Words(), 4))},
	} {
		v := gpuValues(&report.GPU{LinksDown: []int{1, 5}, Signals: map[report.Signal]report.Reading{
			report.NVLinks: tc.links, report.ClocksEventReasons: tc.clocks}})
		var got []string
		for _, name := range []string{"nvlinks_down", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake",
			"sw_thermal_slowdown"} {
			got = append(got, fmt.Sprint(cmp.Or(v[name].Of, any(v[name].Failed))))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// TestClassesOfEvents: the driver's own words outrank the tables.
func TestClassesOfEvents(t *testing.T) {
	code := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		of   report.EventType
		xid  report.XID
		want string
	}{
		"application":          {report.XIDEvent, report.XID{Code: code(31)}, "app none"},
		"fallen off the bus":   {report.LostEvent, report.XID{}, "reboot node"},
		"not initialized":      {report.InitEvent, report.XID{}, "gpu_reset gpu"},
		"not known to this":    {"newer", report.XID{}, "unknown undecided"},
		"versions":             {report.MismatchEvent, report.XID{}, "software none"},
		"contained, RST":       {report.XIDEvent, report.XID{Code: code(94), Reset: "gpu_reset"}, "gpu_reset gpu"},
		"contained, D-RST":     {report.XIDEvent, report.XID{Code: code(94), Reset: "drain_and_reset"}, "drain gpu"},
		"contained, neither":   {report.XIDEvent, report.XID{Code: code(94), Reset: "none"}, "app none"},
		"uncontained, neither": {report.XIDEvent, report.XID{Code: code(95), Reset: "none"}, "gpu_reset gpu"},
		"off the bus, D-RST":   {report.XIDEvent, report.XID{Code: code(79), Reset: "drain_and_reset"}, "reboot node"},
		"NVLink 5, no word":    {report.XIDEvent, report.XID{Code: code(149)}, "link undecided"},
		"NVLink 5, Nonfatal":   {report.XIDEvent, report.XID{Code: code(149), Severity: "Non-fatal"}, "link undecided"},
		"NVLink 5, Fatal":      {report.XIDEvent, report.XID{Code: code(149), Severity: "Fatal"}, "gpu_reset gpu"},
		"newer, Fatal":         {report.XIDEvent, report.XID{Code: code(177), Severity: "Fatal"}, "gpu_reset gpu"},
		"injected": {report.XIDEvent, report.XID{Code: code(149), Severity: "Fatal", Injected: true},
			"injected none"},
		"in the text alone": {report.XIDEvent, report.XID{Code: code(94), Text: "Contained: SM (0x1). RST: No, D-RST: Yes"},
			"drain gpu"},
		"SXID, Always fatal": {report.SXIDEvent, report.XID{Code: code(99999), Severity: "Always fatal"},
			"always_fatal node"},
		"no table has it":        {report.XIDEvent, report.XID{Code: code(177)}, "unknown undecided"},
		"follows":                {report.XIDEvent, report.XID{Code: code(45)}, "sympathetic none"},
		"follows a fatal one":    {report.XIDEvent, report.XID{Code: code(45), CausedBy: code(79)}, "reboot node"},
		"follows an unknown one": {report.XIDEvent, report.XID{Code: code(45), CausedBy: code(177)}, "unknown undecided"},
		"fatal after an app's":   {report.XIDEvent, report.XID{Code: code(48), CausedBy: code(31)}, "gpu_reset gpu"},
		"SXID, Fatal":            {report.SXIDEvent, report.XID{Code: code(99999), Severity: "Fatal"}, "fatal gpu"},
		"SXID, Non-fatal": {report.SXIDEvent, report.XID{Code: code(20034), Severity: "Non-fatal"},
			"nonfatal none"},
		"SXID, of the table": {report.SXIDEvent, report.XID{Code: code(20034)}, "fatal gpu"},
		"SXID, of the whole fabric": {report.SXIDEvent, report.XID{Code: code(10003), Severity: "Fatal"},
			"always_fatal node"},
		"SXID, unlisted": {report.SXIDEvent, report.XID{Code: code(99999)}, "unlisted undecided"},
	} {
		class, scope := Reported(&report.Event{Type: tc.of, XID: &tc.xid}).Consequence()
		if got := string(class) + " " + string(scope); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestWhyThereIsNoGPU: a missing library, a missing driver and a driver without GPUs are kept apart.
func TestWhyThereIsNoGPU(t *testing.T) {
	const no = "the probe: no GPU can be looked at: "
	for text, want := range map[string]string{
		"library: library_not_found": no + "NVIDIA's library is library_not_found: " + report.Explain(12),
		"library: driver_not_loaded": no + "NVIDIA's library is driver_not_loaded: " + report.Explain(9),
		"library: built_without":     no + "NVIDIA's library is built_without",
		"gpus: []": "the sample: the driver counts no GPU: there is none, or the device nodes /dev/nvidia* are " +
			"hidden",
		"no_sample: true": "the sample: there is no sample of any GPU",
	} {
		c, err := LoadCases("c", []byte("version: 1\ncases:\n- {name: a, "+text+", expect: {health: UNKNOWN}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := floors(FactsOf(c.Cases[0].Evidence)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestRecoveredWhileNobodyLooked: a reset without a recorded event clears a GPU if the driver requested a reset, and
// requests nothing in a later sample. Nothing else counts as a reset.
func TestRecoveredWhileNobodyLooked(t *testing.T) {
	ok := map[report.Signal]report.Reading{report.RecoveryAction: report.ReadingOf(0)}
	asks := func(action int64, seconds int) report.Event { return recoveryOf(action, seconds, "GPU-0") }
	carrier := xidOf(154, 2, "GPU-0")
	one := int64(1)
	carrier.XID.Recovery = &one
	for name, tc := range map[string]struct {
		events []report.Event
		past   int // number of events that are over
	}{
		"reset":                   {[]report.Event{xidOf(119, 1, "GPU-0"), asks(1, 2), device(0, 1, 9, ok)}, 2},
		"reset, asked by XID 154": {[]report.Event{xidOf(119, 1, "GPU-0"), carrier, device(0, 1, 9, ok)}, 2},
		"the log came later":      {[]report.Event{asks(1, 2), device(0, 1, 9, ok), xidOf(119, 1, "GPU-0")}, 2},
		"asked for nothing":       {[]report.Event{asks(0, 2), xidOf(119, 1, "GPU-0"), device(0, 1, 9, ok)}, 0},
		"never asked":             {[]report.Event{xidOf(119, 1, "GPU-0"), device(0, 1, 9, ok)}, 0},
		"asked before":            {[]report.Event{asks(1, 0), xidOf(119, 1, "GPU-0"), device(0, 1, 9, ok)}, 1},
		"a sample from before":    {[]report.Event{xidOf(119, 1, "GPU-0"), asks(1, 9), device(0, 1, 9, ok)}, 0},
		"it still asks": {[]report.Event{xidOf(119, 1, "GPU-0"), asks(1, 2), device(0, 1, 9,
			map[report.Signal]report.Reading{report.RecoveryAction: report.ReadingOf(1)})}, 0},
		"it cannot say": {[]report.Event{xidOf(119, 1, "GPU-0"), asks(1, 2), device(0, 1, 9, nil)}, 0},
		"a later error": {[]report.Event{asks(1, 2), device(0, 1, 9, ok), xidOf(119, 10, "GPU-0")}, 1},
		"a reboot":      {[]report.Event{xidOf(119, 1, "GPU-0"), asks(2, 2), device(0, 1, 9, ok)}, 0},
		"off the bus":   {[]report.Event{xidOf(79, 1, "GPU-0"), asks(1, 2), device(0, 1, 9, ok)}, 1},
		"of another":    {[]report.Event{xidOf(119, 1, "GPU-0"), recoveryOf(1, 2, "GPU-1"), device(0, 1, 9, ok)}, 0},
		"of an earlier boot": {[]report.Event{func() report.Event { e := asks(1, 2); e.BootID = "a"; return e }(),
			xidOf(119, 1, "GPU-0"), func() report.Event { e := device(0, 1, 9, ok); e.BootID = "b"; return e }()}, 1},
	} {
		f := FactsOf(Evidence{Events: append([]report.Event{watched()}, tc.events...), Now: at(10)})
		if len(f.Past) != tc.past {
			t.Errorf("%s: %+v", name, f.Past)
		}
	}
}

// TestGPUsOfOthers: a GPU that is passed through, or divided for tenants, is noted and does not affect the judgement.
func TestGPUsOfOthers(t *testing.T) {
	one := 1
	probe := report.Event{Type: report.ProbeEvent, Source: report.FromAgent, At: at(1), Probe: &report.Probe{
		State: report.Sampling, Library: report.Loaded, Count: &one, Why: "NVIDIA's driver does not have B (vfio-pci)"}}
	d := device(0, 1, 2, nil)
	d.Device.GPU.MIG = []report.MIG{{UUID: "MIG-a", GPUInstance: 1}, {UUID: "MIG-b", GPUInstance: 2}}
	f := FactsOf(Evidence{Events: []report.Event{watched(), probe, d}, Expected: &one, Now: at(3)})
	notes := strings.Join(f.Notes, "; ")
	if !strings.Contains(notes, "B (vfio-pci)") || !strings.Contains(notes, "GPU 0 is divided into 2 MIG instances") ||
		len(f.Floors) > 0 {
		t.Errorf("%q, %+v", notes, f.Floors)
	}
	for n, want := range map[int]bool{0: false, 1: true} {
		d.Device.GPU.MIG = d.Device.GPU.MIG[:n]
		f = FactsOf(Evidence{Events: []report.Event{d}})
		if got := strings.Contains(strings.Join(f.Notes, "; "), "is divided"); got != want {
			t.Errorf("with %d instances: %q", n, f.Notes)
		}
	}
	s := &report.Sample{At: at(1), Library: report.Library{State: report.Loaded}, Count: report.ReadingOf(0),
		Elsewhere: []string{"A (no driver)"}}
	f = FactsOf(Evidence{Events: []report.Event{watched()}, Sample: s})
	if !strings.Contains(strings.Join(f.Notes, "; "), "does not have A (no driver)") ||
		!strings.Contains(floors(f), "the driver counts no GPU") {
		t.Errorf("%q, %s", f.Notes, floors(f))
	}
}
