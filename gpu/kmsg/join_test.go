package kmsg

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// faultCase is one case of testdata/faults.txt.
type faultCase struct {
	name  string
	lines []string
	times []time.Duration // 0: none
	want  []string
}

func faultCases(t testing.TB) (all []faultCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		c := faultCase{}
		for line := range strings.Lines(block) {
			line = strings.TrimRight(line, "\n")
			first, rest, _ := strings.Cut(line, " ")
			seconds, err := strconv.ParseFloat(first, 64)
			switch {
			case first == "#":
			case c.name == "":
				c.name = line
			case first == "=":
				c.want = append(c.want, rest)
			case err == nil:
				c.lines = append(c.lines, rest)
				c.times = append(c.times, time.Duration(seconds*1e6)*time.Microsecond)
			default:
				c.lines, c.times = append(c.lines, line), append(c.times, 0)
			}
		}
		if len(c.lines) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// shown returns events as testdata/faults.txt has them.
func shown(events []Event) (all []string) {
	for _, e := range events {
		s := fmt.Sprint(e.Count, " ", e.Kind)
		if e.Code != Absent {
			s += fmt.Sprint(" ", e.Code)
		}
		if e.Device == "" {
			s += " ?"
		} else {
			s += " " + e.Device
		}
		if e.PID != Absent {
			s += fmt.Sprint(" pid=", e.PID)
		}
		if e.Name != "" {
			s += " name=" + e.Name
		}
		switch places := Places(e.Code, e.Text); len(places) {
		case 0:
		case 1:
			s += " at " + places[0]
		default:
			s += fmt.Sprintf(" at %d places", len(places))
		}
		all = append(all, s)
	}
	return all
}

// TestLinesOfOneFault: the lines that the driver prints about one fault are one event, in a file with times, in a file
// without any, and in the kernel log.
func TestLinesOfOneFault(t *testing.T) {
	for _, tc := range faultCases(t) {
		for _, timed := range []bool{true, false} {
			var tally Tally
			var f Finder
			for i, text := range tc.lines {
				l, ok := f.Find(text)
				if !ok {
					t.Fatalf("%s: not found: %s", tc.name, text)
				}
				e := Event{Line: l, Count: 1}
				if timed {
					e.First, e.Last = tc.times[i], tc.times[i]
				}
				tally.Add(e)
			}
			if tc.name == "too late to be of one fault" && !timed {
				continue
			}
			check(t, fmt.Sprintf("%s, with times: %t", tc.name, timed), tally.Events, tc.want)
		}
		k := &kernel{t: t, keeps: 100}
		for i, text := range tc.lines {
			k.raw(fmt.Sprintf("4,%d,%d,-;%s\n", i, tc.times[i].Microseconds(), text))
		}
		check(t, tc.name+", of the kernel", drained(t, NewReader(k.open(), "b", Coverage{}, nil)), tc.want)
	}
}

func check(t *testing.T, name string, events []Event, want []string) {
	t.Helper()
	got := slices.Sorted(slices.Values(shown(events)))
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%s\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTimesOfFaults: an event lasts from the first line of its first fault to the last line of its last.
func TestTimesOfFaults(t *testing.T) {
	var tally Tally
	for i := range 4 {
		at := time.Duration(i+1)*time.Minute + time.Millisecond
		for j, text := range []string{"Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): X",
			"Graphics Exception: ESR 0x1=0x2", "Graphics Exception: channel 0x0000000a, Class 0000cbc0"} {
			l, _ := ParseLine("NVRM: Xid (PCI:0000:01:00): 13, " + text)
			now := at + time.Duration(j)*time.Millisecond
			tally.Add(Event{Line: l, Seq: uint64(3*i + j), First: now, Last: now, Count: 1})
		}
	}
	e := tally.Events[0]
	if len(tally.Events) != 1 || e.Count != 4 || e.Seq != 0 || e.First != time.Minute+time.Millisecond ||
		e.Last != 4*time.Minute+3*time.Millisecond {
		t.Errorf("%+v", tally.Events)
	}
}

// TestFloodOfFaults: whatever is printed, memory is bounded, and every fault is counted once, or as one that did not
// fit.
func TestFloodOfFaults(t *testing.T) {
	const faults = 34_000 // of three lines each
	for name, line := range map[string]func(fault int) string{
		"at one place": func(int) string { return "(GPC 0, TPC 0, SM 0)" },
		"at many":      func(fault int) string { return fmt.Sprintf("(GPC %d, TPC %d, SM 0)", fault%9, fault%600) },
		"in many instances": func(fault int) string {
			return fmt.Sprintf("(GPC 0, TPC %d, SM 0)", fault)
		},
	} {
		var tally Tally
		for i := range faults {
			gpu := i % 16
			for part, text := range []string{"Graphics SM Warp Exception on " + line(i) + ": X",
				"Graphics Exception: ESR 0x1=0x2",
				fmt.Sprintf("pid=%d, name=x, Graphics Exception: channel 0x0000000a, Class 0000cbc0", i%5000)} {
				l, _ := ParseLine(fmt.Sprintf("NVRM: Xid (PCI:0000:%02x:00): 13, %s", gpu, text))
				at := time.Duration(i)*time.Second + time.Duration(part+1)*time.Millisecond
				tally.Add(Event{Line: l, First: at, Last: at, Count: 1})
			}
		}
		n := tally.Unkept
		for _, e := range tally.Events {
			n += e.Count
		}
		if n != faults || len(tally.Events) > maxEvents+maxFolded || len(tally.begun) > maxOpen ||
			len(tally.joiner.open) > maxOpen {
			t.Errorf("%s: %d faults of %d, %d events", name, n, faults, len(tally.Events))
		}
	}
}

// FuzzTally: whatever the order of lines, no line is lost: each is an event, or part of one, and never more events than
// lines. The indexes of the tally stay true.
func FuzzTally(f *testing.F) {
	var lines []string
	for _, c := range faultCases(f) {
		lines = append(lines, c.lines...)
	}
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, order []byte) {
		var tally Tally
		n, last := uint64(0), uint64(0)
		for i, b := range order {
			l, ok := ParseLine(lines[int(b)%len(lines)])
			if !ok {
				t.Fatal(lines[int(b)%len(lines)])
			}
			at := time.Duration(i+1) * time.Millisecond
			tally.Add(Event{Line: l, First: at, Last: at, Count: 1 + uint64(b>>7)})
			n += 1 + uint64(b>>7)
			sum := tally.Unkept
			for _, e := range tally.Events {
				sum += e.Count
			}
			if sum < last || sum > n {
				t.Fatalf("%d events of %d lines, %d before", sum, n, last)
			}
			last = sum
		}
		if len(tally.index)+len(tally.folded) != len(tally.Events) {
			t.Fatalf("%d and %d of %d events", len(tally.index), len(tally.folded), len(tally.Events))
		}
		for l, i := range tally.index {
			if tally.Events[i].Line != l || tally.Events[i].Count == 0 {
				t.Errorf("%+v is counted as %+v", l, tally.Events[i])
			}
		}
	})
}
