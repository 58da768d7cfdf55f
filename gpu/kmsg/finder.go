package kmsg

import "strings"

// Finder finds the driver's reports in consecutive lines: the driver prints some of them over several lines. Its zero
// value is ready to use.
type Finder struct {
	device string // of a report that has begun, and does not yet say what it reports
	left   int    // number of further lines of the driver within which it must end
	recent [8]past
	uuids  map[string]string // by PCI address
	client int               // bytes that are still a program's own, see skip
}

// past is what an earlier line of the driver was about.
type past struct {
	kind   Kind // "" if it reported nothing
	code   int
	device string
	rated  bool // it has a severity
}

// Limits of what a Finder remembers.
const (
	reportLines = 4 // lines of the driver that one report spans, including lines about other GPUs
	maxUUIDs    = 64
	// maxClient is how many bytes a program passes to the driver as its version, which the driver prints.
	maxClient = 64
)

// Find parses one line as the driver printed it. Of a record of several lines, it returns the first report.
func (f *Finder) Find(text string) (first Line, found bool) {
	text = text[:min(len(text), maxRecord)]
	line, rest, more := strings.Cut(text, "\n")
	first, found = f.find(line)
	for more {
		line, rest, more = strings.Cut(rest, "\n")
		if l, ok := f.find(line); ok && !found {
			first, found = l, true
		}
		if !more {
			f.client = 0
		}
	}
	return first, found
}

func (f *Finder) find(text string) (Line, bool) {
	if f.skip(text) {
		return Line{}, false
	}
	l, ok := ParseLine(text)
	rest, driver := strings.CutPrefix(strings.TrimLeft(text, " \t"), "NVRM:")
	rest = strings.TrimSpace(rest)
	if !ok && !driver {
		return Line{}, false
	}
	p := past{code: Absent}
	if driver && (!ok || l.Device == "") && f.spread(rest, &l, ok) {
		p.kind = InitFailed
	}
	if ok {
		f.complete(&l)
		p = past{l.Kind, l.Code, l.Device, l.Severity != ""}
	} else {
		p.device = deviceIn(rest)
		f.name(rest)
	}
	copy(f.recent[1:], f.recent[:])
	f.recent[0] = p
	return l, ok
}

// skip reports whether a line belongs to the text that a program gave the driver as its version. The driver prints it
// behind "API mismatch: the client has the version", newlines and all, so that any program that may open the driver
// could write a line of its own choice to the kernel log.
func (f *Finder) skip(text string) bool {
	if f.client > 0 {
		f.client -= len(text) + 1
		return true
	}
	const before = "NVRM: " + mismatch + ": the client has the version "
	if v, ok := strings.CutPrefix(text, before); ok {
		f.client = max(maxClient-len(v)-1, 0)
	}
	return false
}

// spread follows a report that the driver spreads over lines: "The NVIDIA GPU 0000:b3:00.0", then "(PCI ID: 10de:26b5)
// installed in this system has", then "fallen off the bus and is not responding to commands.". It reports whether this
// one is of an old GPU that the driver leaves alone: what it counts afterwards is about that.
func (f *Finder) spread(rest string, l *Line, ok bool) (ignored bool) {
	if v, begins := strings.CutPrefix(rest, "The NVIDIA GPU "); begins {
		place, _, _ := strings.Cut(v, " ")
		f.device, f.left = address(place), reportLines
	}
	if f.left == 0 {
		return false
	}
	f.left--
	switch {
	case ok && l.Code == Absent && !l.Part:
		l.Device, f.left = f.device, 0
		if l.Kind == Lost {
			l.Text = "GPU has fallen off the bus and is not responding to commands"
		}
	case strings.Contains(rest, "is not supported by"), strings.Contains(rest, "will ignore this GPU"):
		f.left = 0
		return true
	}
	return false
}

// complete adds what earlier lines of the driver have about the same report.
func (f *Finder) complete(l *Line) {
	if l.Device == "" && l.Kind != XID && l.Kind != SXID && l.Kind != Mismatch {
		l.Device = f.near()
	}
	switch {
	case l.Kind == Lost:
		l.Part = f.had(func(p *past) bool {
			return (p.kind == Lost || (p.kind == XID && p.code == lostCode)) && p.device == l.Device
		})
	case l.Part: // of a failed initialization
		l.Part = f.had(func(p *past) bool {
			lost := p.kind == Lost || (p.kind == XID && p.code == lostCode)
			return (p.kind == InitFailed || lost) && (l.Device == "" || p.device == "" || p.device == l.Device)
		})
	case l.continues():
		l.Part = f.had(func(p *past) bool {
			return p.kind == SXID && p.rated && p.code == l.Code && p.device == l.Device
		})
	}
	if l.Device != "" && l.Kind != SXID {
		l.UUID = f.uuids[l.Device]
	}
}

// had reports whether one of the driver's last lines was such.
func (f *Finder) had(such func(*past) bool) bool {
	for i := range f.recent {
		if such(&f.recent[i]) {
			return true
		}
	}
	return false
}

// near returns the only GPU that the driver's last lines name; "" if they name none or several.
func (f *Finder) near() (device string) {
	for _, p := range f.recent[:reportLines] {
		switch {
		case p.device == "" || p.device == device || p.kind == SXID:
		case device != "":
			return ""
		default:
			device = p.device
		}
	}
	return device
}

// name stores the UUID that a line names.
func (f *Finder) name(rest string) {
	device, uuid := uuidIn(rest)
	if device == "" || (len(f.uuids) >= maxUUIDs && f.uuids[device] == "") {
		return
	}
	if f.uuids == nil {
		f.uuids = map[string]string{}
	}
	f.uuids[device] = uuid
}
