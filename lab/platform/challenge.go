package platform

import (
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const (
	// heldUp bounds the delay of a heartbeat without an echo: its sender gives up after 10 s, an ingress may hold
	// it longer.
	heldUp = 30 * time.Second
	// strangers is the number of heartbeats without a known challenge, except those that may have been delayed,
	// that prove a second process.
	strangers = 2
	// turns and pause bound how often a machine is restored to a snapshot: at most once in that many heartbeats, or
	// in that many times the usual interval.
	turns = 8
	pause = 15 * time.Second
	// settling is how long a process that proves itself from another address or instance gets nothing that is for
	// the node only, if the previous process was alive shortly before: a live process echoes within two heartbeats.
	settling = 30 * time.Second
	// quiet is how long a proven process may be silent before an agent without challenges counts as its successor.
	quiet = time.Minute
)

// echoed judges a heartbeat's echo against the challenges that were given to the node, oldest first.
//
// Each response contains a fresh challenge, and the next heartbeat echoes the newest challenge that its process
// has received. The challenges that one process echoes form a line: the first is given to a process that starts
// without one, and each further one is a child of the previous. If a response is lost, its challenge is never
// echoed. A delayed heartbeat echoes an abandoned challenge: its own line has continued, or another process has
// echoed since. It begins a line that ends at once, since its sender no longer waits for the response.
//
// A host runs one agent at a time. When the agent restarts, updates itself or boots, it begins without a
// challenge, and its previous process never sends again; so in whatever order messages arrive, the abandoned line
// is not continued. Only two things continue it: a machine that is restored to a snapshot of its memory, once, and
// two live copies, in turn. A process that echoes a challenge was alive after that was given: if the times of two
// lines, from the first echo to the last, overlap, they are two live copies.
func echoed(last []store.Link, echo string, now time.Time) store.ChallengeResult {
	var a store.ChallengeResult
	from := linkOf(last, echo)
	if from == nil {
		a.Again = true
		return a
	}
	a.Parent = from.ID
	if left := leftBehind(last, *from); !left.IsZero() {
		a.Again, a.Held = true, now.Sub(left) < heldUp
		if now.Sub(from.At) < turns*pause { // an older one may come from a snapshot
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

// linkOf returns the link of a digest, which aliases last; nil if the digest is unknown or empty.
func linkOf(last []store.Link, digest string) *store.Link {
	for i := range last {
		if digest != "" && last[i].Digest == digest {
			return &last[i]
		}
	}
	return nil
}

// leftBehind returns when l was abandoned, because its process continued without it or another process has echoed
// since; the zero time if it was not: l is the newest echoed challenge, or a child of that one which was not
// echoed yet.
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

// returned returns the line before the given one that continued an abandoned challenge, or nil if that was long
// ago: a machine is not restored to a snapshot twice within so short a time.
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

// span is the proven lifetime of a line, from its first to its last echoed challenge; first is nil if none was
// echoed.
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

// beside returns a challenge of another line whose lifetime overlaps the line's, nil if there is none.
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

// around returns a challenge of another line that echoed challenges both before and after l, nil if there is none:
// the process that echoes l was alive at the same time.
func around(last []store.Link, l store.Link) *store.Link {
	for other, s := range spans(last) {
		if other != l.Line && s.first != nil && s.first.ID < l.ID && s.last.ID > l.ID {
			return s.last
		}
	}
	return nil
}

// stranger returns a heartbeat without a known challenge, if such heartbeats alternate with echoes of the line too
// often to have been delayed; nil otherwise. A heartbeat that echoes an abandoned challenge does not count,
// however late it arrives: its sender held that challenge, and a kernel retransmits for minutes after its program
// has given up. A second process that holds a challenge continues from it, and is detected by that.
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

// standing says whether a request comes from the node's proven process.
type standing int

const (
	unmeasured standing = iota // the node's agent echoes nothing, or never sent a heartbeat
	proven
	unproven
)

// standingOf judges the challenge that a request shows, given by its digest, "" for none.
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
	case silent && last[len(last)-1].Line != newest.Line: // an older build took over, which echoes nothing
		return unmeasured
	}
	return unproven
}

// unsettled reports whether the newest proven process differs in address or instance from one that was alive
// shortly before.
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

// How many changes between two senders prove two hosts.
const (
	// switchesOfHosts: the first host, another one, the first again. A reimaged host never uses its old identity.
	switchesOfHosts = 2
	// switchesOfOne: two sources that claim to be one host may be that host before and after a reboot, with one
	// delayed message (an agent has at most one heartbeat in flight). A second return proves a second host.
	switchesOfOne = 4
)

// clone returns the source that proves that now comes from a second host with the same identity, nil if none does.
// last holds the previous heartbeats within the staleness window, newest first.
//
// A single change proves nothing: a reimaged node has another instance, a rebooted one another boot id, a renewed
// one another certificate, and the old one is never seen again. Two hosts alternate. Their clocks are not used.
func clone(last []store.Source, now store.Source) *store.Source {
	var other *store.Source
	switches, own := 0, true
	for i := range last {
		differs := conflict(last[i], now)
		if differs == own { // the sender changes, going back in time
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

// conflict reports whether two heartbeats come from two hosts, or from one host before and after a change that
// happens once: of its image, its boot, its credentials (by generation, which the host reports the same on every
// connection), or its certificate and its address together. Two live copies of a running machine agree in all of
// these until one of them renews. Until then they look like one host with two network paths, which is not a clone;
// a different address alone proves nothing.
func conflict(a, b store.Source) bool {
	return a.InstanceID != b.InstanceID || (a.BootID != "" && b.BootID != "" && a.BootID != b.BootID) ||
		(a.Generation != 0 && b.Generation != 0 && a.Generation != b.Generation) ||
		(a.Serial != b.Serial && a.Remote != b.Remote)
}
