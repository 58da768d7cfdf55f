package tui

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// The model's messages beside those of every model here: what the drills report, and when, since the start; and that
// the runs are to end, by any of them.
type (
	drillMsg struct {
		ops.Progress
		at time.Duration
	}
	endingMsg struct{}
)

// ending is how far the operator's patience is used up.
type ending int

const (
	goesOn     ending = iota
	puttingOff        // everything is reverted, as far as it can be reached
	abandoned         // the machines are left to themselves
)

// drillModel is the state of the view. It has no clock of its own: time comes with messages. Everything shown of a
// run follows from the run's events, as in the report.
type drillModel struct {
	look    render.Options
	count   int
	over    []drill.Drill // in the order in which they were run
	now     *current      // nil: before the first one
	width   int
	height  int
	elapsed time.Duration
	frame   int
	ending  ending
	cancel  context.CancelFunc
	abandon func()
}

// current is the drill that goes on, or the last one that did.
type current struct {
	index  int
	events []drill.Event
	story  drill.Story // of the events
	report drill.Drill // of the story
	heard  time.Duration
	chain  chain
}

// chain is the hops as a walk saw them last.
type chain struct {
	hops    map[diag.HopID]sight
	walking bool
	began   time.Duration // of the walk, since the start
}

// sight is the view of one hop in it.
type sight struct {
	running bool
	fresh   bool // of the walk under way; otherwise of the one before
	status  diag.Status
	failure diag.Failure
	took    diag.Millis
}

func newDrillModel(o DrillOptions, cancel context.CancelFunc) drillModel {
	abandon := o.Abandon
	if abandon == nil {
		abandon = func() {}
	}
	return drillModel{look: o.Look, count: o.Count, width: defaultWidth, height: defaultHeight, cancel: cancel,
		abandon: abandon}
}

// Init implements tea.Model. Nothing is asked of the terminal.
func (m drillModel) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m drillModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c":
			m = m.interrupted()
		case "ctrl+z":
			return m, tea.Suspend
		}
	case endingMsg:
		m.ending = max(m.ending, puttingOff)
	case tickMsg:
		m.elapsed = time.Duration(msg)
		m.frame++
	case drillMsg:
		m = m.updated(msg)
	case doneMsg:
		return m, tea.Quit
	}
	return m, nil
}

// interrupted is m after a Ctrl-C.
func (m drillModel) interrupted() drillModel {
	switch m.ending {
	case goesOn:
		m.ending = puttingOff
		m.cancel()
	case puttingOff:
		m.ending = abandoned
		m.abandon()
	}
	return m
}

// updated is m after one update. What it changes is copied, so that an earlier model stays as it was.
func (m drillModel) updated(u drillMsg) drillModel {
	m.elapsed, m.count = max(m.elapsed, u.at), max(m.count, u.Count)
	c := current{index: u.Index}
	if m.now != nil && m.now.index == u.Index {
		c = *m.now
	}
	if u.Walk != nil {
		c.chain = c.chain.walked(*u.Walk, u.at)
	} else {
		c = c.add(u.Event, u.at)
	}
	if u.Walk == nil && u.Event.Kind == drill.Ended {
		m.over = append(slices.Clip(m.over), c.report)
	}
	m.now = &c
	return m
}

func (c current) add(e drill.Event, at time.Duration) current {
	c.events = append(slices.Clip(c.events), e)
	c.story = drill.Tell(c.events)
	c.report = c.story.Drill()
	c.heard = at
	switch {
	case e.Kind == drill.Walked && e.Sight != nil:
		c.chain = c.chain.ended(e.Sight.Hops)
	case e.Kind == drill.Reverting, e.Kind == drill.Ended: // a walk that was under way is reported no more
		c.chain.walking = false
	}
	return c
}

// ms is the run's own time, in milliseconds since it began.
func (c *current) ms(elapsed time.Duration) int64 {
	if n := len(c.events); n > 0 && c.events[n-1].Kind == drill.Ended {
		return c.story.NowMS
	}
	return c.story.NowMS + max(0, elapsed-c.heard).Milliseconds()
}

// last is the last event of the machine that is of one of the kinds, or nil.
func (c *current) last(machine string, kinds ...drill.Kind) *drill.Event {
	for i, e := range slices.Backward(c.events) {
		if e.Machine == machine && slices.Contains(kinds, e.Kind) {
			return &c.events[i]
		}
	}
	return nil
}

// has reports whether an event of the kind has occurred.
func (c *current) has(kind drill.Kind) bool {
	return slices.ContainsFunc(c.events, func(e drill.Event) bool { return e.Kind == kind })
}

// over reports whether the drill has ended.
func (c *current) over() bool { return c.has(drill.Ended) }

// walked is the chain after one event of a walk. A hop that starts once more is of another walk: the one before was cut
// short, and is not reported.
func (c chain) walked(e preflight.Event, at time.Duration) chain {
	if e.Hop == "" { // of the walk as a whole
		return c
	}
	h := c.hops[e.Hop]
	if !c.walking || (e.Kind == preflight.HopStarted && (h.running || h.fresh)) {
		c = c.stale()
		c.walking, c.began = true, at-e.At
		h = c.hops[e.Hop]
	}
	switch e.Kind {
	case preflight.HopStarted:
		h.running = true
	case preflight.HopDone:
		h = sight{fresh: true, status: e.Result.Status, failure: e.Result.Failure, took: e.Result.DurationMS}
	}
	return c.with(e.Hop, h)
}

// ended is the chain as the walk's report has it.
func (c chain) ended(hops map[diag.HopID]diag.Status) chain {
	c = c.stale()
	c.walking = false
	for id, status := range hops {
		h := c.hops[id]
		if h.status != status {
			h = sight{status: status}
		}
		c.hops[id] = h
	}
	return c
}

// stale is a copy of the chain in which all is of an earlier walk.
func (c chain) stale() chain {
	hops := map[diag.HopID]sight{}
	for id, h := range c.hops {
		h.running, h.fresh = false, false
		hops[id] = h
	}
	c.hops = hops
	return c
}

func (c chain) with(id diag.HopID, h sight) chain {
	hops := map[diag.HopID]sight{id: h}
	for k, v := range c.hops {
		if k != id {
			hops[k] = v
		}
	}
	c.hops = hops
	return c
}

// count is how many hops of the walk under way are through, and how many of those are red.
func (c chain) count() (done, red int) {
	for _, h := range c.hops {
		if h.fresh {
			done++
			if h.status == diag.StatusFail {
				red++
			}
		}
	}
	return done, red
}
