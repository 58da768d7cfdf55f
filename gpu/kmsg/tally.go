package kmsg

import (
	"slices"
	"time"
)

// Limits of a tally: distinct reports, and after that reports folded by code, device and place.
const (
	maxEvents = 128
	maxFolded = 512
)

// Event is one fault as the driver reported it, with the number of equal ones that followed it. Its Line has what all
// lines about the fault have.
type Event struct {
	Line
	BootID      string
	Seq         uint64        // number of the first record
	First, Last time.Duration // since boot
	Count       uint64        // number of equal faults
	Folded      bool          // faults that differ in process or text were counted together; Line is the first one
}

// Tally counts equal faults, in bounded memory. Lines about one fault are one event, see Joiner. Its zero value is
// empty.
type Tally struct {
	Events []Event // by their first line
	Unkept uint64  // reports that did not fit

	joiner        Joiner
	begun         []begun // faults that may go on, the newest last
	index, folded map[Line]int
}

// begun is where a fault was counted that further lines may continue.
type begun struct {
	id     int
	event  Event         // as it was counted, with Count 1
	before time.Duration // Last of the counting event before that
}

// maxEqual is how many of equal lines may each be of a fault with further lines; before them others are only counted.
const maxEqual = 8

// Add adds e, or counts it to an equal event. A part of another report is not counted.
func (t *Tally) Add(e Event) {
	if e.Part {
		return
	}
	if e.Count > maxEqual {
		most := e
		most.Count -= maxEqual
		t.count(most)
		e.First, e.Count = e.Last, maxEqual
	}
	for one := e; e.Count > 0; e.Count-- {
		one.Count, one.Last = 1, one.First
		t.add(one)
		one.First = e.Last
	}
}

func (t *Tally) add(e Event) {
	id, whole, more := t.joiner.Add(e.Line, e.First)
	if !more {
		before := t.count(e)
		if id > 0 {
			if len(t.begun) == maxOpen {
				t.begun = slices.Delete(t.begun, 0, 1)
			}
			t.begun = append(t.begun, begun{id, e, before})
		}
		return
	}
	if i := slices.IndexFunc(t.begun, func(b begun) bool { return b.id == id }); i >= 0 {
		b := &t.begun[i]
		t.uncount(b)
		b.event.Line, b.event.Last = whole, max(b.event.Last, e.Last)
		b.before = t.count(b.event)
	}
}

// slot returns where an event is counted: its own line, or with others of its code and device.
func (t *Tally) slot(l Line) (i int, ok bool) {
	if i, ok = t.index[l]; !ok {
		if i, ok = t.folded[coarse(l, true)]; !ok {
			i, ok = t.folded[coarse(l, false)]
		}
	}
	return i, ok
}

// coarse is what folded events have in common.
func coarse(l Line, placed bool) Line {
	c := l.Essence()
	if places := Places(l.Code, l.Text); placed && len(places) == 1 {
		c.Text = places[0]
	}
	return c
}

// count counts e, and returns the last time of the equal ones before.
func (t *Tally) count(e Event) (before time.Duration) {
	if t.index == nil {
		t.index, t.folded = map[Line]int{}, map[Line]int{}
	}
	if i, ok := t.slot(e.Line); ok {
		before = t.Events[i].Last
		t.Events[i].Count += e.Count
		t.Events[i].Last = e.Last
		return before
	}
	switch {
	case len(t.index) < maxEvents:
		t.index[e.Line] = len(t.Events)
	case len(t.folded) < maxFolded: // half of the room is for codes and devices whose places do not fit
		e.Folded = true
		t.folded[coarse(e.Line, len(t.folded) < maxFolded/2)] = len(t.Events)
	default:
		t.Unkept += e.Count
		return e.Last
	}
	t.Events = append(t.Events, e)
	return e.Last
}

// uncount takes back the counting of a fault, about which another line has come.
func (t *Tally) uncount(b *begun) {
	i, ok := t.slot(b.event.Line)
	if !ok {
		t.Unkept--
		return
	}
	e := &t.Events[i]
	if e.Last == b.event.Last {
		e.Last = b.before
	}
	if e.Count--; e.Count > 0 {
		return
	}
	t.Events = slices.Delete(t.Events, i, i+1)
	for _, all := range [...]map[Line]int{t.index, t.folded} {
		for l, at := range all {
			switch {
			case at == i:
				delete(all, l)
			case at > i:
				all[l] = at - 1
			}
		}
	}
}
