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
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// The model's own messages: an update of the drills with its time since the start, and the request to end the runs, by
// any means.
type (
	drillMsg struct {
		ops.Progress
		at time.Duration
	}
	endingMsg struct{}
)

// ending is how far the operator has interrupted the runs.
type ending int

const (
	goesOn     ending = iota
	puttingOff        // everything is being reverted, where it can be reached
	abandoned         // the machines are left to their watchdogs
)

// drillModel is the state of the view. It has no clock: messages carry the time. Everything shown about a run follows
// from the run's events, as in the report.
type drillModel struct {
	look    render.Options
	count   int
	over    []drill.Drill // in the order in which they were run
	now     *current      // nil: before the first drill
	width   int
	height  int
	elapsed time.Duration
	frame   int
	ending  ending
	cancel  context.CancelFunc
	abandon func()
}

// current is the running drill, or the last one.
type current struct {
	index  int
	events []drill.Event
	story  drill.Story // folded from the events
	report drill.Drill // made from the story
	heard  time.Duration
	chain  chain
}

// chain is the hops in the last walk.
type chain struct {
	hops    map[diag.HopID]sight
	walking bool
}

// sight is the view of one hop in it.
type sight struct {
	running bool
	fresh   bool // from the walk in progress; otherwise from the previous one
	status  diag.Status
	failure diag.Failure
}

func newDrillModel(o DrillOptions, cancel context.CancelFunc) drillModel {
	abandon := o.Abandon
	if abandon == nil {
		abandon = func() {}
	}
	return drillModel{look: o.Display, count: o.Count, width: defaultWidth, height: defaultHeight, cancel: cancel,
		abandon: abandon}
}

// Init implements tea.Model. It sends nothing to the terminal.
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

// interrupted returns m after a Ctrl-C.
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

// updated returns m after one update. It copies what it changes, so that an earlier model stays as it was.
func (m drillModel) updated(u drillMsg) drillModel {
	m.elapsed, m.count = max(m.elapsed, u.at), max(m.count, u.Count)
	c := current{index: u.Index}
	if m.now != nil && m.now.index == u.Index {
		c = *m.now
	}
	if u.Walk != nil {
		c.chain = c.chain.walked(*u.Walk)
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
	c.story = drill.Fold(c.events)
	c.report = c.story.Drill()
	c.heard = at
	switch {
	case e.Kind == drill.Walked && e.WalkView != nil:
		c.chain = c.chain.ended(e.WalkView.Hops)
	case e.Kind == drill.Reverting, e.Kind == drill.Ended: // a walk that was in progress is no longer reported
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

// last is the machine's last event of one of the kinds, or nil.
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

// walked returns the chain after one event of a walk. A hop that starts a second time belongs to another walk: the
// previous one was interrupted, and is not reported.
func (c chain) walked(e walk.Event) chain {
	if e.Hop == "" { // about the walk as a whole
		return c
	}
	h := c.hops[e.Hop]
	if !c.walking || (e.Kind == walk.HopStarted && (h.running || h.fresh)) {
		c = c.stale()
		c.walking = true
		h = c.hops[e.Hop]
	}
	switch e.Kind {
	case walk.HopStarted:
		h.running = true
	case walk.HopDone:
		h = sight{fresh: true, status: e.Result.Status, failure: e.Result.Failure}
	}
	return c.with(e.Hop, h)
}

// ended returns the chain as in the walk's report.
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

// stale returns a copy of the chain in which all results are from an earlier walk.
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

// count returns how many hops of the current walk are done, and how many of those failed.
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
