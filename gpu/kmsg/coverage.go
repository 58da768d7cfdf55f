package kmsg

import "time"

// Cause is why a part of the log was not read.
type Cause string

// Causes of gaps.
const (
	Overrun Cause = "overrun" // the kernel overwrote records before they were read
	Missing Cause = "missing" // record numbers that the kernel skipped, or records that could not be parsed
	// before the oldest record that the kernel still had when the boot's log was first read
	Began      Cause = "began"
	Rebooted   Cause = "rebooted"   // the end of an earlier boot, or a boot whose log was never read
	NotYet     Cause = "not_yet"    // after the last look
	Unreadable Cause = "unreadable" // the log could not be opened or read
)

// Forever is the end of a gap whose end is unknown.
const Forever = time.Duration(1<<63 - 1)

// maxGaps bounds the stored gaps. If there are more, two adjacent ones are merged: what was read between them then
// counts as not read, never the other way round.
const maxGaps = 16

// Gap is a part of the log that was not read, in time since boot of its boot.
type Gap struct {
	Cause  Cause         `json:"cause"`
	BootID string        `json:"boot_id"`
	From   time.Duration `json:"from_ns"`
	To     time.Duration `json:"to_ns"`
	Lost   uint64        `json:"lost,omitempty"` // records; 0 if the number is unknown
}

// Coverage is which part of the log was read, so that "no error" can be distinguished from "not read". It is bounded,
// and it is data: the state of a Reader is stored as JSON.
type Coverage struct {
	BootID string        `json:"boot_id"`
	Next   uint64        `json:"next"`     // number of the record after the last one that was read
	From   time.Duration `json:"from_ns"`  // since boot: the oldest record that was read
	Until  time.Duration `json:"until_ns"` // since boot: the last time when nothing was left to read
	Gaps   []Gap         `json:"gaps,omitempty"`

	Records   uint64 `json:"records"`             // records read in this boot
	Lost      uint64 `json:"lost,omitempty"`      // records not read, as far as they were counted
	Malformed uint64 `json:"malformed,omitempty"` // records that could not be parsed
	Foreign   uint64 `json:"foreign,omitempty"`   // records written by a program, not the kernel, which are ignored
	Unkept    uint64 `json:"unkept,omitempty"`    // reports of the driver for which there was no room

	Blind string `json:"blind,omitempty"` // why the log cannot be read now; "" if it can
}

// Missing lists what was not read between two times since boot of a boot. If the list is empty, everything was read, so
// an error that is not among the events was not printed.
func (c Coverage) Missing(boot string, from, to time.Duration) (gaps []Gap) {
	if boot != c.BootID || c.BootID == "" {
		return []Gap{{Cause: c.cause(Rebooted), BootID: boot, From: from, To: to}}
	}
	if c.Records == 0 { // opened, and nothing was read
		return []Gap{{Cause: c.cause(NotYet), BootID: boot, From: from, To: to}}
	}
	for _, g := range c.Gaps {
		if g.BootID == boot && g.From < to && g.To > from { // the ends themselves were read
			gaps = append(gaps, g)
		}
	}
	if to > c.Until {
		gaps = append(gaps, Gap{Cause: c.cause(NotYet), BootID: boot, From: max(from, c.Until), To: to})
	}
	return gaps
}

// cause returns the cause of a gap that begins now: an unreadable log outranks any other.
func (c Coverage) cause(otherwise Cause) Cause {
	if c.Blind != "" {
		return Unreadable
	}
	return otherwise
}

// gap records what was not read.
func (c *Coverage) gap(g Gap) {
	c.Lost += g.Lost
	n := len(c.Gaps) - 1
	if n >= 0 && c.Gaps[n].BootID == g.BootID && c.Gaps[n].Cause == g.Cause && c.Gaps[n].To >= g.From {
		c.Gaps[n].To = max(c.Gaps[n].To, g.To)
		c.Gaps[n].Lost += g.Lost
		return
	}
	c.Gaps = append(c.Gaps, g)
	for len(c.Gaps) > maxGaps {
		c.merge()
	}
}

// merge joins the two adjacent gaps of one boot with the least read between them. It begins with earlier boots, and
// forgets a boot that has only one gap: Missing reports all of an earlier boot as not read.
func (c *Coverage) merge() {
	best, least := -1, Forever
	for i := range len(c.Gaps) - 1 {
		a, b := c.Gaps[i], c.Gaps[i+1]
		if a.BootID != b.BootID {
			continue
		}
		between := max(b.From-a.To, 0)
		if a.BootID != c.BootID {
			between = -1
		}
		if between < least {
			best, least = i, between
		}
	}
	if best < 0 {
		c.Gaps = c.Gaps[1:]
		return
	}
	a, b := c.Gaps[best], c.Gaps[best+1]
	a.From, a.To, a.Lost = min(a.From, b.From), max(a.To, b.To), a.Lost+b.Lost
	c.Gaps = append(append(c.Gaps[:best:best], a), c.Gaps[best+2:]...)
}

// start begins a boot, or continues the same one.
func (c *Coverage) start(boot string) {
	c.Blind = ""
	if c.BootID == boot {
		return
	}
	if c.BootID != "" {
		c.gap(Gap{Cause: Rebooted, BootID: c.BootID, From: c.Until, To: Forever})
	}
	*c = Coverage{BootID: boot, Gaps: c.Gaps}
}

// back records that the kernel's record numbers went back, as after a virtual machine was reset to a snapshot with its
// boot id: what was printed since is not what was read.
func (c *Coverage) back(last Record) {
	c.gap(Gap{Cause: Missing, BootID: c.BootID, From: -1, To: max(last.At, c.Until)})
	c.Next, c.Until = last.Seq+1, last.At
}

// took counts a record. overrun: the kernel reported that it overwrote some before it.
func (c *Coverage) took(r *Record, overrun bool) {
	switch {
	case c.Records == 0:
		c.From = r.At
		if r.Seq > 0 {
			c.gap(Gap{Cause: Began, BootID: c.BootID, From: -1, To: r.At, Lost: r.Seq})
		}
	case r.Seq > c.Next:
		g := Gap{Cause: Missing, BootID: c.BootID, From: c.Until, To: r.At, Lost: r.Seq - c.Next}
		if overrun {
			g.Cause = Overrun
		}
		c.gap(g)
	}
	c.Records++
	c.Next = r.Seq + 1
	c.Until = max(c.Until, r.At)
}
