package kmsg

import (
	"strings"
)

// Kind is what a line reports.
type Kind string

// Kinds of lines.
const (
	XID  Kind = "xid"
	SXID Kind = "sxid"
	Lost Kind = "lost" // the GPU has fallen off the bus, and the line has no code
)

// Absent stands for a number that a line does not have.
const Absent = -1

// Limits for parts of a line. A process's name has at most 15 bytes in the kernel, 100 in the driver.
const (
	maxText = 512
	maxName = 100
	maxCode = 99_999
)

// Line is the content of one line of the driver. Numbers that it does not have are Absent.
type Line struct {
	Kind   Kind
	Code   int    // Absent for Lost
	Device string // PCI address as 0000:3b:00.0; "" if the line has none that can be parsed

	GPUInstance     int // MIG instance
	ComputeInstance int // MIG instance

	PID  int
	Name string // of the process; "" if the driver did not know it
	Text string // behind all that

	Cause    int    // the XID that caused this one, according to the driver
	Recovery int    // for an XID 154: the driver's number of the requested action
	Severity string // for an SXID: "Fatal" or "Non-fatal"; "" if the line has none
	Port     int    // for an SXID: the link of the switch
}

// ParseLine parses one line as the driver printed it, without a prefix; see Finder.FindInLog. The second result is
// false for a line that reports neither an XID nor an SXID nor a lost GPU.
func ParseLine(text string) (Line, bool) {
	text = text[:min(len(text), maxRecord)]
	text = strings.TrimLeft(text, " \t")
	if rest, ok := strings.CutPrefix(text, "NVRM:"); ok {
		rest = strings.TrimLeft(rest, " ")
		if args, ok := strings.CutPrefix(rest, "Xid"); ok {
			return parseXID(args)
		}
		return parseLost(rest)
	}
	if rest, ok := strings.CutPrefix(text, "nvidia-nvswitch"); ok {
		rest = strings.TrimLeft(rest, "0123456789")
		if args, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(rest, ":"), " "), "SXid"); ok {
			return parseSXID(args)
		}
	}
	return Line{}, false
}

// blank returns a line whose numbers are all Absent.
func blank(k Kind) Line {
	return Line{
		Kind: k, Code: Absent, GPUInstance: Absent, ComputeInstance: Absent, PID: Absent, Cause: Absent, Recovery: Absent,
		Port: Absent,
	}
}

// parseXID parses what follows "NVRM: Xid": " (PCI:0000:3b:00 GPU-I:05 GPU-CI:01): 31, pid=7, name=python3, text".
func parseXID(s string) (Line, bool) {
	l := blank(XID)
	rest, ok := l.head(s)
	if !ok {
		return Line{}, false
	}
	rest = l.process(rest)
	const caused = " caused by previous Xid "
	if i := strings.LastIndex(rest, caused); i >= 0 {
		if n, end := decimal(rest[i+len(caused):]); n > 0 && strings.TrimRight(end, " .") == "" {
			l.Cause, rest = n, rest[:i]
		}
	}
	l.Text = cut(strings.TrimRight(rest, " \r"), maxText)
	if l.Code == 154 {
		l.Recovery = recovery(l.Text)
	}
	return l, true
}

// parseSXID parses what follows "nvidia-nvswitch0: SXid": " (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up".
func parseSXID(s string) (Line, bool) {
	l := blank(SXID)
	rest, ok := l.head(s)
	if !ok {
		return Line{}, false
	}
	for _, word := range [...]string{"Fatal", "Non-fatal"} {
		after, ok := strings.CutPrefix(rest, word)
		if ok && (after == "" || after[0] == ',' || after[0] == ' ') {
			l.Severity, rest = word, strings.TrimLeft(after, ", ")
			break
		}
	}
	if after, ok := strings.CutPrefix(rest, "Link "); ok {
		if n, _ := decimal(after); n >= 0 {
			l.Port = n
		}
	}
	l.Text = cut(strings.TrimRight(rest, " \r"), maxText)
	return l, true
}

// head parses "(ADDRESS): CODE," and returns what follows. An address that cannot be parsed is ignored; without a
// numeric code the line is not a report.
func (l *Line) head(s string) (rest string, ok bool) {
	s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), "(")
	if !ok {
		return "", false
	}
	place, s, ok := strings.Cut(s, ")")
	if !ok {
		return "", false
	}
	if s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), ":"); !ok {
		return "", false
	}
	l.Code, s = decimal(strings.TrimLeft(s, " "))
	if l.Code < 1 || l.Code > maxCode || (s != "" && s[0] != ',' && s[0] != ' ' && s[0] != '\r') {
		return "", false
	}
	l.place(place)
	return strings.TrimLeft(s, ", "), true
}

// place parses the text in parentheses: the address, and instances of MIG.
func (l *Line) place(s string) {
	for i, word := range strings.Fields(s) {
		if i == 0 {
			l.Device = address(word)
		} else if v, ok := strings.CutPrefix(word, "GPU-I:"); ok {
			l.GPUInstance = whole(v)
		} else if v, ok := strings.CutPrefix(word, "GPU-CI:"); ok {
			l.ComputeInstance = whole(v)
		}
	}
}

// process parses "pid=P, " and "name=N, ", and returns what follows. Each may be missing or unknown. A name may contain
// anything but ", ", which ends it.
func (l *Line) process(s string) string {
	if v, ok := strings.CutPrefix(s, "pid="); ok {
		pid, rest, _ := strings.Cut(v, ",")
		l.PID = whole(strings.Trim(strings.TrimSpace(pid), "'"))
		s = strings.TrimLeft(rest, " ")
	}
	if v, ok := strings.CutPrefix(s, "name="); ok {
		name, rest, _ := strings.Cut(v, ", ")
		name = strings.TrimRight(name, " \r,")
		if n := strings.Trim(name, "'"); n != "<unknown>" {
			l.Name = cut(name, maxName)
		}
		s = strings.TrimLeft(rest, " ")
	}
	return s
}

// recovery parses the action that the driver now requests from the text of an XID 154: "... changed from 0x0 (None) to
// 0x2 (Node Reboot Required)".
func recovery(text string) int {
	_, after, ok := strings.Cut(text, "ecovery action changed from ")
	if ok {
		_, after, ok = strings.Cut(after, " to 0x")
	}
	if !ok {
		return Absent
	}
	n, digits := 0, 0
	for digits < len(after) && digits < 7 && hex(after[digits]) >= 0 {
		n = n<<4 | hex(after[digits])
		digits++
	}
	if digits == 0 || digits == 7 {
		return Absent
	}
	return n
}

// parseLost parses the single line "GPU 0000:91:00.0: GPU has fallen off the bus.".
func parseLost(s string) (Line, bool) {
	v, ok := strings.CutPrefix(s, "GPU ")
	if !ok {
		return Line{}, false
	}
	place, rest, ok := strings.Cut(v, " ")
	if !ok || !strings.HasPrefix(strings.TrimLeft(rest, " "), "GPU has fallen off the bus") {
		return Line{}, false
	}
	l := blank(Lost)
	l.Device, l.Text = address(strings.TrimSuffix(place, ":")), cut(strings.TrimSpace(rest), maxText)
	return l, l.Device != ""
}
