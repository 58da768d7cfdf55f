package logfile

import (
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
)

// Limits of the result: machines told apart, and reports kept of all of them.
const (
	maxHosts = 1024
	maxFound = 4096
)

// bootEnd is by how much the kernel's time falls at least when a machine has booted, and bootBegin what it then is at
// most.
const (
	bootEnd   = 10 * time.Second
	bootBegin = 5 * time.Second
)

// boots keeps what was found by machine and boot. A file's newest boot is the one that counts: the last one, or where
// both have times of the wall, the later.
type boots struct {
	hosts  map[string]*machineLog
	order  []string
	found  int // events that are kept
	unkept uint64

	earlier []Found // of boots that have ended

	up, down int           // steps of the kernel's time, to notice a file that begins with the newest line
	lastTime time.Duration // since boot
}

// machineLog is what one machine's lines say.
type machineLog struct {
	finder  kmsg.Finder
	now     *segment // what is read
	newest  *segment // of those before it; nil before the first boundary
	earlier map[earlierKey]int
	host    string
	boot    string        // ID of the boot that is read
	last    time.Duration // since boot
}

// earlierKey is an error of boots that have ended.
type earlierKey struct {
	kmsg.Line
	Clock
}

// segment is a part of a log between two boots.
type segment struct {
	tally  kmsg.Tally
	clock  Clock
	newest time.Duration
	lines  int
}

// of returns the state of a machine. Beyond the limit, machines share one.
func (b *boots) of(host string) *machineLog {
	if m := b.hosts[host]; m != nil {
		return m
	}
	if len(b.order) >= maxHosts {
		host = "others"
		if m := b.hosts[host]; m != nil {
			return m
		}
	}
	if b.hosts == nil {
		b.hosts = map[string]*machineLog{}
	}
	m := &machineLog{now: &segment{}, host: host}
	b.hosts[host] = m
	b.order = append(b.order, host)
	return m
}

// find searches a line of the driver, and counts what it reports.
func (b *boots) find(host, text string, at stamp) bool {
	m := b.of(host)
	l, ok := m.finder.Find(text)
	if at.clock == Boot {
		m.last = at.at
	}
	if !ok {
		return false
	}
	when := m.now.time(at)
	m.now.lines++
	if b.found >= maxFound {
		b.unkept++
		return true
	}
	before := len(m.now.tally.Events)
	m.now.tally.Add(kmsg.Event{Line: l, Count: 1, First: when, Last: when})
	b.found += len(m.now.tally.Events) - before
	return true
}

// time notes the time of a line, and returns it on the segment's clock: that of its first line.
func (s *segment) time(at stamp) time.Duration {
	if s.clock == NoClock {
		s.clock = at.clock
	}
	if at.clock != s.clock {
		return 0
	}
	s.newest = max(s.newest, at.at)
	return at.at
}

// after reports whether s is of a later time, if times tell.
func (s *segment) after(o *segment) (later, known bool) {
	if s.clock != o.clock || s.clock == Boot || s.newest == 0 || o.newest == 0 {
		return false, false
	}
	const halfYear = 183 * 24 * time.Hour
	switch d := s.newest - o.newest; {
	case s.clock == Yearless && d < -halfYear:
		return true, true
	case s.clock == Yearless && d > halfYear:
		return false, true
	default:
		return d >= 0, true
	}
}

// reversed reports whether the file begins with the newest line, by the kernel's times: they fall from line to line.
// Where lines of several machines alternate, they rise as often.
func (b *boots) reversed() bool { return b.down > 8*b.up }

// next ends the boot that is read.
func (b *boots) next(m *machineLog) {
	if m.now.lines > 0 {
		b.seal(m)
		m.now = &segment{}
	}
	m.finder, m.last = kmsg.Finder{}, 0
}

// seal decides which of two boots is the newest, and adds the other one to the earlier ones.
func (b *boots) seal(m *machineLog) {
	if m.newest == nil {
		m.newest = m.now
		return
	}
	later, known := m.now.after(m.newest)
	if !known {
		later = !b.reversed()
	}
	old := m.now
	if later {
		old, m.newest = m.newest, m.now
	}
	if m.earlier == nil {
		m.earlier = map[earlierKey]int{}
	}
	for _, e := range old.tally.Events {
		key := earlierKey{e.Line, old.clock}
		i, ok := m.earlier[key]
		switch {
		case ok:
			b.earlier[i].Count += e.Count
			b.earlier[i].Last = max(b.earlier[i].Last, e.Last)
			b.found--
		default:
			m.earlier[key] = len(b.earlier)
			b.earlier = append(b.earlier, Found{Event: e, Host: m.host, Earlier: true, Clock: old.clock})
		}
	}
	b.unkept += old.tally.Unkept
}

// tick notes the kernel's time of a line, and reports whether it fell as after a boot.
func (b *boots) tick(at time.Duration) bool {
	fell := at+bootEnd < b.lastTime && at < bootBegin
	switch {
	case b.lastTime == 0: // the first one
	case at > b.lastTime:
		b.up++
	case at < b.lastTime && !fell:
		b.down++
	}
	b.lastTime = at
	return fell && !b.reversed()
}

// every ends the boot of all machines.
func (b *boots) every() {
	for _, host := range b.order {
		b.next(b.hosts[host])
	}
}

// result returns what was found, the newest boot of each machine before all earlier ones.
func (b *boots) result() (found []Found, unkept uint64) {
	for _, host := range b.order {
		m := b.hosts[host]
		if m.now.lines > 0 || m.newest == nil {
			b.seal(m)
		}
		for _, e := range m.newest.tally.Events {
			found = append(found, Found{Event: e, Host: host, Clock: m.newest.clock})
		}
		unkept += m.newest.tally.Unkept
	}
	return append(found, b.earlier...), unkept + b.unkept
}
