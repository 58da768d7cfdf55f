package drill

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestPart: what each event says about a machine.
func TestPart(t *testing.T) {
	plan := chaos.Plan{Targets: []chaos.PlannedMachine{{ID: "n0"}, {ID: "n1", Role: chaos.RoleNode, Tier: step.TierBoot}}}
	fold := func(events ...Event) MachineStory {
		s := Fold(append([]Event{{Kind: Begun, Plan: &plan}}, events...))
		if other := s.Machines[0]; other.Touched || other.Broken || other.State != "" || s.part("n2") != nil {
			t.Errorf("events of n1 changed n0: %+v", other)
		}
		return s.Machines[1]
	}
	on := func(e Event) Event { e.Machine = "n1"; return e }
	status := func(st step.Status) Event { return on(Event{Kind: Renewed, Status: &st}) }

	asked := status(step.Status{State: step.Done, Why: step.WhyAsked, Journal: []step.Entry{{Seq: 1}}})
	p := fold(status(step.Status{State: step.Done, Why: step.WhyLease}), asked,
		status(step.Status{State: step.Reverted, Reverter: step.ByReaper}))
	if p.State != step.Reverted || p.Reverter != step.ByReaper || p.Why != step.WhyLease || len(p.Journal) != 1 {
		t.Errorf("the last response decides, a reason and a journal stay: %+v", p)
	}
	if p = fold(asked); p.Why != "" {
		t.Errorf("a machine that was asked reverted itself: %q", p.Why)
	}
	p = fold(on(Event{Kind: Arming}))
	if !p.Touched || p.Armed || p.Broken || p.ID != "n1" || p.Role != chaos.RoleNode || p.Tier != step.TierBoot {
		t.Errorf("arming: %+v", p)
	}
	if p = fold(on(Event{Kind: Armed})); !p.Armed {
		t.Errorf("armed: %+v", p)
	}
	p = fold(on(Event{Kind: Breaking, MS: 5, Step: "s"}))
	if _, made := p.Made["s"]; !p.Broken || made {
		t.Errorf("breaking: %+v", p)
	}
	p = fold(on(Event{Kind: Breaking, MS: 5}), on(Event{Kind: Broken, MS: 9, Step: "s", Text: "no"}))
	if !p.Broken || p.Made["s"] != 9 || p.Against != "no" {
		t.Errorf("broken: %+v", p)
	}
	if p = fold(on(Event{Kind: Broken, MS: 9, Step: "s"})); !p.Broken || p.Made["s"] != 9 {
		t.Errorf("broken, by a journal alone: %+v", p)
	}
	if p = fold(on(Event{Kind: Reverting})); p.AskedMS != 1 {
		t.Errorf("asked in the first millisecond: %+v", p)
	}
	p = fold(on(Event{Kind: Lost, Text: "lease"}), on(Event{Kind: Reverted, MS: 7, TookUS: 3}))
	if p.Lost != "lease" || p.Why != "lease" || p.RevertedMS != 7 || p.UndoUS != 3 {
		t.Errorf("lost: %+v", p)
	}
	p = fold(on(Event{Kind: Compared, Clean: new(false), Residue: []step.Residue{{Key: "k"}}}), on(Event{Kind: Closed}))
	if p.Clean == nil || *p.Clean || len(p.Residue) != 1 || !p.Closed {
		t.Errorf("compared and closed: %+v", p)
	}
	if p = fold(on(Event{Kind: Closed, Text: "busy"})); p.Closed || p.NotClosed != "busy" {
		t.Errorf("not closed: %+v", p)
	}
}

// TestMadeAgo: a step's time is its own, and that of another step does not count.
func TestMadeAgo(t *testing.T) {
	armed := time.Unix(100, 0)
	at := func(ms int64) *time.Time { return new(armed.Add(time.Duration(ms) * time.Millisecond)) }
	st := &step.Status{ArmedAt: &armed, TTLLeft: new(step.Millis(50_000)),
		Steps: []step.StepStatus{{ID: "other", DoneAt: at(1000)}, {ID: "s", DoneAt: at(4000)}, {ID: "not done"}}}
	for id, want := range map[string]time.Duration{"s": 6 * time.Second, "other": 9 * time.Second, "not done": 0, "x": 0} {
		if got := madeAgo(Event{Step: id, Status: st}, time.Minute); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	if got := madeAgo(Event{Step: "s", Status: &step.Status{TTLLeft: new(step.Millis(1)), Steps: st.Steps}},
		time.Minute); got != 0 {
		t.Errorf("never armed: %v", got)
	}
}

// TestStoryOfEvents: what events say about the whole run.
func TestStoryOfEvents(t *testing.T) {
	s := Fold([]Event{
		{Kind: Begun, At: diag.At(noon), Plan: &chaos.Plan{Run: "r1"}, Tool: "v1", Rules: "7", Game: &Game{ID: "g"}},
		{Kind: Refused, Refused: []chaos.Refusal{{Machine: "a"}}},
		{Kind: Refused, Refused: []chaos.Refusal{{Machine: "b"}}},
		{Kind: Walked, WalkView: &WalkView{N: 1}}, {Kind: Walked},
		{Kind: Probed, MS: 5, Seen: &Seen{Name: ProbeProof, Stage: After}},
		{Kind: Probed, MS: 6, Seen: &Seen{Name: ProbeProof, Stage: After, Held: true}}, {Kind: Probed},
		{Kind: Stopped, Text: "stopIf"}, {Kind: Interrupt, Text: "by hand"}, {Kind: Decided, Text: "409"},
		{Kind: Trouble, Machine: "n9", Text: "cut"}, {Kind: Trouble, Text: "slow"},
		{Kind: Ended, MS: 9, At: diag.At(noon.Add(time.Second))},
	})
	if s.Plan.Run != "r1" || s.Tool != "v1" || s.Rules != "7" || s.Game == nil || len(s.Refused) != 2 ||
		len(s.Walks) != 1 || len(s.Looks) != 2 || s.Stopped != "stopIf" || s.Interrupted != "by hand" ||
		s.Decided == nil || *s.Decided != "409" || !slices.Equal(s.Trouble, []string{"n9: cut", "slow"}) ||
		s.NowMS != 9 || s.Ended.Sub(s.Began.Time) != time.Second {
		t.Errorf("%+v", s)
	}
	if l := s.LastProbe(After, ProbeProof); l == nil || !l.Held || l.MS != 6 {
		t.Errorf("not the last probe: %+v", l)
	}
	if s.LastProbe(During, ProbeProof) != nil || s.LastProbe(After, ProbeControl) != nil {
		t.Error("a probe of another stage or name")
	}
}

// TestSummary: whether a machine must be looked at, and what a report says of its drills.
func TestSummary(t *testing.T) {
	for _, armed := range []bool{false, true} {
		for _, closed := range []bool{false, true} {
			d := Drill{Machines: []MachineResult{{Armed: true, Closed: true}, {Armed: armed, Closed: closed}}}
			if got := d.Open(); got != (armed && !closed) {
				t.Errorf("armed %v, closed %v: open %v", armed, closed, got)
			}
		}
	}
	drill := func(w Word) Drill { return Drill{Scenario: string(w), Verdict: Verdict{w, "because"}} }
	for want, r := range map[Verdict]Report{
		{Pass, "2 of 2"}:                         {Drills: []Drill{drill(Pass), drill(Pass)}},
		{Residue, "residue: because"}:            {Drills: []Drill{drill(Late), drill(Residue), drill(Infra)}},
		{Infra, "2 drills were not run"}:         {Drills: []Drill{drill(Pass), drill(Late)}, NotRun: []string{"x", "y"}},
		{Infra, "0 drills were not run"}:         {},
		{Collateral, "collateral: because"}:      {Drills: []Drill{drill(Collateral), drill(Late)}},
		{NoRecovery, "no_recovery: because"}:     {Drills: []Drill{drill(NoRecovery)}, NotRun: []string{"x"}},
		{AbortedGuard, "aborted_guard: because"}: {Drills: []Drill{drill(Pass), drill(AbortedGuard)}},
	} {
		if r.SetVerdict(); r.Verdict != want {
			t.Errorf("%v, want %v", r.Verdict, want)
		}
	}
	s := passing()
	if w := s.observed(); w == nil || w.N != 4 {
		t.Errorf("observed %+v", w)
	}
	s.walkOf(4).Blame = nil
	s.walkOf(2).N = 3
	if w := s.observed(); w == nil || w.N != 4 {
		t.Errorf("the last walk during the fault was not observed: %+v", w)
	}
	if s.without(During); s.observed() != nil {
		t.Errorf("observed %+v", s.observed())
	}
	if explained("docs/runbook.md#a-b") != "gpuaasctl explain a-b" || explained("https://x/docs/runbook.md#a") !=
		"https://x/docs/runbook.md#a" {
		t.Error("a link to the runbook is not the command, or another one is")
	}
}
