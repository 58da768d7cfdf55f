package kmsg

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// report formats a Line as in the table below: kind, code, device, then the other parts.
func report(l Line) string {
	s := []string{string(l.Kind), "?", l.Device}
	if l.Code != Absent {
		s[1] = strconv.Itoa(l.Code)
	}
	if s[2] == "" {
		s[2] = "?"
	}
	for _, n := range []struct {
		label string
		n     int
	}{
		{"gi", l.GPUInstance}, {"ci", l.ComputeInstance}, {"pid", l.PID}, {"cause", l.Cause}, {"recovery", l.Recovery},
		{"link", l.Link},
	} {
		if n.n != Absent {
			s = append(s, n.label+"="+strconv.Itoa(n.n))
		}
	}
	for _, word := range [...]string{l.Severity, l.Unit, l.Reset} {
		if word != "" {
			s = append(s, word)
		}
	}
	if l.Status != "" {
		s = append(s, "status="+strings.ReplaceAll(l.Status, " ", ","))
	}
	for word, is := range map[string]bool{"injected": l.Injected, "part": l.Part} {
		if is {
			s = append(s, word)
		}
	}
	if l.UUID != "" {
		s = append(s, l.UUID)
	}
	if l.Name != "" {
		s = append(s, "name="+l.Name)
	}
	return strings.Join(s, " ")
}

// none stands for a line that reports nothing.
const none = "no XID"

// shape is a line of testdata/lines.txt or public.txt, the expected report, and the expected rest of the text, if the
// file has it.
type shape struct{ line, want, text string }

func shapes(t testing.TB) (all []shape) {
	t.Helper()
	for _, file := range [...]string{"lines", "public"} {
		data, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		line, n := "", len(all)
		for text := range strings.Lines(string(data)) {
			text = strings.TrimSuffix(text, "\n")
			switch want, ok := strings.CutPrefix(text, "  = "); {
			case text == "" || text[0] == '#':
			case ok:
				want, rest, _ := strings.Cut(want, " | ")
				all = append(all, shape{line, want, rest})
			default:
				line = text
			}
		}
		if len(all)-n < 90 {
			t.Fatalf("%s: %d shapes", file, len(all)-n)
		}
	}
	return append(all, shape{"NVRM: Xid (PCI:0000:3b:00): 79, x\r", "xid 79 0000:3b:00.0", "x"}, shape{"", none, ""})
}

// text returns the driver's text in a line of a log, as package logfile does for logs of all kinds.
func text(line string) string {
	for _, mark := range Marks {
		if i := strings.Index(line, mark); i >= 0 {
			return strings.ReplaceAll(line[i:], "#012", "\n")
		}
	}
	return line
}

// TestLines: code, address, instances of MIG, process, root cause and text of each shape; no XID in other lines.
func TestLines(t *testing.T) {
	for _, tc := range shapes(t) {
		var f Finder
		got, l := none, Line{}
		if found, ok := f.Find(text(tc.line)); ok {
			got, l = report(found), found
		}
		if got != tc.want || (tc.text != "" && l.Text != tc.text) {
			t.Errorf("%s\n  is   %s | %s\n  want %s | %s", tc.line, got, l.Text, tc.want, tc.text)
		}
	}
}

// TestLostOverLines: a lost GPU without an XID is found however its report is split into lines of a log. A driver's
// refusal of a GPU begins with the same words.
func TestLostOverLines(t *testing.T) {
	const indent = "               "
	for name, tc := range map[string]struct {
		log, want string
	}{
		"three lines (NVIDIA/NVSentinel#155)": {"[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n" +
			indent + "NVRM: (PCI ID: 10de:26b5) installed in this system has\n" +
			indent + "NVRM: fallen off the bus and is not responding to commands.", "lost ? 0000:b3:00.0"},
		"two lines": {"NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1e07) installed in this\n" +
			"NVRM: system has fallen off the bus and is not responding to commands.", "lost ? 0000:01:00.0"},
		"one line": {"NVRM: The NVIDIA GPU 0000:05:00.0 installed in this system has fallen off the bus and is not " +
			"responding to commands.", "lost ? 0000:05:00.0"},
		"one record, as rsyslog writes it": {"Nov 23 12:00:00 n kernel: NVRM: The NVIDIA GPU 0000:b3:00.0#012NVRM: " +
			"(PCI ID: 10de:26b5) installed in this system has#012" +
			"NVRM: fallen off the bus and is not responding to commands.#012", "lost ? 0000:b3:00.0"},
		"another reason (NVIDIA/open-gpu-kernel-modules#1027)": {"May 11 19:25:29 homecomp kernel: NVRM: The NVIDIA GPU " +
			"0000:01:00.0 (PCI ID: 10de:2b85)\n" + indent +
			"NVRM: installed in this system requires use of the NVIDIA open kernel modules.", "init_failed ? 0000:01:00.0"},
	} {
		var f Finder
		got := none
		for line := range strings.SplitSeq(tc.log, "\n") {
			if l, ok := f.Find(text(line)); ok {
				got = report(l)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestKernelLinesHaveNoPrefix: in a record of the kernel, text that looks like a prefix belongs to another line.
func TestKernelLinesHaveNoPrefix(t *testing.T) {
	for _, text := range []string{"x] NVRM: Xid (PCI:0000:3b:00): 79, x", "kernel: NVRM: Xid (PCI:0000:3b:00): 79, x"} {
		if l, ok := ParseLine(text); ok {
			t.Errorf("%s: %+v", text, l)
		}
	}
}

// TestLinesAreBounded: every part of a line that is stored has a limit.
func TestLinesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	l, ok := ParseLine("NVRM: Xid (PCI:0000:3b:00): 31, pid=5, name=" + long[:200] + ", " + long)
	fits := len(l.Name) <= maxName && len(l.Text) <= maxText
	if !ok || !fits || !strings.HasPrefix(long, l.Name) || !strings.HasPrefix(long, l.Text) {
		t.Errorf("name %d, text %d bytes", len(l.Name), len(l.Text))
	}
}

// FuzzLine: whatever a line contains, its parts are bounded and in range, and parsing it twice gives the same result.
func FuzzLine(f *testing.F) {
	for _, tc := range shapes(f) {
		f.Add(tc.line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var one, two Finder
		l, ok := one.Find(text(line))
		if again, same := two.Find(text(line)); again != l || same != ok {
			t.Fatalf("%+v, then %+v", l, again)
		}
		if !ok {
			return
		}
		if coded := l.Kind == XID || l.Kind == SXID; coded != (l.Code != Absent) ||
			(coded && (l.Code < 1 || l.Code > maxCode)) {
			t.Errorf("code %d", l.Code)
		}
		if len(l.Text) > maxText || len(l.Name) > maxName || len(l.Device) > len("00000000:00:00.0") ||
			len(l.Unit) > maxUnit || len(l.Status) > maxStatus {
			t.Errorf("not bounded: %+v", l)
		}
		for _, n := range []int{l.GPUInstance, l.ComputeInstance, l.PID, l.Cause, l.Recovery, l.Link} {
			if n < Absent {
				t.Errorf("a number below absent: %+v", l)
			}
		}
	})
}

// parsed parses a complete record.
func parsed(raw []byte) (Record, error) {
	r, body, err := parseHead(raw)
	if err == nil {
		r.read(body)
	}
	return r, err
}

// FuzzRecord: no input makes a parser or a reader fail, and parsed text has no control characters but newline and tab.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("4,1234,5678901,-,caller=T1946;NVRM: Xid (PCI:0000:3b:00): 79, x\\x0a\n SUBSYSTEM=pci\n DEVICE=+pci:0\n"))
	f.Add([]byte("4,1234,5678901,c;\\x1b[31m\\xzz\\x\\"))
	f.Add([]byte("6,0,0,-,x,y=z;\xff\xfe\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parsed(raw)
		if err == nil {
			for _, c := range r.Text + r.Caller + r.Device + r.Subsystem {
				if (c < ' ' && c != '\n' && c != '\t') || c == 0x7f || (c >= 0x80 && c < 0xa0) {
					t.Errorf("%q has %q", r.Text, c)
				}
			}
			if r.Level > 7 || r.At < 0 {
				t.Errorf("%+v", r)
			}
		}
		k := &kernel{t: t, keeps: 10}
		k.print("first")
		if len(raw) > 0 { // the kernel never returns an empty record
			k.raw(string(raw))
		}
		k.print(xid79)
		reader := NewReader(k.open(), "b", Coverage{}, nil)
		if b, err := reader.Drain(0); err != nil || !b.CaughtUp {
			t.Fatalf("%+v, %v", b, err)
		}
	})
}

// TestRecord: the parts of a record, and the kernel's escapes.
func TestRecord(t *testing.T) {
	const body = "a\\x5cb\\x0ac\\xc3\\xa4 \\x1b[0m\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
	r, err := parsed([]byte("12,7,1500000,c,caller=C3,future=1;" + body))
	want := Record{Facility: 1, Level: 4, Seq: 7, At: 1500000000, Fragment: 'c', Caller: "C3", Text: "a\\b\ncä \ufffd[0m",
		Subsystem: "pci", Device: "+pci:0000:3b:00.0"}
	if err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
}
