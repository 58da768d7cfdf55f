package platform

import (
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const (
	// heldUp is how long a heartbeat that echoes nothing may be on its way: its sender gives up after 10 s, an ingress may
	// keep it longer.
	heldUp = 30 * time.Second
	// strangers is how many heartbeats that echo no challenge of this node's, beside those that may have been held up,
	// make a second process.
	strangers = 2
	// turns and pause bound what a machine that went back to a snapshot does before it does so again: that many
	// heartbeats, or that many times the usual time between two.
	turns = 8
	pause = 15 * time.Second
	// settling is how long a process that proves itself from another place gets nothing that is meant for the node alone,
	// where the one before it was alive shortly before: a live one echoes within two heartbeats.
	settling = 30 * time.Second
	// quiet is how long a proven process may be silent before an agent without challenges counts as its successor.
	quiet = time.Minute
)

// echoed judges the echo of a heartbeat by the challenges given before, oldest first.
//
// Each answer gives a fresh challenge, and the next heartbeat echoes the newest one that its process got. So what one
// process echoes is a line: the first challenge of a process that starts with none, then each time a child of the one
// before. A lost answer is a child that is never echoed. A heartbeat that came late echoes what was left behind: its
// own line went on, or another process has echoed since. It begins a line that ends at once, since its sender no
// longer waits for the answer.
//
// One host has one agent at a time. When that restarts, updates itself or boots it begins without a challenge, and
// its previous process never sends again; in whichever order messages arrive, the abandoned line is not continued.
// Two things do: a machine that goes back to a snapshot of its memory, once, and two live copies, in turn. And who
// echoes a challenge was alive after it was given: two lines whose times from the first echoed to the last overlap
// are two live copies.
func echoed(last []store.Link, echo string, now time.Time) store.Answer {
	var a store.Answer
	from := linkOf(last, echo)
	if from == nil {
		a.Again = true
		return a
	}
	a.Parent = from.ID
	if left := leftBehind(last, *from); !left.IsZero() {
		a.Again, a.Held = true, now.Sub(left) < heldUp
		if now.Sub(from.At) < turns*pause { // an older one may be of a snapshot
			a.Second = around(last, *from)
		}
		return a
	}
	a.Line = from.Line
	if from.EchoedAt.IsZero() {
		a.Echoed, from.EchoedAt = from.ID, now
	}
	a.Again = last[len(last)-1].Line != from.Line
	for _, shows := range [...]func([]store.Link, int64) *store.Link{beside, returned, stranger} {
		if a.Second = shows(last, from.Line); a.Second != nil {
			break
		}
	}
	return a
}

// linkOf returns the link of a digest; writing to it changes last. nil: unknown, or no echo.
func linkOf(last []store.Link, digest string) *store.Link {
	for i := range last {
		if digest != "" && last[i].Digest == digest {
			return &last[i]
		}
	}
	return nil
}

// leftBehind is when its process went on without l, or another one spoke for certain, the zero time when neither did: l
// is the newest echoed challenge, or one that was given for that and not echoed yet.
func leftBehind(last []store.Link, l store.Link) time.Time {
	for _, next := range last {
		if next.EchoedAt.IsZero() || next.ID == l.ID {
			continue
		}
		sibling := next.Line == l.Line && next.Parent == l.Parent && next.ID != next.Line
		if next.ID > l.ID || sibling {
			return next.EchoedAt
		}
	}
	return time.Time{}
}

// returned returns the line before the given one that continued an abandoned challenge, or nil if it was long ago: a
// machine does not go back to a snapshot twice within so short a time.
func returned(last []store.Link, line int64) *store.Link {
	var before *store.Link
	for i := range last {
		r := &last[i]
		if r.ID != r.Line || r.Parent == 0 || r.EchoedAt.IsZero() {
			continue
		}
		if r.Line == line {
			if before != nil && (r.At.Sub(before.At) < turns*pause || r.ID-before.ID < turns) {
				return before
			}
			return nil
		}
		before = r
	}
	return nil
}

// span is the proven time of a line, by challenges; first is nil when nothing was echoed.
type span struct{ first, last *store.Link }

func spans(last []store.Link) map[int64]span {
	out := map[int64]span{}
	for i := range last {
		l := &last[i]
		s := out[l.Line]
		if !l.EchoedAt.IsZero() {
			if s.first == nil {
				s.first = l
			}
			s.last = l
		}
		out[l.Line] = s
	}
	return out
}

// beside returns a challenge of another line whose time overlaps the line's, nil when none does.
func beside(last []store.Link, line int64) *store.Link {
	all := spans(last)
	own := all[line]
	for other, s := range all {
		if other != line && s.first != nil && s.first.ID <= own.last.ID && s.last.ID >= own.first.ID {
			return s.last
		}
	}
	return nil
}

// around returns a challenge of another line that echoed some before l and some after it, nil when none did: who echoes
// l was alive when that one was.
func around(last []store.Link, l store.Link) *store.Link {
	for other, s := range spans(last) {
		if other != l.Line && s.first != nil && s.first.ID < l.ID && s.last.ID > l.ID {
			return s.last
		}
	}
	return nil
}

// stranger returns a heartbeat that echoes no challenge of this node's, where such came in turn with what the line
// echoed, and too often to have been held up; nil where they did not. A heartbeat that echoes an abandoned challenge
// is not a stranger's, however late it arrives: its sender held that challenge, and a kernel retransmits for minutes
// what its program gave up. A second process that holds one goes on from it, and is seen by that.
func stranger(last []store.Link, line int64) *store.Link {
	all := spans(last)
	own, n, turn := all[line], 0, false
	for i := range last {
		l := &last[i]
		switch {
		case l.ID > own.last.ID:
			return nil
		case l.Line == line:
			turn = turn || !l.EchoedAt.IsZero()
		case !turn || l.Parent != 0 || all[l.Line].first != nil || l.Held || l.At.Sub(own.first.EchoedAt) <= heldUp:
		default:
			if turn = false; n == strangers-1 {
				return l
			}
			n++
		}
	}
	return nil
}

// standing is whether a request comes from the node's proven process.
type standing int

const (
	unmeasured standing = iota // the node's agent echoes nothing, or never spoke
	proven
	unproven
)

// standingOf judges the challenge that a request shows, by its digest, "" for none.
func standingOf(last []store.Link, shown string, now time.Time) standing {
	var newest *store.Link
	for i := range last {
		if !last[i].EchoedAt.IsZero() {
			newest = &last[i]
		}
	}
	if newest == nil {
		return unmeasured
	}
	silent := now.Sub(newest.EchoedAt) > quiet
	l := linkOf(last, shown)
	switch {
	case l != nil && l.Line == newest.Line && (!l.EchoedAt.IsZero() || l.Parent == newest.ID):
		if unsettled(last, *newest, now) {
			return unproven
		}
		return proven
	case silent && last[len(last)-1].Line != newest.Line: // an older build took over: it echoes nothing
		return unmeasured
	}
	return unproven
}

// unsettled reports whether the newest proven process speaks from another place than one that was alive shortly before.
func unsettled(last []store.Link, newest store.Link, now time.Time) bool {
	all := spans(last)
	own := all[newest.Line]
	if now.Sub(own.first.EchoedAt) >= settling {
		return false
	}
	for line, s := range all {
		if line != newest.Line && s.last != nil && own.first.EchoedAt.Sub(s.last.EchoedAt) < settling &&
			(s.last.Remote != newest.Remote || s.last.InstanceID != newest.InstanceID) {
			return true
		}
	}
	return false
}

// How often the side that speaks has to change until two hosts are proven.
const (
	// switchesOfHosts: the first host, another, the first again. A reimaged host never uses its old identity.
	switchesOfHosts = 2
	// switchesOfOne: two sources that claim to be one host may be that host before and after a reboot, with one
	// earlier message delayed on its way (an agent has at most one heartbeat in flight). A second return is a second
	// host.
	switchesOfOne = 4
)

// clone returns the source that shows that now is a second host with the same identity, nil when nothing does. last
// is the heartbeats before, newest first, within the staleness window.
//
// One change proves nothing: a node that is reimaged has another instance, one that boots another boot id, one that
// renews another certificate, and the old one never speaks again. Two hosts alternate. Their clocks are not asked.
func clone(last []store.Source, now store.Source) *store.Source {
	var other *store.Source
	switches, own := 0, true
	for i := range last {
		differs := conflict(last[i], now)
		if differs == own { // the side changes, going back in time
			own = !own
			switches++
		}
		if differs && other == nil {
			other = &last[i]
		}
		if other == nil {
			continue
		}
		if switches >= switchesOfOne || (switches >= switchesOfHosts && other.InstanceID != now.InstanceID) {
			return other
		}
	}
	return nil
}

// conflict reports whether two heartbeats are of two hosts, or of one before and after a change that happens once: of
// its image, of its boot, of its credentials (the generation is the host's word, the same on every connection), or of
// its certificate and its address together. Two live copies of a running machine agree in all that until one of them
// renews. Until then they may be one host with two network paths, which is not a clone; an address alone proves
// nothing.
func conflict(a, b store.Source) bool {
	return a.InstanceID != b.InstanceID || (a.BootID != "" && b.BootID != "" && a.BootID != b.BootID) ||
		(a.Generation != 0 && b.Generation != 0 && a.Generation != b.Generation) ||
		(a.Serial != b.Serial && a.Remote != b.Remote)
}
