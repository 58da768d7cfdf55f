package kmsg

import "time"

// Limits of a tally: distinct reports, and after that reports folded by code and device.
const (
	maxEvents = 128
	maxFolded = 512
)

// Event is one report of the driver, with the number of equal ones that followed it.
type Event struct {
	Line
	BootID      string
	Seq         uint64        // number of the first record
	First, Last time.Duration // since boot
	Count       uint64        // number of equal lines
	Folded      bool          // lines that differ in process or text were counted together; Line is the first one
}

// Tally counts equal reports, in bounded memory. Its zero value is empty.
type Tally struct {
	Events []Event // by their first line
	Unkept uint64  // reports that did not fit

	index, folded map[Line]int
}

// Add adds e, or counts it to an equal event. A part of another report is not counted.
func (t *Tally) Add(e Event) {
	if e.Part {
		return
	}
	if t.index == nil {
		t.index, t.folded = map[Line]int{}, map[Line]int{}
	}
	if i, ok := t.index[e.Line]; ok {
		t.grow(i, e)
		return
	}
	if len(t.index) < maxEvents {
		t.index[e.Line] = len(t.Events)
		t.Events = append(t.Events, e)
		return
	}
	coarse := e.Essence()
	if i, ok := t.folded[coarse]; ok {
		t.grow(i, e)
		return
	}
	if len(t.folded) == maxFolded {
		t.Unkept += e.Count
		return
	}
	e.Folded = true
	t.folded[coarse] = len(t.Events)
	t.Events = append(t.Events, e)
}

func (t *Tally) grow(i int, e Event) {
	t.Events[i].Count += e.Count
	t.Events[i].Last = e.Last
}
