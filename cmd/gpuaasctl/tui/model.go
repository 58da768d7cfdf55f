package tui

import (
	"cmp"
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// The model's messages: an event of the walk, the time since its start, and its end.
type (
	eventMsg walk.Event
	tickMsg  time.Duration
	doneMsg  struct{}
)

// hop is the progress of one hop.
type hop struct {
	planned diag.PlannedHop
	started bool
	at      time.Duration // start, since the walk's
	steps   []diag.StepResult
	spans   []stretch // of the hop's steps, in order
	asking  int       // counter-probes that are under way
	result  *diag.HopResult
}

// stretch is when a step ran, since the walk's start.
type stretch struct{ from, to time.Duration }

// model is the state of the table. It has no clock: messages carry the time.
type model struct {
	hops     []hop
	subject  diag.Subject
	options  render.Options
	width    int
	height   int
	elapsed  time.Duration
	frame    int
	cancel   context.CancelFunc
	explore  func() // requests the explorer at the end; nil disables the key
	stopping bool
	evidence bool // all hops are done, and the walk waits for evidence
	likely   *walk.Provisional

	exploring bool // the explorer opens at the end
}

// Sizes until the terminal has reported its own.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

func newModel(o Options, cancel context.CancelFunc) model {
	m := model{subject: o.Subject, options: o.Report, width: defaultWidth, height: defaultHeight, cancel: cancel,
		explore: o.Explore}
	m.subject.EnvironmentProfile = cmp.Or(m.subject.EnvironmentProfile, o.Plan.Profile)
	for _, p := range o.Plan.Hops {
		h := hop{planned: p}
		if p.Skip != "" {
			h.result = &diag.HopResult{ID: p.ID, BudgetMS: p.BudgetMS,
				Finding: diag.Finding{Status: diag.StatusSkipped, Because: p.Skip}}
		}
		m.hops = append(m.hops, h)
	}
	return m
}

// Init implements tea.Model. It sends nothing to the terminal.
func (m model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c":
			m.stopping = true
			m.cancel()
		case "v":
			if m.explore != nil {
				m.exploring = true
				m.explore()
			}
		case "ctrl+z":
			return m, tea.Suspend
		}
	case tickMsg:
		m.elapsed = max(m.elapsed, time.Duration(msg))
		m.frame++
	case eventMsg:
		m.elapsed = max(m.elapsed, msg.At) // an event may arrive before the tick of its time
		m.evidence = m.evidence || msg.Kind == walk.EvidenceAwaited
		if msg.Kind == walk.LikelySoFar {
			m.likely = msg.Provisional
		}
		m.hops = observed(m.hops, walk.Event(msg))
	case doneMsg:
		return m, tea.Quit
	}
	return m, nil
}

// observed returns hops after one event. It copies what it changes, so that an earlier model stays as it was.
func observed(hops []hop, e walk.Event) []hop {
	next := make([]hop, len(hops))
	copy(next, hops)
	for i := range next {
		h := &next[i]
		if h.planned.ID != e.Hop {
			continue
		}
		switch e.Kind {
		case walk.HopStarted:
			h.started, h.at = true, e.At
		case walk.StepDone:
			h.steps = append(h.steps[:len(h.steps):len(h.steps)], e.Step)
			took := time.Duration(e.Step.DurationMS) * time.Millisecond
			h.spans = append(h.spans[:len(h.spans):len(h.spans)], stretch{max(0, e.At-took), e.At})
		case walk.CountersStarted:
			h.asking += e.Count
		case walk.CountersDone:
			h.asking -= e.Count
		case walk.HopDone:
			h.result = new(e.Result)
		}
	}
	return next
}
