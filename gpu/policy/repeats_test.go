package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// logged returns an event of the kernel log about GPU-0, without its UUID.
func logged(code, seconds, pid int, text string) report.Event {
	e := xidOf(code, seconds, "")
	e.Source, e.GPU = report.FromKernelLog, &report.Identity{PCI: "p0"}
	e.XID.Text, e.XID.Process = text, "x"
	if e.XID.PID = &pid; pid == 0 {
		e.XID.PID, e.XID.Process = nil, ""
	}
	return e
}

// sampledAt returns a sample of GPU-0 at p0.
func sampledAt(seconds int) report.Event {
	e := device(0, 1, seconds, nil)
	e.Device.GPU.PCI = "p0"
	return e
}

// TestOneFindingOfBoth: an XID that the kernel log and NVML report is one finding, with the names of the one and the
// text of the other, its time and its place.
func TestOneFindingOfBoth(t *testing.T) {
	log := logged(31, 7, 560, "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x1")
	log.XID.Times, log.XID.Since = 2, new(at(6))
	for name, events := range map[string][]report.Event{
		"the log first": {watched(), sampledAt(1), log, xidOf(31, 7, "GPU-0"), xidOf(31, 7, "GPU-0")},
		"NVML first":    {watched(), sampledAt(1), xidOf(31, 6, "GPU-0"), xidOf(31, 7, "GPU-0"), log},
	} {
		f := FactsOf(Evidence{Events: events})
		s, v := f.Observations[1].Subject, f.Observations[1].Values
		if len(f.Observations) != 3 || s.What != "xid 31 (2 times)" || s.Event != 3 || s.UUID != "GPU-0" || *s.Index != 0 ||
			!slices.Equal(s.Sources, []report.Source{report.FromKernelLog, report.FromNVML}) || !s.At.Equal(at(7)) ||
			!s.Since.Equal(at(6)) || s.Place != "GPC 1, GPCCLIENT_T1_8" {
			t.Errorf("%s: %+v", name, f.Observations)
		}
		for field, want := range map[string]any{"pid": int64(560), "process": "x", "uuid": "GPU-0", "place": s.Place,
			"places": int64(1), "times_at_place": int64(2), "processes_at_place": int64(1), "source": "kernel_log"} {
			if v[field].Of != want {
				t.Errorf("%s: %s is %v, want %v", name, field, v[field].Of, want)
			}
		}
	}
}

// TestRepeats: one place and several processes point to the hardware, several places or one process to the program.
// Nothing is said of an error whose place is not always named.
func TestRepeats(t *testing.T) {
	at := func(seconds, pid, sm int) report.Event {
		return logged(13, seconds, pid, fmt.Sprintf("Graphics SM Warp Exception on (GPC 1, TPC 4, SM %d): X", sm))
	}
	folded := at(30, 3, 0)
	folded.XID.Times, folded.XID.Folded = 9, true
	instance := at(60, 3, 0)
	instance.GPU.GPUInstance = new(1)
	for name, tc := range map[string]struct {
		events []report.Event
		note   string
	}{
		"once": {[]report.Event{at(10, 1, 0)}, ""},
		"twice": {[]report.Event{at(10, 1, 0), at(20, 2, 0)},
			"XID 13 came 2 times, each at GPC 1, TPC 4, SM 0, by 2 processes"},
		"one place": {[]report.Event{at(10, 1, 0), at(20, 2, 0), at(30, 3, 0)},
			"3 times, each at GPC 1, TPC 4, SM 0, by 3 processes: suspect the hardware"},
		"one process": {[]report.Event{at(10, 1, 0), at(20, 1, 0), at(30, 1, 0)},
			"each at GPC 1, TPC 4, SM 0, by one process: suspect the program"},
		"no process": {[]report.Event{at(10, 0, 0), at(20, 0, 0), at(30, 0, 0)},
			"3 times, each at GPC 1, TPC 4, SM 0"},
		"several places": {[]report.Event{at(10, 1, 0), at(20, 2, 1), at(30, 3, 2)},
			"3 times, at different places, by 3 processes: suspect the program"},
		"no place once":    {[]report.Event{at(10, 1, 0), at(20, 2, 0), logged(13, 30, 3, "Graphics Exception")}, ""},
		"others elsewhere": {[]report.Event{at(10, 1, 0), at(20, 2, 0), folded}, ""},
		"of an instance":   {[]report.Event{at(10, 1, 0), instance}, ""},
	} {
		f := FactsOf(Evidence{Events: append([]report.Event{watched(), sampledAt(1)}, tc.events...), Expected: new(1)})
		if got := strings.Join(f.Notes, "; "); !strings.HasSuffix(got, tc.note) || (tc.note == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.note)
		}
	}
}

// TestManyPlaces: places and processes are bounded, and then no place is said to be the only one.
func TestManyPlaces(t *testing.T) {
	events := []report.Event{watched(), sampledAt(1)}
	for i := range 500 {
		events = append(events, logged(13, 5*i, i+1, fmt.Sprintf(
			"Graphics SM Warp Exception on (GPC 0, TPC %d, SM 0): X", i)))
	}
	f := FactsOf(Evidence{Events: events, Expected: new(1)})
	if got := strings.Join(f.Notes, "; "); got != "p0: XID 13 came 500 times, at different places, by 64 processes: "+
		"suspect the program" {
		t.Error(got)
	}
}

// TestReplaced: what a GPU has reported is over when another one is in its place. Without the name of the first nothing
// is known of it.
func TestReplaced(t *testing.T) {
	fatal := func(uuid, pci string) report.Event {
		e := xidOf(79, 10, uuid)
		e.GPU.PCI = pci
		return e
	}
	lost := sampledAt(20)
	lost.Device.GPU.Signals[report.Power] = report.Refused(report.GPUIsLost)
	for name, tc := range map[string]struct {
		events []report.Event
		past   string
	}{
		"another one": {[]report.Event{fatal("GPU-old", "p0"), sampledAt(20)},
			"replaced: GPU-old is no longer at p0, where GPU-0 is"},
		"the same":          {[]report.Event{fatal("GPU-0", "p0"), sampledAt(20)}, ""},
		"not named":         {[]report.Event{fatal("", "p0"), sampledAt(20)}, ""},
		"at another place":  {[]report.Event{fatal("GPU-old", "p9"), sampledAt(20)}, ""},
		"sampled before":    {[]report.Event{sampledAt(5), fatal("GPU-old", "p0")}, ""},
		"which is lost too": {[]report.Event{fatal("GPU-old", "p0"), lost}, ""},
	} {
		f := FactsOf(Evidence{Events: append([]report.Event{watched()}, tc.events...)})
		if got := pastOf(f); !strings.HasPrefix(got, tc.past) || (tc.past == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.past)
		}
	}
}

func pastOf(f Facts) (words string) {
	for _, p := range f.Past {
		words += p.Why
		if p.Subject.At == nil {
			words += " without a time"
		}
	}
	return words
}

// TestLastOfSeveral: of equal errors that were counted together the last one decides whether a reset came after it.
func TestLastOfSeveral(t *testing.T) {
	failed := xidOf(119, 5, "a")
	failed.XID.Times, failed.XID.Since = 4, new(at(1))
	for seconds, past := range map[int]int{3: 0, 7: 1} {
		f := FactsOf(Evidence{Events: []report.Event{failed, recoveryOf(0, seconds, "a")}})
		if len(f.Past) != past {
			t.Errorf("a reset after %d s: %+v", seconds, f.Past)
		}
	}
}
