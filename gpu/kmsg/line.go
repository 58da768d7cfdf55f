package kmsg

import (
	"strings"
)

// Kind is what a line reports.
type Kind string

// Kinds of lines. All but the first two have no code.
const (
	XID  Kind = "xid"
	SXID Kind = "sxid"
	Lost Kind = "lost" // the GPU has fallen off the bus

	InitFailed    Kind = "init_failed"      // the driver could not initialize the GPU
	ResetRequired Kind = "reset_required"   // the GPU must be reset before it can be used
	Mismatch      Kind = "version_mismatch" // a program's driver library is of another version than the kernel module
)

// Absent stands for a number that a line does not have.
const Absent = -1

// Limits for parts of a line. A process's name has at most 15 bytes in the kernel, 100 in the driver.
const (
	maxText   = 512
	maxName   = 100
	maxUnit   = 32
	maxStatus = 160
	maxCode   = 99_999
	maxLink   = 4_095
)

// Line is the content of one line of the driver. Numbers that it does not have are Absent.
type Line struct {
	Kind   Kind
	Code   int    // Absent for all kinds but XID and SXID
	Device string // PCI address as 0000:3b:00.0; "" if the line has none that can be parsed
	UUID   string // of the GPU, where the driver printed it before: see Finder

	GPUInstance     int // MIG instance
	ComputeInstance int // MIG instance

	PID  int
	Name string // of the process; "" if the driver did not know it
	Text string // behind all that

	Cause    int // the XID that caused this one, according to the driver
	Recovery int // for an XID 154: the driver's number of the requested action
	Verdict

	// Part is true for a line that only adds to a report before it: it is no report of its own.
	Part bool
}

// Essence returns the parts of a line that decide what follows from it, without those that tell one occurrence from
// the next.
func (l *Line) Essence() Line {
	return Line{Kind: l.Kind, Code: l.Code, Device: l.Device, Cause: l.Cause, Recovery: l.Recovery,
		Verdict: Verdict{Severity: l.Severity, Reset: l.Reset, Injected: l.Injected}}
}

// Marks are how lines of NVIDIA's drivers begin that may report something.
var Marks = [...]string{"NVRM:", "nvidia-nvswitch", "nvidia-modeset:", "[drm:nv_drm", "[nvidia-drm]"}

// ParseLine parses one line as the driver printed it, without a prefix: package logfile removes those. The second
// result is false for a line that reports nothing.
func ParseLine(text string) (Line, bool) {
	text = text[:min(len(text), maxRecord)]
	text = strings.TrimLeft(text, " \t")
	if rest, ok := strings.CutPrefix(text, "NVRM:"); ok {
		rest = strings.TrimLeft(rest, " ")
		if args, ok := strings.CutPrefix(rest, "Xid"); ok {
			return parseXID(args)
		}
		if args, ok := strings.CutPrefix(rest, "SXid"); ok {
			return parseSXID(args)
		}
		return parseUncoded(rest)
	}
	if rest, ok := strings.CutPrefix(text, "nvidia-nvswitch"); ok {
		rest = strings.TrimLeft(rest, "0123456789")
		if args, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(rest, ":"), " "), "SXid"); ok {
			return parseSXID(args)
		}
		return Line{}, false
	}
	for _, mark := range Marks[2:] {
		if strings.HasPrefix(text, mark) {
			return parseUncoded(text)
		}
	}
	return Line{}, false
}

// blank returns a line whose numbers are all Absent.
func blank(k Kind) Line {
	return Line{
		Kind: k, Code: Absent, GPUInstance: Absent, ComputeInstance: Absent, PID: Absent, Cause: Absent, Recovery: Absent,
		Verdict: Verdict{Link: Absent},
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
		if n, end := decimal(rest[i+len(caused):]); n > 0 && strings.TrimRight(end, " .\r") == "" {
			l.Cause, rest = n, rest[:i]
		}
	}
	l.Text = cut(strings.TrimRight(rest, " \r"), maxText)
	if l.Code == recoveryCode {
		l.Recovery = recovery(l.Text)
	}
	l.Verdict = VerdictOf(l.Code, l.Text)
	return l, true
}

// head parses "(ADDRESS): CODE," and returns what follows. An address that is missing or cannot be parsed is ignored;
// without a numeric code the line is not a report.
func (l *Line) head(s string) (rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	place := ""
	if inner, found := strings.CutPrefix(s, "("); found {
		if place, s, ok = strings.Cut(inner, ")"); !ok {
			return "", false
		}
	}
	if s, ok = strings.CutPrefix(strings.TrimLeft(s, " "), ":"); !ok {
		return "", false
	}
	l.Code, s = decimal(strings.TrimLeft(s, " "))
	if l.Code < 1 || l.Code > maxCode || (s != "" && !strings.ContainsRune(", \r\t.;:(", rune(s[0]))) {
		return "", false
	}
	l.place(place)
	return strings.TrimLeft(s, ",.;: \t"), true
}

// place parses the text in parentheses: the address, and instances of MIG.
func (l *Line) place(s string) {
	for i, word := range strings.Fields(s) {
		if i == 0 {
			l.Device = address(strings.TrimRight(word, ","))
		} else if v, ok := strings.CutPrefix(word, "GPU-I:"); ok {
			l.GPUInstance = whole(strings.TrimRight(v, ","))
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
