package render

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

const node = "compute-node-01"

var began = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// recording is a synthetic run: its events, one after the other.
type recording struct {
	events []drill.Event
	ms     int64
	walks  int
}

// after lets ms pass, and then e happen.
func (t *recording) after(ms int64, e drill.Event) *recording {
	t.ms += ms
	e.Seq, e.MS, e.At = len(t.events)+1, t.ms, diag.At(began.Add(time.Duration(t.ms)*time.Millisecond))
	t.events = append(t.events, e)
	return t
}

// walk adds a walk that took ms.
func (t *recording) walk(ms int64, stage drill.Stage, s drill.WalkView) *recording {
	t.walks++
	s.N, s.Stage, s.BeganMS, s.EndedMS = t.walks, stage, t.ms, t.ms+ms
	return t.after(ms, drill.Event{Kind: drill.Walked, WalkView: &s})
}

// usualHops are the hops of a walk whose profile wants no optional one.
func usualHops() []diag.HopID { return diag.HopsAnd(slices.Values([]diag.HopID{})) }

func green() drill.WalkView {
	s := drill.WalkView{Walk: "run-1", CorrelationID: "corr-1", EndedBy: diag.EndedCompleted, Outcome: diag.OutcomePass,
		Hops: map[diag.HopID]diag.Status{}}
	for _, h := range usualHops() {
		s.Hops[h] = diag.StatusPass
	}
	return s
}

func red(hop diag.HopID, signal diag.Signal, failure diag.Failure) drill.WalkView {
	s := green()
	s.Outcome, s.FirstFailed, s.Hops[hop] = diag.OutcomeFail, hop, diag.StatusFail
	s.Blame = &diag.Blame{Hop: hop, Signal: signal, Failure: failure, Confidence: diag.Proven, Text: "packets vanish"}
	s.UserSaw = "terminal: node_stream_timeout: the node did not connect"
	return s
}

func blamed() drill.WalkView {
	return red(diag.HopNodeRuntimeAPI, diag.SigAPIUnreachable, diag.TCPTimeout)
}

// egress is a drill of this repository.
var egress = sync.OnceValues(func() ([]chaos.Scenario, error) {
	return chaos.Find(scenarios.Files, "api-egress-blocked")
})

// plan returns the plan of a drill of this repository on one machine.
func plan(t testing.TB, run string) chaos.Plan {
	t.Helper()
	all, err := egress()
	if err != nil {
		t.Fatal(err)
	}
	s := all[0]
	return chaos.Plan{
		Run: run, Hash: "045953e432f6", Scenario: s, Profile: "lab", Node: node, Allocation: "alloc-01", At: began,
		Targets:  []chaos.PlannedMachine{{Role: chaos.RoleNode, ID: node, Host: "10.231.77.101", Tier: step.TierKernel}},
		Schedule: []chaos.PlannedStep{{Machine: node, Step: "block"}},
		Budgets: chaos.Budgets{
			TTL: s.Guards.TTL, Lease: chaos.Duration(20 * time.Second), InjectWithin: chaos.Duration(10 * time.Second),
			DetectWithin: s.Expect.DetectWithin, RecoverWithin: s.Recovery.Within,
		},
	}
}

func status(state step.State, by string) *step.Status {
	s := step.StepStatus{ID: "block", Fault: "net-block", Tier: step.TierKernel, State: state, Wanted: true}
	s.Changes = []step.ChangeStatus{{Place: "nft inet gpuaasctl_r1_block_0", State: state, By: by}}
	st := &step.Status{Run: "r1", Scenario: "api-egress-blocked", Node: node, By: "ann@laptop", State: state,
		Phase: step.PhaseArmed, Steps: []step.StepStatus{s}}
	if state.Final() {
		st.Phase, st.Reverter = step.PhaseOver, by
	}
	return st
}

func begin(t testing.TB) *recording {
	p := plan(t, "261121-090000-ab12")
	return (&recording{}).after(0, drill.Event{Kind: drill.Begun, Plan: &p})
}

// broken is a run up to the point at which the fault is in place and seen.
func broken(t testing.TB) *recording {
	return begin(t).walk(820, drill.Before, green()).
		seen(0, drill.Before, drill.ProbeInjected, "exit code 0, want 1").seen(0, drill.Before, drill.ProbeControl, "").
		after(40, drill.Event{Kind: drill.Arming, Machine: node}).
		after(310, drill.Event{Kind: drill.Armed, Machine: node, Status: status(step.Planned, "")}).
		after(10, drill.Event{Kind: drill.Breaking, Machine: node, Step: "block"}).
		after(35, drill.Event{Kind: drill.Broken, Machine: node, Step: "block",
			Status: status(step.Verified, step.ByWatchdog)}).
		addProbe(2050, drill.ProbeInjected, "").addProbe(60, drill.ProbeControl, "").
		seen(0, drill.During, drill.ProbeProof, "exit code 7, want 0")
}

// addProbe adds a probe after the injection, or after the revert.
func (t *recording) addProbe(ms int64, name, why string) *recording {
	if name == drill.ProbeProof {
		return t.seen(ms, drill.After, name, why)
	}
	return t.seen(ms, drill.During, name, why)
}

func (t *recording) seen(ms int64, stage drill.Stage, name, why string) *recording {
	return t.after(ms, drill.Event{Kind: drill.Probed,
		Seen: &drill.Seen{Name: name, Stage: stage, Held: why == "", Why: why, TookMS: diag.Millis(ms)}})
}

// undone adds the rest of a run from the undo on.
func (t *recording) undone() *recording {
	return t.after(5, drill.Event{Kind: drill.Reverting, Machine: node}).
		after(90, drill.Event{Kind: drill.Reverted, Machine: node, Status: status(step.Reverted, step.ByCLI), TookUS: 31_400})
}

func (t *recording) compared(clean bool, residue ...step.Residue) *recording {
	return t.after(400, drill.Event{Kind: drill.Compared, Machine: node, Clean: &clean, Residue: residue})
}

func (t *recording) closed() *recording {
	st := status(step.Reverted, step.ByCLI)
	st.Phase = step.PhaseClosed
	return t.after(120, drill.Event{Kind: drill.Closed, Machine: node, Status: st}).
		after(3, drill.Event{Kind: drill.Ended})
}

// healed is a run in which everything recovers after the undo.
func (t *recording) healed() *recording {
	return t.undone().addProbe(210, drill.ProbeProof, "").walk(900, drill.After,
		red(diag.HopNodeHeartbeat, diag.SigHeartbeatStale, diag.OK)).
		walk(810, drill.After, green()).walk(820, drill.After, green()).compared(true).closed()
}

// recordings are runs for every verdict, by its word, and some more.
func recordings(t testing.TB) map[string]*recording {
	late := broken(t)
	for range 38 {
		late.walk(900, drill.During, green())
	}
	hit := blamed()
	hit.Hops[diag.HopNodeOpsAccess] = diag.StatusFail
	early := status(step.Reverted, step.ByWatchdog)
	early.Why = step.WhyLease
	foreign := status(step.Conflict, step.ByCLI)
	foreign.Steps[0].Changes[0].Text = "a rule was added to the table"
	return map[string]*recording{
		"pass":       broken(t).walk(410, drill.During, green()).walk(690, drill.During, blamed()).healed(),
		"late":       late.walk(900, drill.During, blamed()).healed(),
		"collateral": broken(t).walk(900, drill.During, hit).walk(700, drill.During, blamed()).healed(),
		"wrong_hop": broken(t).walk(900, drill.During, red(diag.HopNodeHeartbeat, diag.SigHeartbeatStale, diag.OK)).
			healed(),
		"not_detected": broken(t).walk(900, drill.During, green()).walk(30_100, drill.During, green()).healed(),
		"not_injected": broken(t).addProbe(10_000, drill.ProbeInjected, "exit code 0, want 1").healed(),
		"reverted_early": broken(t).walk(700, drill.During, blamed()).
			after(9000, drill.Event{Kind: drill.Lost, Machine: node, Status: early, Text: step.WhyLease}).healed(),
		"aborted_guard": begin(t).walk(700, drill.Before, blamed()).after(1, drill.Event{Kind: drill.Ended}),
		"refused": begin(t).after(3,
			drill.Event{Kind: drill.Refused,
				Refused: []chaos.Refusal{
					{Machine: node, Refusal: *step.Refuse(step.RefusedConsent, "its owner has not agreed to drills")},
				}}).
			after(1, drill.Event{Kind: drill.Ended}),
		// killed
		"infra": broken(t).walk(700, drill.During, blamed()).after(100,
			drill.Event{Kind: drill.Trouble, Machine: node, Text: "ssh: connection reset"}),
		"interrupted": broken(t).walk(700, drill.During, green()).after(200,
			drill.Event{Kind: drill.Interrupt, Text: "interrupted"}).undone().compared(true).closed(),
		"no_recovery": broken(t).walk(700, drill.During, blamed()).undone().addProbe(210, drill.ProbeProof, "").
			walk(59_000, drill.After, blamed()).compared(true).closed(),
		"conflict": broken(t).walk(700, drill.During, blamed()).after(5, drill.Event{Kind: drill.Reverting, Machine: node}).
			after(90, drill.Event{Kind: drill.Reverted, Machine: node, Status: foreign, TookUS: 900}).compared(true).
			after(120, drill.Event{Kind: drill.Closed, Machine: node, Status: foreign, Text: "conflict: it is closed by hand"}).
			after(3, drill.Event{Kind: drill.Ended}),
		"residue": broken(t).walk(700, drill.During, blamed()).undone().addProbe(210, drill.ProbeProof, "").
			walk(810, drill.After, green()).walk(820, drill.After, green()).
			compared(false, step.Residue{Class: step.ClassFile, Key: "/etc/gpuaas/agent.env", Before: "mode 0600",
				After: "mode 0644"},
				step.Residue{Class: step.ClassFile, Key: "/etc/gpuaas/cert.pem", Before: "a1", After: "b2",
					Allowed: "certificates are renewed"}).closed(),
	}
}

// report returns the recording's report, as the tool would write it.
func (t *recording) report() *drill.Report {
	s := drill.Fold(t.events)
	d := s.Drill()
	d.Log = "/home/ann/.local/state/gpuaasctl/drills/" + d.Run
	r := &drill.Report{
		Head: diag.NewHead(drill.ReportKind), ToolVersion: "1.2.3", Profile: "lab", StartedAt: d.StartedAt,
		EndedAt: d.EndedAt, EndedBy: diag.EndedCompleted, Verdict: d.Verdict, Drills: []drill.Drill{d},
	}
	switch {
	case s.Interrupted != "":
		r.EndedBy = diag.EndedInterrupted
	case d.EndedAt.IsZero():
		r.EndedBy = diag.EndedError
	}
	return r
}

// reports are all of them, and a game day of them.
func reports(t testing.TB) map[string]*drill.Report {
	all := map[string]*drill.Report{}
	day := &drill.Report{
		Head: diag.NewHead(drill.ReportKind), ToolVersion: "1.2.3", Profile: "lab", StartedAt: diag.At(began),
		EndedBy: diag.EndedInterrupted,
		Game: &drill.Game{ID: "friday", Title: "Everything that broke last month", Seed: 20261121,
			Order: []string{"a", "b"}}, NotRun: []string{"disk-full", "pty-delayed"},
	}
	for name, recording := range recordings(t) {
		all[name] = recording.report()
	}
	for _, w := range drill.Words() {
		d := all[string(w)].Drills[0]
		day.Drills = append(day.Drills, d)
		if d.Verdict.Word.Worse(day.Verdict.Word) {
			day.Verdict = d.Verdict
		}
	}
	all["game-day"] = day
	return all
}
