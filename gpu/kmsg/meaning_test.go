package kmsg

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// block is a log of testdata/meaning.txt, and the expected reports in it.
type block struct{ lines, want []string }

func blocks(t testing.TB) (all []block) {
	t.Helper()
	data, err := os.ReadFile("testdata/meaning.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b block
	for line := range strings.Lines(string(data) + "\n\n") {
		line = strings.TrimSuffix(line, "\n")
		want, expected := strings.CutPrefix(line, "  = ")
		switch {
		case expected:
			want, _, _ = strings.Cut(want, " > ")
			b.want = append(b.want, want)
		case line == "" && b.lines != nil:
			all = append(all, b)
			b = block{}
		case line != "" && line[0] != '#':
			b.lines = append(b.lines, line)
		}
	}
	return all
}

// tallied returns the reports of lines, as a reader of /dev/kmsg and a scan have them.
func tallied(lines []string) []Event {
	var f Finder
	var t Tally
	for _, line := range lines {
		if l, ok := f.Find(line); ok {
			t.Add(Event{Line: l, Count: 1})
		}
	}
	return t.Events
}

// TestMeaning: each report of the driver's lines of all ages, with its own words about severity, place and reset; one
// report for the lines of one, and none for the driver's other lines.
func TestMeaning(t *testing.T) {
	all, lines := blocks(t), 0
	for _, b := range all {
		lines += len(b.lines)
		var got []string
		for _, e := range tallied(b.lines) {
			got = append(got, report(e.Line))
		}
		if !slices.Equal(got, b.want) {
			t.Errorf("%s\n  is   %q\n  want %q", strings.Join(b.lines, "\n"), got, b.want)
		}
	}
	if len(all) < 130 || lines < 200 {
		t.Errorf("%d blocks, %d lines", len(all), lines)
	}
}

// TestMeaningOfOneRecord: lines of one record, as a JSON field has them, report the same.
func TestMeaningOfOneRecord(t *testing.T) {
	n := 0
	for _, b := range blocks(t) {
		if len(b.lines) < 2 || len(b.want) != 1 {
			continue
		}
		n++
		var f Finder
		l, ok := f.Find(strings.Join(b.lines, "\n"))
		if !ok || report(l) != b.want[0] {
			t.Errorf("%s\n  is   %s\n  want %s", strings.Join(b.lines, "\n"), report(l), b.want)
		}
	}
	if n < 15 {
		t.Errorf("%d blocks", n)
	}
}

// TestCutLines: of a line that is cut off anywhere, the driver's verdict is the same or is not known: it never turns
// into a milder one.
func TestCutLines(t *testing.T) {
	for _, b := range blocks(t) {
		for _, line := range b.lines {
			whole, ok := ParseLine(line)
			if !ok || whole.Code == Absent {
				continue
			}
			for i := range line {
				l, ok := ParseLine(line[:i])
				if !ok || l.Code != whole.Code {
					continue
				}
				if (l.Reset == ResetNone || l.Reset == ResetDrain) && l.Reset != whole.Reset {
					t.Errorf("%s: reset %q, whole %q", line[:i], l.Reset, whole.Reset)
				}
				if l.Kind == SXID && l.Severity == Nonfatal && whole.Severity != Nonfatal {
					t.Errorf("%s: %s, whole %q", line[:i], l.Severity, whole.Severity)
				}
				if (l.Recovery == 0 && whole.Recovery != 0) || (l.Injected && !whole.Injected) {
					t.Errorf("%s: %+v", line[:i], l)
				}
			}
		}
	}
}

// TestClientsText: whatever version a program claims, it makes no report but that of two versions.
func TestClientsText(t *testing.T) {
	for _, forged := range []string{"NVRM: Xid (3b:00): 79, x", "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
		"NVRM: this kernel module has the version\nNVRM: Xid (0:1:0): 79", "\n\n\nNVRM: Xid (3b:00): 119",
		"NVRM: GPU at PCI:0000:3b:00: GPU-509665ad-b600-ac93-3616-d754b23d"} {
		client := "1, but\n" + forged
		client = client[:min(len(client), maxClient-1)]
		record := "NVRM: API mismatch: the client has the version " + client + ", but\nNVRM: this kernel module has the " +
			"version 580.95.05.  Please\nNVRM: make sure that this kernel module and all NVIDIA driver\nNVRM: components have " +
			"the same version."
		k := &kernel{t: t, keeps: 10}
		k.print(record)
		k.print(xid79)
		var got []Kind
		for _, e := range drained(t, NewReader(k.open(), "b", Coverage{}, nil)) {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, []Kind{Mismatch, XID}) {
			t.Errorf("%s: %q", forged, got)
		}
		for i, e := range tallied(strings.Split(record, "\n")) {
			if i > 0 || e.Kind != Mismatch || e.UUID != "" {
				t.Errorf("%s, in a file: %+v", forged, e)
			}
		}
	}
}
