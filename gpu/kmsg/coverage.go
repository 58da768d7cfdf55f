package kmsg

import "time"

// Cause is why a part of the log was not read.
type Cause string

// Causes of gaps.
const (
	Overrun    Cause = "overrun"    // the kernel overwrote records before they were read
	Missing    Cause = "missing"    // numbers of records that the kernel did not give out, or that could not be parsed
	Began      Cause = "began"      // before the oldest record that the kernel still had at the first look of a boot
	Rebooted   Cause = "rebooted"   // the end of an earlier boot, or a boot that was never looked at
	NotYet     Cause = "not_yet"    // after the last look
	Unreadable Cause = "unreadable" // the log could not be opened or read
)

// Forever is a gap's end that is not known.
const Forever = time.Duration(1<<63 - 1)

// maxGaps bounds the gaps that are kept. Two that are beside each other become one when there are more: what was read
// between them then counts as not read, never the other way round.
const maxGaps = 16

// Gap is a part of the log that was not read, in the time since boot of the boot that it is in.
type Gap struct {
	Cause  Cause         `json:"cause"`
	BootID string        `json:"boot_id"`
	From   time.Duration `json:"from_ns"`
	To     time.Duration `json:"to_ns"`
	Lost   uint64        `json:"lost,omitempty"` // records; 0 where the number is not known
}

// Coverage is what was looked at, so that "no error" can be distinguished from "was not looking". It is bounded, and it
// is data: the state of a Reader is kept as JSON.
type Coverage struct {
	BootID string        `json:"boot_id"`
	Next   uint64        `json:"next"`     // the number of the record after the last one that was read
	From   time.Duration `json:"from_ns"`  // since boot: the oldest record that was read
	Until  time.Duration `json:"until_ns"` // since boot: the last time when nothing was left to read
	Gaps   []Gap         `json:"gaps,omitempty"`

	Records   uint64 `json:"records"`             // that were read in this boot
	Lost      uint64 `json:"lost,omitempty"`      // that were not, as far as they are counted
	Malformed uint64 `json:"malformed,omitempty"` // that could not be parsed
	Foreign   uint64 `json:"foreign,omitempty"`   // that a program wrote, not the kernel: they are ignored
	Unkept    uint64 `json:"unkept,omitempty"`    // reports of the driver that did not fit

	Blind string `json:"blind,omitempty"` // why nothing is read now; "" while it is
}

// Missing lists what was not looked at between two times since boot of a boot. An empty list: all of it was, and an
// error that is not among the events was not printed.
func (c Coverage) Missing(boot string, from, to time.Duration) (gaps []Gap) {
	if boot != c.BootID || c.BootID == "" {
		return []Gap{{Cause: c.cause(Rebooted), BootID: boot, From: from, To: to}}
	}
	if c.Records == 0 { // opened, and nothing was read
		return []Gap{{Cause: c.cause(NotYet), BootID: boot, From: from, To: to}}
	}
	for _, g := range c.Gaps {
		if g.BootID == boot && g.From < to && g.To > from { // what is at its ends was read
			gaps = append(gaps, g)
		}
	}
	if to > c.Until {
		gaps = append(gaps, Gap{Cause: c.cause(NotYet), BootID: boot, From: max(from, c.Until), To: to})
	}
	return gaps
}

// cause is what is missing now: that the log cannot be read goes before anything else.
func (c Coverage) cause(otherwise Cause) Cause {
	if c.Blind != "" {
		return Unreadable
	}
	return otherwise
}

// gap notes what was not read.
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

// merge makes one gap of the two of one boot between which the least was read. Those of an earlier boot are joined
// first, and a boot that is alone with its one gap is forgotten: Missing calls all of an earlier boot not read.
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

// start begins a boot, or goes on in the same one.
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

// back notes that the kernel counts from less than it did, as after a virtual machine was set back to a snapshot with
// its boot id: what was printed since then is not what was read.
func (c *Coverage) back(last Record) {
	c.gap(Gap{Cause: Missing, BootID: c.BootID, From: -1, To: max(last.At, c.Until)})
	c.Next, c.Until = last.Seq+1, last.At
}

// took notes a record. overrun: the kernel reported that it overwrote some before it.
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
