package platform

import (
	"fmt"

	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const pace = 15 * time.Second // between heartbeats

// correlator is the platform's side: the challenges of one node.
type correlator struct {
	links  []store.Link
	next   int64
	cloned string // why, "" for not
}

// hear handles a heartbeat, and returns the next challenge and whether its echo is requested at once.
func (c *correlator) hear(echo, remote string, now time.Time) (string, bool) {
	a := echoed(c.links, echo, now)
	c.next++
	l := store.Link{ID: c.next, Digest: strconv.FormatInt(c.next, 10), Parent: a.Parent, Line: a.Line, Held: a.Held,
		Remote: remote, At: now}
	if l.Line == 0 {
		l.Line = l.ID
	}
	c.links = append(c.links, l)
	if a.Second != nil && c.cloned == "" {
		c.cloned = fmt.Sprintf("heartbeat %d of %s at %s echoes %q: line %d beside line %d",
			l.ID, remote, now.Format(time.TimeOnly), echo, l.Line, a.Second.Line)
	}
	return l.Digest, a.Again
}

// process is one run of an agent: it has one heartbeat in flight, and echoes the newest challenge that it
// received.
type process struct {
	name   string
	holds  string
	prompt bool
}

// message is a delayed heartbeat, whose sender no longer waits for the response.
type message struct {
	echo string
	at   time.Time // when it arrives
	tcp  bool      // its sender's kernel retransmits it; otherwise an ingress holds it
}

func clockAt(d time.Duration) time.Time { return time.Date(2026, 5, 25, 12, 0, 0, 0, time.UTC).Add(d) }

// beat delivers a heartbeat and its response, and the echo that the response requests.
func (c *correlator) beat(p *process, now time.Time) {
	var again bool
	p.holds, again = c.hear(p.holds, p.name, now)
	if p.prompt = again && !p.prompt; p.prompt {
		c.beat(p, now)
	}
}

// host simulates one host's agents: its network loses heartbeats and responses, and delays heartbeats; its agent
// restarts; the machine is restored to a snapshot; the platform loses its memory, or is restored from a backup, or
// an operator decides.
type host struct {
	*rapid.T
	correlator
	now      time.Duration
	agent    process
	late     []message
	snapshot *process
	restored bool
	settled  time.Duration // when the platform had the second heartbeat since, and at which challenge
	at       int64
	beats    int // since then
	backup   []store.Link
}

// happenings lists the possible steps, some of them several times; "lost" is a heartbeat that never arrives.
var happenings = []string{"beat", "beat", "beat", "lost answer", "lost answer", "lost", "late", "late", "restart",
	"snapshot", "restore", "forget", "back up", "roll back"}

func (h *host) step() {
	h.now += time.Duration(rapid.IntRange(1, 30_000).Draw(h.T, "ms")) * time.Millisecond
	h.deliver()
	switch rapid.SampledFrom(happenings).Draw(h.T, "what") {
	case "beat":
		h.agent.name = rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "192.0.2.7"}).Draw(h.T, "address")
		h.beat(&h.agent, clockAt(h.now))
		if h.beats++; h.beats <= 2 {
			h.settled, h.at = h.now, h.next
		}
	case "lost answer":
		h.hear(h.agent.holds, h.agent.name, clockAt(h.now))
	case "late": // its sender has given up, and continues
		m := message{echo: h.agent.holds, tcp: h.agent.holds != "" && rapid.Bool().Draw(h.T, "tcp")}
		longest := 25 * time.Second
		if m.tcp {
			longest = 2 * time.Minute
		}
		m.at = clockAt(h.now + time.Duration(rapid.IntRange(1, int(longest/time.Millisecond)).
			Draw(h.T, "held"))*time.Millisecond)
		h.late = append(h.late, m)
	case "restart":
		h.agent = process{name: h.agent.name}
	case "snapshot":
		p := h.agent
		h.snapshot = &p
	case "restore":
		if h.snapshot != nil && (!h.restored || (h.beats >= 2 && h.now-h.settled > turns*pause && h.next-h.at > turns)) {
			h.now += heldUp // the restore takes that long, so that whatever an ingress holds has arrived
			h.deliver()
			h.hangUp()
			h.agent, h.restored, h.beats = *h.snapshot, true, 0
		}
	case "forget":
		h.links = nil
		h.hangUp()
	case "back up":
		h.backup = slices.Clone(h.links)
	case "roll back":
		h.hangUp()
		// a platform and a machine that are both restored look like two hosts
		h.links, h.snapshot = slices.Clone(h.backup), nil
	}
}

// hangUp closes the connections of a machine that was rebooted or restored: they deliver no further message.
func (h *host) hangUp() {
	h.late = slices.DeleteFunc(h.late, func(m message) bool { return m.tcp })
}

func (h *host) deliver() {
	var wait []message
	slices.SortStableFunc(h.late, func(a, b message) int { return a.at.Compare(b.at) })
	for _, m := range h.late {
		if m.at.After(clockAt(h.now)) {
			wait = append(wait, m)
			continue
		}
		h.hear(m.echo, h.agent.name, m.at)
	}
	h.late = wait
}

// TestOneHostIsNoClone: a single host never counts as a clone, whatever its network, its agent and its platform
// do.
func TestOneHostIsNoClone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &host{T: rt}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			h.step()
			if h.cloned != "" {
				rt.Fatal(h.cloned)
			}
		}
	})
}

// copies simulates two hosts from the moment at which the second one is alive, and returns how long the detection
// takes.
func copies(t *rapid.T, c *correlator, a, b *process, from time.Duration, thief func(now time.Time)) time.Duration {
	next := map[string]time.Duration{}
	for _, who := range []string{"a", "b"} {
		next[who] = from + time.Duration(rapid.IntRange(1, int(pace/time.Millisecond)).
			Draw(t, who+" begins"))*time.Millisecond
	}
	for c.cloned == "" {
		who := "a"
		if next["b"] < next["a"] {
			who = "b"
		}
		now := next[who]
		if now > from+5*time.Minute {
			return 5 * time.Minute
		}
		switch {
		case who == "a":
			c.beat(a, clockAt(now))
		case thief != nil:
			thief(clockAt(now))
		default:
			c.beat(b, clockAt(now))
		}
		next[who] = now + pace - time.Duration(rapid.IntRange(0, int(pace/10/time.Millisecond)).
			Draw(t, "earlier"))*time.Millisecond
		if c.cloned != "" {
			return now - from
		}
	}
	return 0
}

// alive returns a node whose agent has run for a while.
func alive(t *rapid.T) (*correlator, *process, time.Duration) {
	c, a := &correlator{}, &process{name: "10.0.0.1"}
	var now time.Duration
	for range rapid.IntRange(3, 20).Draw(t, "before") {
		now += pace
		c.beat(a, clockAt(now))
	}
	return c, a, now
}

// TestTwoLiveCopiesAreTold: two live copies are detected within the minute of a P0, for each kind of second
// process that sends heartbeats.
func TestTwoLiveCopiesAreTold(t *testing.T) {
	for name, second := range map[string]func(rt *rapid.T, c *correlator, a *process) (*process, func(time.Time)){
		"a copy of the disk, whose agent starts": func(*rapid.T, *correlator, *process) (*process, func(time.Time)) {
			return &process{name: "10.0.0.1"}, nil
		},
		"a copy of the running machine and its memory": func(_ *rapid.T, _ *correlator,
			a *process) (*process, func(time.Time)) {
			p := *a
			return &p, nil
		},
		"an older copy of the running machine": func(rt *rapid.T, c *correlator, _ *process) (*process, func(time.Time)) {
			return &process{name: "10.0.0.1", holds: rapid.SampledFrom(c.links).Draw(rt, "held").Digest}, nil
		},
		"a thief that echoes nothing": func(_ *rapid.T, c *correlator, _ *process) (*process, func(time.Time)) {
			return nil, func(now time.Time) { c.hear("", "10.0.0.1", now) }
		},
		"a thief that makes its echoes up": func(rt *rapid.T, c *correlator, _ *process) (*process, func(time.Time)) {
			return nil, func(now time.Time) { c.hear(strconv.Itoa(-rapid.IntRange(1, 1000).Draw(rt, "echo")), "10.0.0.1", now) }
		},
		"a thief that does not echo at once": func(_ *rapid.T, c *correlator, _ *process) (*process, func(time.Time)) {
			holds := ""
			return nil, func(now time.Time) { holds, _ = c.hear(holds, "10.0.0.1", now) }
		},
	} {
		t.Run(name, rapid.MakeCheck(func(rt *rapid.T) {
			c, a, now := alive(rt)
			b, thief := second(rt, c, a)
			if took := copies(rt, c, a, b, now, thief); took > time.Minute {
				rt.Fatalf("found after %s", took)
			}
		}))
	}
}

// TestStands: which sender may have what is for the node only.
func TestStands(t *testing.T) {
	c, a := &correlator{}, &process{name: "10.0.0.1"}
	at := func(d time.Duration) time.Time { return clockAt(d) }
	want := func(what, shown string, now time.Duration, want standing) {
		t.Helper()
		if got := standingOf(c.links, shown, at(now)); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	want("a node that never spoke", "", 0, unmeasured)
	c.hear("", "10.0.0.1", at(0))
	want("an agent that echoes nothing", "", 0, unmeasured)
	c.beat(a, at(pace))
	want("the agent", a.holds, pace, proven)
	before := a.holds
	c.beat(a, at(2*pace))
	want("a wait that is under way since before", before, 2*pace, proven)
	want("nothing", "", 2*pace, unproven)
	want("something else", "x", 2*pace, unproven)
	started, _ := c.hear("", "10.0.0.9", at(2*pace+time.Second))
	want("a process that was not proven", started, 2*pace+time.Second, unproven)
	want("the agent, still", a.holds, 2*pace+time.Second, proven)
	c.hear("", "10.0.0.1", at(2*pace+2*time.Minute))
	want("an older build, later", "", 2*pace+2*time.Minute, unmeasured)

	thief := &process{name: "10.0.0.9"}
	c, a = &correlator{}, &process{name: "10.0.0.1"}
	c.beat(a, at(0))
	c.beat(thief, at(time.Second))
	want("proven elsewhere, a second after the one before", thief.holds, time.Second, unproven)
	want("the one before it", a.holds, time.Second, unproven)
	want("half a minute later", thief.holds, 32*time.Second, proven)
	c, a = &correlator{}, &process{name: "10.0.0.1"}
	c.beat(a, at(0))
	restarted := &process{name: "10.0.0.1"}
	c.beat(restarted, at(time.Second))
	want("restarted in its place", restarted.holds, time.Second, proven)
}
