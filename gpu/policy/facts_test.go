package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

func gpuWith(index int, change func(g *report.GPU)) report.Event {
	e := device(index, 1, 1, nil)
	change(&e.Device.GPU)
	return e
}

func lost(n uint64, gaps int) report.Event {
	e := watched()
	e.Coverage.Lost, e.Coverage.Gaps = n, make([]report.Gap, gaps)
	return e
}

func probeOf(p report.Probe) report.Event {
	return report.Event{Type: report.ProbeEvent, Source: report.FromAgent, At: at(5), Probe: &p}
}

// TestFloors: what is missing in the evidence is a finding that no policy can turn green, and nothing else is.
func TestFloors(t *testing.T) {
	n := func(n int) *int { return &n }
	action := func(n int64) map[report.Signal]report.Reading {
		return map[report.Signal]report.Reading{report.RecoveryAction: report.ReadingOf(n)}
	}
	since := at(3)
	blind := watched()
	blind.Coverage.Blind = "closed"
	const unknown = "and the driver's recovery action is not known of every GPU"
	records := func(lost, dropped int) string {
		return fmt.Sprintf("%d records of the kernel log were not seen, and %d events were dropped", lost, dropped)
	}
	dropped := func(types ...report.EventType) report.Event {
		e := report.Event{Type: report.DroppedEvent, Dropped: &report.Dropped{Count: map[report.EventType]int64{}}}
		for _, of := range types {
			e.Dropped.Count[of] = 2
		}
		return e
	}
	earlier := func(e report.Event) report.Event { e.BootID = "a"; return e }
	for name, tc := range map[string]struct {
		events   []report.Event
		expected *int
		floors   string
		node     string // fields of the node
	}{
		"nothing": {nil, nil, "the sample: there is no sample of any GPU; the kernel log: the kernel log was not watched: " +
			"the absence of events does not prove that none occurred", "gpus_lost=0"},
		"a GPU": {[]report.Event{watched(), device(0, 1, 1, nil)}, n(1), "",
			"driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},
		"another expected": {[]report.Event{watched(), device(0, 1, 1, nil)}, n(2),
			"the count: the node should have 2 GPUs, and the driver counts 1",
			"driver=535.161.08 gpus=1 gpus_expected=2 gpus_lost=0"},
		"fewer expected": {[]report.Event{watched(), device(0, 1, 1, nil)}, n(0), "",
			"driver=535.161.08 gpus=1 gpus_expected=0 gpus_lost=0"},
		"nothing expected": {[]report.Event{watched(), device(0, 1, 1, nil)}, nil, "",
			"driver=535.161.08 gpus=1 gpus_lost=0"},
		"the probe knows what is expected": {[]report.Event{watched(), device(0, 1, 1, nil),
			probeOf(report.Probe{State: report.Sampling, Expected: n(2)})}, nil,
			"the count: the node should have 2 GPUs, and the driver counts 1",
			"driver=535.161.08 gpus=1 gpus_expected=2 gpus_lost=0"},
		"the enrolment outranks the probe": {[]report.Event{watched(), device(0, 1, 1, nil),
			probeOf(report.Probe{State: report.Sampling, Expected: n(2)})}, n(1), "",
			"driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},
		"the probe counts": {[]report.Event{watched(), device(0, 1, 1, nil), probeOf(report.Probe{State: report.Sampling,
			Count: n(2)})},
			n(1), "the count: the driver counts 2 GPUs, and 1 were looked at",
			"driver=535.161.08 gpus=2 gpus_expected=1 gpus_lost=0"},
		"the driver counts none any more": {[]report.Event{watched(), device(0, 1, 1, nil),
			probeOf(report.Probe{State: report.Sampling, Count: n(0)})}, n(0),
			"the count: the driver counts 0 GPUs, and reported 1 of them in this boot",
			"driver=535.161.08 gpus=0 gpus_expected=0 gpus_lost=0"},
		"the driver counts none": {[]report.Event{watched(), probeOf(report.Probe{State: report.Sampling, Count: n(0)})},
			n(0),
			"the sample: the driver counts no GPU: there is none, or the device nodes /dev/nvidia* are hidden",
			"gpus=0 gpus_expected=0 gpus_lost=0"},
		"the driver counts one that is not looked at": {[]report.Event{watched(),
			probeOf(report.Probe{State: report.Sampling, Count: n(1)})},
			n(1), "the sample: there is no sample of any GPU; the count: the driver counts 1 GPUs, and 0 were looked at",
			"gpus=1 gpus_expected=1 gpus_lost=0"},
		"stuck": {[]report.Event{watched(), probeOf(report.Probe{State: report.Stuck, Call: "c", Since: &since, Why: "w"})},
			nil,
			"the probe: no GPU can be looked at: the probe is stuck, in c, since 2026-01-01T00:00:03Z: w", "gpus_lost=0"},
		"ended": {[]report.Event{watched(), probeOf(report.Probe{State: report.Ended, Code: 3, Library: report.Loaded})}, nil,
			"the probe: no GPU can be looked at: the probe is ended, return code 3", "gpus_lost=0"},
		"not startable": {[]report.Event{watched(), probeOf(report.Probe{State: report.Unstartable, Why: "w"})}, nil,
			"the probe: no GPU can be looked at: the probe cannot be started: w", "gpus_lost=0"},
		"stuck, and a GPU is reported": {[]report.Event{probeOf(report.Probe{State: report.Stuck}), watched(), device(0, 1,
			1, nil)},
			n(1), "the probe: no GPU can be looked at: the probe is stuck", ""},
		"stuck in an earlier boot": {[]report.Event{earlier(probeOf(report.Probe{State: report.Stuck})), watched(),
			device(0, 1, 1, nil)},
			n(1), "", ""},
		"lost and dropped in an earlier boot": {[]report.Event{earlier(lost(1, 0)), earlier(dropped("xid")), watched(),
			device(0, 1, 1, nil)}, n(1), "", ""},

		"a lost GPU": {[]report.Event{watched(), gpuWith(0,
			func(g *report.GPU) { g.Handle = report.Refused(report.GPUIsLost) })},
			n(1), "GPU 0: a call was answered with GPU_IS_LOST, which outweighs every other answer",
			"driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=1"},
		"no handle": {[]report.Event{watched(), gpuWith(0, func(g *report.GPU) { g.Handle = report.Refused(4) })}, n(1),
			"GPU 0: has no handle: " + report.Explain(4), "driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},
		"no handle, and a reset": {[]report.Event{watched(), gpuWith(0, func(g *report.GPU) {
			g.Handle, g.Signals[report.ResetRequired] = report.Refused(4), report.Flag(true)
		})}, n(1), "GPU 0: has no handle: " + report.Explain(4), "driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},
		"a reset": {[]report.Event{watched(), device(0, 1, 1,
			map[report.Signal]report.Reading{report.ResetRequired: report.Flag(true)})}, n(1),
			"GPU 0: must be reset before it can be used", "driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},
		"no reset": {[]report.Event{watched(), device(0, 1, 1,
			map[report.Signal]report.Reading{report.ResetRequired: report.Flag(false)})}, n(1), "",
			"driver=535.161.08 gpus=1 gpus_expected=1 gpus_lost=0"},

		"the log is blind": {[]report.Event{watched(), device(0, 1, 1, action(0)), blind}, n(1),
			"the kernel log: the kernel log is not watched: closed", ""},
		"it is read again": {[]report.Event{blind, device(0, 1, 1, nil), watched()}, n(1), "", ""},
		"a record is lost": {[]report.Event{lost(1, 0), device(0, 1, 1, nil)}, n(1), "the kernel log: " + records(1,
			0) + ", " + unknown, ""},
		"a gap": {[]report.Event{lost(0, 1), device(0, 1, 1, nil)}, n(1), "the kernel log: " + records(0,
			0) + ", " + unknown, ""},
		"an action asked": {[]report.Event{lost(1, 0), device(0, 1, 1, action(1))}, n(1), "", ""},
		"an action of no meaning": {[]report.Event{lost(1, 0), device(0, 1, 1, action(6))}, n(1), "the kernel log: " +
			records(1, 0) + ", " + unknown, ""},
		"known of the second only": {[]report.Event{lost(1, 0), device(0, 2, 1, nil), device(1, 2, 1, action(0))}, n(2),
			"the kernel log: " + records(1, 0) + ", " + unknown, ""},
		"known of the first only": {[]report.Event{lost(1, 0), device(0, 2, 1, action(0)), device(1, 2, 1, nil)}, n(2),
			"the kernel log: " + records(1, 0) + ", " + unknown, ""},
		"lost, and no GPU": {[]report.Event{lost(1, 0)}, nil,
			"the sample: there is no sample of any GPU; the kernel log: " + records(1, 0) + ", " + unknown, ""},
		"dropped": {[]report.Event{watched(), device(0, 1, 1, nil), dropped("xid", "sxid", "lost", "recovery_action"),
			dropped("xid")},
			n(1), "the kernel log: " + records(0, 10) + ", " + unknown, ""},
		"one dropped": {[]report.Event{watched(), device(0, 1, 1, nil), {Type: report.DroppedEvent,
			Dropped: &report.Dropped{Count: map[report.EventType]int64{report.LostEvent: 1}}}}, n(1),
			"the kernel log: " + records(0, 1) + ", " + unknown, ""},
		"dropped reports": {[]report.Event{watched(), device(0, 1, 1, nil), dropped("device", "probe", "coverage")}, n(1),
			"", ""},
	} {
		f := FactsOf(Evidence{Events: tc.events, Expected: tc.expected})
		if got := floors(f); got != tc.floors {
			t.Errorf("%s: %s\nwant %s", name, got, tc.floors)
		}
		if got := show(f.Node); tc.node != "" && got != tc.node {
			t.Errorf("%s: %s, want %s", name, got, tc.node)
		}
		noted := slices.ContainsFunc(f.Notes, func(s string) bool {
			return strings.Contains(s,
				"the expected number of GPUs")
		})
		if _, known := f.Node["gpus_expected"]; noted == known {
			t.Errorf("%s: %q", name, f.Notes)
		}
	}
}

// TestAgeOfSamples: a sample, and an event about a GPU, is evidence about the present up to an age; if the present is
// not known, at any age.
func TestAgeOfSamples(t *testing.T) {
	of := func(seconds int, whole bool) Evidence {
		e := device(0, 1, 0, nil)
		if !whole {
			return Evidence{Events: []report.Event{watched(), e}, Now: at(seconds)}
		}
		return Evidence{Events: []report.Event{watched()}, Now: at(seconds), Sample: &report.Sample{At: at(0),
			Library: report.Library{State: report.Loaded}, Count: report.ReadingOf(1), GPUs: []report.GPU{e.Device.GPU}}}
	}
	for _, tc := range []struct {
		seconds int
		whole   bool // a whole sample, instead of an event
		want    string
	}{
		{75, true, ""}, {76, true, "GPU 0: was last looked at 1m16s ago"}, {180, false, ""},
		{181, false, "GPU 0: was last looked at 3m1s ago"}, {-60, true, ""}, {-60, false, ""},
	} {
		f := FactsOf(of(tc.seconds, tc.whole))
		judged := 1
		if tc.want != "" {
			judged = 0
		}
		if got := floors(f); got != tc.want || len(f.Observations) != 1+judged || len(f.GPUs) != 1 {
			t.Errorf("%+v: %s, %d observations", tc, got, len(f.Observations))
		}
	}
	for _, whole := range []bool{true, false} {
		e := of(0, whole)
		e.Now = time.Time{}
		if got := floors(FactsOf(e)); got != "" {
			t.Errorf("at no time: %s", got)
		}
	}
}

// TestFactsOfSamples: a sample replaces everything that events said of GPUs and of the probe.
func TestFactsOfSamples(t *testing.T) {
	two := 2
	before := []report.Event{watched(), device(0, 2, 1, nil), device(1, 2, 1, nil),
		probeOf(report.Probe{State: report.Stuck, Count: &two})}
	sample := func(change func(s *report.Sample)) *report.Sample {
		s := &report.Sample{At: at(1), Library: report.Library{State: report.Loaded, Driver: report.Words("550")},
			Count: report.ReadingOf(1), GPUs: []report.GPU{device(3, 1, 1, nil).Device.GPU}}
		change(s)
		return s
	}
	for name, tc := range map[string]struct {
		sample             *report.Sample
		floors, node, note string
	}{
		"a sample": {sample(func(*report.Sample) {}), "", "driver=550 gpus=1 gpus_lost=0", ""},
		"not counted": {sample(func(s *report.Sample) { s.Count, s.GPUs = report.Refused(999), nil }),
			"the sample: the driver did not count its GPUs: " + report.Explain(999) +
				"; the sample: there is no sample of any GPU",
			"driver=550 gpus_lost=0", ""},
		"no driver's version": {sample(func(s *report.Sample) { s.Library.Driver = report.Refused(1) }), "",
			"driver=535.161.08 gpus=1 gpus_lost=0", ""},
		"of others": {sample(func(s *report.Sample) { s.Elsewhere = []string{"A"} }), "", "driver=550 gpus=1 gpus_lost=0",
			"NVIDIA's driver does not have A"},
		"not loaded": {sample(func(s *report.Sample) {
			s.Library, s.Count, s.GPUs = report.Library{State: report.InitFailed, Code: 18}, report.Skipped(report.NoLibrary),
				nil
		}), "the probe: no GPU can be looked at: NVIDIA's library does not start: driver and library are of two versions " +
			"(NVML's return code 18): reboot, or reload the driver",
			"driver=535.161.08 gpus_lost=0", ""},
	} {
		f := FactsOf(Evidence{Events: before, Sample: tc.sample})
		if got := floors(f); got != tc.floors || show(f.Node) != tc.node || len(f.GPUs) != len(tc.sample.GPUs) ||
			!strings.HasPrefix(strings.Join(f.Notes, ""), tc.note+"the expected number") {
			t.Errorf("%s: %s, %s, %q", name, got, show(f.Node), f.Notes)
		}
	}
}

// TestLastReportOfGPU: the newest event about a GPU counts, which is known by its names, or without any by its index.
func TestLastReportOfGPU(t *testing.T) {
	of := func(index int, uuid, pci, name string) report.Event {
		return gpuWith(index, func(g *report.GPU) { g.UUID, g.PCI, g.Name = uuid, pci, name })
	}
	for name, tc := range map[string]struct {
		events []report.Event
		want   string // index and name of each GPU
	}{
		"the same":               {[]report.Event{of(0, "u", "p", "a"), of(0, "u", "p", "b")}, "0b"},
		"the same, renumbered":   {[]report.Event{of(0, "u", "p", "a"), of(1, "u", "p", "b")}, "1b"},
		"in another slot":        {[]report.Event{of(0, "u", "p", "a"), of(0, "u", "q", "b")}, "0a 0b"},
		"another in its slot":    {[]report.Event{of(0, "u", "p", "a"), of(0, "v", "p", "b")}, "0a 0b"},
		"a UUID alone":           {[]report.Event{of(0, "u", "", "a"), of(1, "u", "", "b")}, "1b"},
		"an address alone":       {[]report.Event{of(0, "", "p", "a"), of(1, "", "p", "b")}, "1b"},
		"no name, another index": {[]report.Event{of(0, "", "", "a"), of(1, "", "", "b")}, "0a 1b"},
		"no name, one index":     {[]report.Event{of(0, "", "", "a"), of(1, "", "", "b"), of(1, "", "", "c")}, "0a 1c"},
	} {
		var got []string
		for _, o := range FactsOf(Evidence{Events: tc.events}).Observations {
			if o.Subject.About == AboutGPU {
				got = append(got, fmt.Sprint(*o.Subject.Index, o.Values["name"].Of))
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %s", name, got, tc.want)
		}
	}
}
