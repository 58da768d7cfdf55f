package kmsg

import (
	"slices"
	"strings"
	"time"
)

// Limits within which lines are of one fault. The driver prints them within milliseconds; where times have whole
// seconds, two lines may be in two of them; where there are none, only few reports may be in between.
const (
	joinFine    = 100 * time.Millisecond
	joinCoarse  = time.Second
	joinReports = 16
)

// Bounds of what a Joiner remembers.
const (
	maxOpen      = 32
	maxPieces    = 64
	maxPlaceText = 384 // bytes of the texts before the last one, which has the channel
)

// Joiner finds the lines that the driver prints about one fault: of an XID 13 where it was, then registers, then the
// process and its channel. Time alone joins nothing: a line continues a fault of the same device and code that lacks a
// line of its role, and whose process and place it does not contradict. Its zero value is ready to use.
type Joiner struct {
	open  []fault // oldest first
	lines int     // number of lines so far
	id    int
}

// fault is a fault that further lines may continue.
type fault struct {
	id     int
	line   Line
	pieces []piece
	at     time.Duration // of its last line
	lines  int           // number of lines when that came
	closed bool          // its last line has come
}

// role is what a line adds to a fault.
type role uint8

const (
	alone   role = iota // a fault of its own
	cause               // what happened, and where
	state               // registers
	process             // process and channel, which ends the fault
	channel             // one of several lines about the same channel, which the first one ends
)

// piece is the part of a fault that one line has.
type piece struct {
	role role
	text string
}

// Add returns the fault that a line belongs to: its number, 0 if no other line can be about it, and its content so far.
// more reports whether an earlier line was about it. at is a time on any clock, 0 if unknown.
func (j *Joiner) Add(l Line, at time.Duration) (id int, whole Line, more bool) {
	j.lines++
	pieces := piecesOf(&l)
	for i := range j.open {
		f := &j.open[i]
		if !j.near(f, at) || !f.fits(&l, pieces[0]) {
			continue
		}
		f.absorb(&l, pieces)
		f.at, f.lines = at, j.lines
		return f.id, f.line, true
	}
	if pieces[0].role == alone {
		return 0, l, false
	}
	j.id++
	if len(j.open) == maxOpen {
		j.open = slices.Delete(j.open, 0, 1)
	}
	f := fault{id: j.id, line: l, at: at, lines: j.lines}
	f.absorb(&l, pieces)
	f.line.Text = l.Text
	j.open = append(j.open, f)
	return f.id, f.line, false
}

// near reports whether a line may be one of f's by its time.
func (j *Joiner) near(f *fault, at time.Duration) bool {
	if at == 0 || f.at == 0 {
		return j.lines-f.lines <= joinReports
	}
	limit := joinFine
	if at%time.Second == 0 && f.at%time.Second == 0 {
		limit = joinCoarse
	}
	return (at - f.at).Abs() <= limit
}

// piecesOf returns the pieces of a line; a line that was joined before has several.
func piecesOf(l *Line) (all []piece) {
	if l.Kind == Lost {
		return []piece{{state, l.Text}}
	}
	for text := range strings.SplitSeq(l.Text, separator) {
		r := roleOf(l, text)
		if r == alone {
			return []piece{{alone, l.Text}}
		}
		all = append(all, piece{r, text})
	}
	return all
}

// roleOf returns what a text adds to the faults with the line's code.
func roleOf(l *Line, text string) role {
	switch {
	case l.Kind == SXID:
		return switchRole(l, text)
	case l.Code == 13:
		return graphicsRole(text)
	case l.Code == 31 || l.Code == 32:
		if l.PID != Absent && channelIn(text) != "" {
			return channel
		}
	case l.Code == fallenOff:
		return cause
	}
	return alone
}

// fallenOff is the XID of a GPU that has fallen off the bus, which the driver also reports without a code.
const fallenOff = 79

func graphicsRole(text string) role {
	rest, ok := strings.CutPrefix(text, "Graphics ")
	after, plain := strings.CutPrefix(rest, "Exception: ")
	switch {
	case !ok || rest == "" || rest == "Exception":
		return alone
	case plain && strings.HasPrefix(after, "ESR "):
		return state
	case plain && channelIn(after) != "":
		return process
	}
	return cause
}

// switchRole is the role of "Fatal, Link 30 sourcetrack timeout error", "Severity 5 Engine instance 30 ..." and
// "Data {0x00000001, ...}".
func switchRole(l *Line, text string) role {
	switch {
	case l.Severity == "" && strings.HasPrefix(text, "Severity "):
		return state
	case l.Severity == "" && strings.HasPrefix(text, "Data {"):
		return process
	}
	return cause
}

// channelIn returns the channel with which a text begins: "Ch 00000008", "channel 0x0000000a", "ChID 0014".
func channelIn(text string) string {
	for _, word := range [...]string{"channel ", "Ch ", "ChID ", "Channel ID "} {
		if v, ok := strings.CutPrefix(text, word); ok {
			digits, _, _ := strings.Cut(v, ",")
			digits, _, _ = strings.Cut(digits, " ")
			return hexes(strings.TrimPrefix(digits, "0x"), 8)
		}
	}
	return ""
}

// fits reports whether a line that begins with p continues the fault.
func (f *fault) fits(l *Line, p piece) bool {
	a, b := &f.line, l
	if p.role == alone || a.Device != b.Device || a.Device == "" || a.GPUInstance != b.GPUInstance ||
		a.ComputeInstance != b.ComputeInstance {
		return false
	}
	if a.Kind != b.Kind || a.Code != b.Code {
		return f.fell() && (b.Kind == Lost || b.Code == fallenOff) && a.Kind != b.Kind && b.Kind != SXID && !f.has(p.role)
	}
	if f.closed || contradicts(a.PID, b.PID) || (a.Name != "" && b.Name != "" && a.Name != b.Name) ||
		contradicts(a.Cause, b.Cause) {
		return false
	}
	switch {
	case a.Kind == SXID:
		return !f.has(p.role)
	case a.Code == fallenOff || a.Kind == Lost:
		return false
	case p.role == state:
		last := f.pieces[len(f.pieces)-1]
		return last.role == cause
	case p.role == channel:
		return channelIn(f.pieces[0].text) == channelIn(p.text) && !slices.Contains(f.pieces, p)
	case p.role == cause:
		return len(f.pieces) < maxPieces && !slices.ContainsFunc(f.pieces, func(had piece) bool {
			return had.role == cause && sameOccurrence(had.text, p.text)
		})
	}
	return true // the process
}

// sameOccurrence reports whether both texts report the same kind of exception at the same place: then they are of two
// faults.
func sameOccurrence(a, b string) bool {
	kind := func(s string) string {
		head, _, _ := strings.Cut(s, " on ")
		return head
	}
	return a == b || (kind(a) == kind(b) && clusterPlace(a) == clusterPlace(b))
}

func (f *fault) fell() bool { return f.line.Kind == Lost || f.line.Code == fallenOff }

func (f *fault) has(r role) bool {
	return slices.ContainsFunc(f.pieces, func(p piece) bool { return p.role == r })
}

func contradicts(a, b int) bool { return a != Absent && b != Absent && a != b }

// absorb adds a line to the fault.
func (f *fault) absorb(l *Line, pieces []piece) {
	for _, p := range pieces {
		f.pieces = append(f.pieces, p)
		f.closed = f.closed || (p.role == process && l.Kind != SXID)
	}
	a := &f.line
	if a.Kind == Lost && l.Kind == XID {
		a.Kind, a.Code = XID, l.Code
	}
	for _, n := range [...]struct{ have, add *int }{{&a.PID, &l.PID}, {&a.Cause, &l.Cause}, {&a.Link, &l.Link}} {
		if *n.have == Absent {
			*n.have = *n.add
		}
	}
	for _, s := range [...]struct{ have, add *string }{{&a.Name, &l.Name}, {&a.UUID, &l.UUID},
		{&a.Severity, &l.Severity}, {&a.Unit, &l.Unit}, {&a.Status, &l.Status}} {
		if *s.have == "" {
			*s.have = *s.add
		}
	}
	a.Text = f.text()
}

// text returns the texts of the fault's lines; without registers, where another line has what happened.
func (f *fault) text() string {
	var causes, last []string
	size := 0
	keep := f.line.Kind == SXID || !slices.ContainsFunc(f.pieces, func(p piece) bool { return p.role != state })
	for _, p := range f.pieces {
		switch {
		case p.role == state && !keep:
		case p.role == process:
			last = append(last, p.text)
		case size+len(p.text) <= maxPlaceText || len(causes) == 0:
			causes = append(causes, p.text)
			size += len(p.text) + len(separator)
		}
	}
	return cut(strings.Join(append(causes, last...), separator), maxText)
}
