// Package tape holds synthetic runs of drills as events with times, for tests of the views and for looking at them on
// terminals of any size. The plans have a scenario's own words; machines and times are made up.
package tape

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// Moment is one event of a run, or one of a walk. At counts from the start of the run.
type Moment struct {
	At    time.Duration
	Event drill.Event
	Walk  *preflight.Event
}

// The machines of every tape.
const (
	node     = "compute-node-01"
	platform = "platform"
)

// recorder writes a tape.
type recorder struct {
	moments []Moment
	at      time.Duration
	seq     int
	walks   int
	story   drill.Story
}

func (r *recorder) tell(e drill.Event) {
	r.seq++
	e.Seq, e.MS = r.seq, r.at.Milliseconds()
	e.At = diag.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(r.at))
	r.story.Add(e)
	r.moments = append(r.moments, Moment{At: r.at, Event: e})
}

func (r *recorder) after(d time.Duration) { r.at += d }

// red is what fails in a walk.
type red []found

// found is what a walk finds at one hop.
type found struct {
	hop     diag.HopID
	finding diag.Finding
}

// at is the finding at a hop, a pass without one.
func (r red) at(hop diag.HopID) diag.Finding {
	for _, f := range r {
		if f.hop == hop {
			return f.finding
		}
	}
	return diag.Finding{Status: diag.StatusPass}
}

// hopTime is what a hop of a tape takes, and between is from one's start to the next one's.
const (
	hopTime = 60 * time.Millisecond
	between = 30 * time.Millisecond
)

// walk walks the chain; the first hop that fails is blamed, and what comes after it in unreached is not
// reached.
func (r *recorder) walk(stage drill.Stage, fails red, others ...diag.Blame) {
	r.walks++
	began, from := r.at.Milliseconds(), r.at
	s := drill.Sight{N: r.walks, Stage: stage, Walk: fmt.Sprintf("pf-tape-%d", r.walks), BeganMS: began,
		EndedBy: diag.EndedCompleted, Outcome: diag.OutcomePass, Hops: map[diag.HopID]diag.Status{}, Others: others}
	tell := func(e preflight.Event) {
		e.At = r.at - from
		r.moments = append(r.moments, Moment{At: r.at, Walk: &e})
	}
	for i, hop := range preflight.Chain() {
		id := hop.ID
		if !hop.Built() {
			s.Hops[id] = diag.StatusSkipped
			continue
		}
		f := fails.at(id)
		tell(preflight.Event{Kind: preflight.HopStarted, Hop: id})
		r.after(between)
		if i > 0 && i%2 == 1 {
			r.after(hopTime)
		}
		tell(preflight.Event{Kind: preflight.HopDone, Hop: id,
			Result: diag.HopResult{ID: id, Finding: f, DurationMS: diag.Measured(hopTime + between*time.Duration(i%3))}})
		s.Hops[id] = f.Status
		if f.Status == diag.StatusFail && s.Blame == nil {
			s.Outcome, s.FirstFailed = diag.OutcomeFail, id
			s.Blame = &diag.Blame{Hop: id, Signal: f.Signal, Failure: f.Failure}
		}
	}
	s.EndedMS = r.at.Milliseconds()
	r.tell(drill.Event{Kind: drill.Walked, Sight: &s})
}

// status is a machine's answer: its state, what its steps are in, and what is left of its times.
func (r *recorder) status(m *chaos.PlannedMachine, state step.State, phase string, left time.Duration) *step.Status {
	st := &step.Status{Run: m.Drill.Run, Scenario: m.Drill.Scenario, Node: m.ID, State: state, Phase: phase, Reaper: true,
		Watchdog: 4711}
	if phase == step.PhaseArmed {
		ttl, lease := step.MillisOf(left), m.Drill.Lease
		st.TTLLeft, st.LeaseLeft = &ttl, &lease
	} else if phase != step.PhaseArming {
		st.Why, st.Reverter = step.WhyAsked, step.ByCLI
	}
	for _, s := range m.Drill.Steps {
		row := step.StepStatus{ID: s.ID, Fault: s.Fault, Tier: s.Tier, State: state}
		if state == step.Done {
			row.State = step.Planned
			for _, p := range r.story.Machines {
				if _, made := p.Made[s.ID]; made && p.ID == m.ID {
					row.State = step.Verified
				}
			}
		}
		st.Steps = append(st.Steps, row)
	}
	return st
}

// plan is the plan of a scenario that is shipped, on made-up machines.
func plan(id string, n int, steps ...chaos.PlannedMachine) chaos.Plan {
	file := id + ".yaml"
	data, err := scenarios.Files.ReadFile(file)
	if err != nil {
		panic("a tape is of a drill that is shipped: " + err.Error())
	}
	s, err := chaos.Parse(file, data)
	if err != nil {
		panic("a shipped drill reads: " + err.Error())
	}
	run := fmt.Sprintf("261120-1200%02d-tape", n)
	p := chaos.Plan{
		Run: run, Hash: "045953e432f6", Scenario: s, Profile: "lab", Node: node, Allocation: "alloc-01", Targets: steps,
		Injected: look(s.VerifyInjected.Probe, drill.LookInjected),
		Control:  look(s.VerifyInjected.Control, drill.LookControl),
		Proof:    look(s.Recovery.Proof, drill.LookProof),
		Budgets: chaos.Budgets{TTL: s.Guards.TTL, Lease: s.Guards.Lease, InjectWithin: s.VerifyInjected.Within,
			DetectWithin: s.Expect.DetectWithin, RecoverWithin: s.Recovery.Within},
	}
	for i, m := range p.Targets {
		p.Targets[i].Drill.Run, p.Targets[i].Drill.Scenario = run, id
		p.Targets[i].Drill.TTL, p.Targets[i].Drill.Lease = step.MillisOf(s.Guards.TTL.Std()),
			step.MillisOf(s.Guards.Lease.Std())
		for _, st := range m.Drill.Steps {
			p.Schedule = append(p.Schedule, chaos.Move{At: at(s, st.ID), Machine: m.ID, Step: st.ID})
		}
	}
	return p
}

// at is when a scenario wants a fault.
func at(s chaos.Scenario, id string) chaos.Duration {
	for _, f := range s.Faults {
		if f.ID == id {
			return f.At
		}
	}
	return 0
}

func look(p chaos.Probe, name string) chaos.Look {
	l := chaos.Look{From: p.From, Check: step.Check{Name: name, Exec: step.Exec{Argv: p.Probe}}}
	if p.From != chaos.RoleOperator {
		l.Machine = node
	}
	return l
}

func machine(role chaos.Role, id string, steps ...step.Step) chaos.PlannedMachine {
	return chaos.PlannedMachine{Role: role, ID: id, Host: "10.231.77.101", Tier: step.TierKernel,
		Drill: step.Drill{Node: id, Steps: steps}}
}
