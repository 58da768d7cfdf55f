package drill

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

func secs(n int) chaos.Duration { return chaos.Duration(time.Duration(n) * time.Second) }

// passing returns the facts of a run on two machines in which every claim is held. The fault is in place at 2 s and
// seen at 4 s; everything is reverted at 6 s, and the chain is green from 8 s on.
func passing() *Story {
	p := chaos.Plan{
		Run: "r1", Hash: "h", Node: "n1",
		Scenario: chaos.Scenario{
			Metadata: chaos.Metadata{ID: "s"},
			Expect: chaos.Expect{
				Blame: chaos.Blame{Finding: chaos.Finding{Hop: []diag.HopID{diag.HopNodeRuntimeAPI},
					Signal: []diag.Signal{diag.SigAPIUnreachable}}},
				MustStayGreen:     chaos.StayGreen{Hops: []diag.HopID{diag.HopNodeHeartbeat, diag.HopControlPlaneAccess}},
				SameCorrelationID: true,
			},
			Recovery: chaos.Recovery{Green: 2},
		},
		Schedule: []chaos.PlannedStep{{Machine: "n1", Step: "block"}, {Machine: "n2", Step: "disk"}},
		Budgets: chaos.Budgets{TTL: secs(90), Lease: secs(20), InjectWithin: secs(3), DetectWithin: secs(10),
			RecoverWithin: secs(20)},
	}
	walk := func(n int, stage Stage, red bool) WalkView {
		w := WalkView{N: n, Stage: stage, BeganMS: int64(n)*1000 - 900, EndedMS: int64(n) * 1000,
			EndedBy: diag.EndedCompleted, Outcome: diag.OutcomePass, Hops: map[diag.HopID]diag.Status{}}
		for _, h := range diag.HopIDs() {
			w.Hops[h] = diag.StatusPass
		}
		if red {
			w.Outcome, w.Hops[diag.HopNodeRuntimeAPI] = diag.OutcomeFail, diag.StatusFail
			w.Blame = &diag.Blame{Hop: diag.HopNodeRuntimeAPI, Signal: diag.SigAPIUnreachable}
		}
		return w
	}
	s := &Story{Plan: p, NowMS: 12_000}
	for n, red := range []bool{false, false, false, true, false, false, true, false, false} {
		stage := During
		if n == 0 {
			stage = Before
		} else if n > 5 {
			stage = After
		}
		if n < 2 || n == 3 || n > 5 {
			s.Walks = append(s.Walks, walk(n+1, stage, red))
		}
	}
	for _, l := range []Seen{{Name: ProbeInjected, Stage: Before}, {Name: ProbeControl, Stage: Before, Held: true},
		{Name: ProbeInjected, Stage: During, Held: true, TookMS: 400}, {Name: ProbeControl, Stage: During, Held: true},
		{Name: ProbeProof, Stage: During}, {Name: ProbeProof, Stage: After, Held: true}} {
		s.Looks = append(s.Looks, ProbeResult{l, 2100})
	}
	for i, id := range []string{"n1", "n2"} {
		s.Machines = append(s.Machines, MachineStory{
			MachineResult: MachineResult{ID: id, Armed: true, State: step.Reverted, Clean: new(true), Closed: true},
			Touched:       true, Broken: true, Made: map[string]int64{p.Schedule[i].Step: int64(1000 + 1000*i)},
			AskedMS: 5000, RevertedMS: int64(5500 + 500*i)})
	}
	return s
}

// walkOf returns the walk with that number.
func (s *Story) walkOf(n int) *WalkView {
	return &s.Walks[slices.IndexFunc(s.Walks, func(w WalkView) bool { return w.N == n })]
}

// fails lets a probe find the opposite of what is wanted.
func (s *Story) fails(stage Stage, name string) {
	s.LastProbe(stage, name).Held, s.LastProbe(stage, name).Why = false, "exit code 1"
}

// without removes the walks and probes of a stage.
func (s *Story) without(stage Stage, looks ...string) {
	if len(looks) == 0 {
		s.Walks = slices.DeleteFunc(s.Walks, func(w WalkView) bool { return w.Stage == stage })
	}
	s.Looks = slices.DeleteFunc(s.Looks, func(l ProbeResult) bool {
		return l.Stage == stage && slices.Contains(looks,
			l.Name)
	})
}

// quietly makes a story one in which nothing may be blamed, and nothing was.
func (s *Story) quietly() {
	s.Plan.Scenario.Expect.Blame = chaos.Blame{None: true}
	s.Walks[2] = s.Walks[1]
	s.Walks[1].N, s.Walks[2].N, s.Walks[1].BeganMS, s.Walks[2].BeganMS = 3, 4, 2100, 3100
	s.Walks[1].EndedMS, s.Walks[2].EndedMS = 3000, 4000
	s.without(During, ProbeProof)
}

const (
	no = string(NotSeen)  // " word" follows if it has one
	vi = string(Violated) // " word" follows
)

// fact is one change of a passing run's facts, and the claims that it changes.
type fact struct {
	name   string
	change func(s *Story)
	claims map[string]string // state and word, by claim; those that are not named are held
	text   string            // part of the verdict's
	word   Word
}

// TestFacts: each fact by itself changes those claims that are about it, and no other.
func TestFacts(t *testing.T) {
	for _, f := range slices.Concat(factsBefore(), factsDuring(), factsOfTerminals(), factsAfter()) {
		t.Run(f.name, func(t *testing.T) {
			s := passing()
			f.change(s)
			got := map[string]string{}
			for _, c := range s.Claims() {
				if c.State != Held {
					got[c.ID] = strings.TrimSpace(string(c.State) + " " + string(c.Word))
				}
			}
			if !maps.Equal(got, f.claims) {
				t.Errorf("claims %v, want %v", got, f.claims)
			}
			if v := s.Verdict(); v.Word != f.word || !strings.Contains(v.Text, f.text) || v.Text == "" {
				t.Errorf("%s: %s; want %s: ...%s...", v.Word, v.Text, f.word, f.text)
			}
		})
	}
}

// TestHeldTexts: what a claim that is held says, which a reader takes for measured.
func TestHeldTexts(t *testing.T) {
	says := func(change func(s *Story)) map[string]string {
		s, all := passing(), map[string]string{}
		change(s)
		for _, c := range s.Claims() {
			if c.State == Held && c.Text != "" {
				all[c.ID] = c.Text
			}
		}
		return all
	}
	want := map[string]string{
		ClaimArmed: "n1; n2", ClaimInjected: "after 0.4s", ClaimControl: "after 0.0s", ClaimProof: "after 0.0s",
		ClaimDetected: "node_runtime_api_reachability node_agent_api_unreachable", ClaimInTime: "within 2 s of 10 s",
		ClaimSpared: "2 hops", ClaimTold: "nothing of a user's failed", ClaimGreenAfter: "between 1 s and 2 s of 20 s",
		ClaimReverted: "n1 in 1 ms; n2 in 0 ms",
	}
	if got := says(func(s *Story) { s.Machines[0].UndoUS = 1400 }); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	told := func(terminal, saw string) string {
		return says(func(s *Story) {
			s.walkOf(4).UserSaw = saw
			if terminal != "" {
				s.Plan.Scenario.Expect.Terminal = terminal
				s.Looks = append(s.Looks, ProbeResult{Seen{Name: ProbeTerminal, Stage: During, Held: true, Why: "closed"}, 1})
			}
		})[ClaimTold]
	}
	for _, tc := range [][3]string{{"", "", "nothing of a user's failed"}, {"", "HTTP 502", "HTTP 502"},
		{"node_lost", "", "a terminal that was open before: closed"},
		{"node_lost", "HTTP 502", "a terminal that was open before: closed; then HTTP 502"}} {
		if got := told(tc[0], tc[1]); got != tc[2] {
			t.Errorf("terminal %q, saw %q: %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}

func factsBefore() []fact {
	guard := vi + " aborted_guard"
	return []fact{
		{"pass", func(*Story) {}, map[string]string{},
			"node_agent_api_unreachable, seen within 2 s of 10 s; green again between 1 s and 2 s of 20 s", Pass},
		{"refused", func(s *Story) {
			s.Refused = []chaos.Refusal{{Machine: "n1", Refusal: step.Refusal{Code: step.RefusedLocked, Text: "no"}}}
		}, map[string]string{ClaimGuards: guard}, "n1: locked: no", AbortedGuard},
		{"stopped", func(s *Story) { s.Stopped = "stopIf" }, map[string]string{ClaimGuards: guard}, "stopIf", AbortedGuard},
		{"interrupted", func(s *Story) { s.Interrupted = "by the operator" }, map[string]string{}, "by the operator",
			Infra},
		{"no log", func(s *Story) { s.Plan.Hash = "" }, map[string]string{ClaimGuards: no, ClaimArmed: no}, "", Infra},
		{"red before", func(s *Story) { s.walkOf(1).Outcome = diag.OutcomeFail },
			map[string]string{ClaimGreenBefore: guard}, "not green before", AbortedGuard},
		{"red at first", func(s *Story) {
			red := *s.walkOf(1)
			red.Outcome, red.N = diag.OutcomeFail, 0
			s.Walks = slices.Insert(s.Walks, 0, red)
		}, map[string]string{}, "", Pass},
		{"no walk before", func(s *Story) { s.without(Before) }, map[string]string{ClaimGreenBefore: no}, "", Infra},
		{"a probe that always sees", func(s *Story) { s.LastProbe(Before, ProbeInjected).Held = true },
			map[string]string{ClaimProbes: guard}, "before anything is touched", AbortedGuard},
		{"a control that never passes", func(s *Story) { s.LastProbe(Before, ProbeControl).Held = false },
			map[string]string{ClaimProbes: guard}, "what must still work does not", AbortedGuard},
		{"a control that could not run", func(s *Story) {
			l := s.LastProbe(Before, ProbeControl)
			l.Held, l.NotRun = false, true
		}, map[string]string{ClaimProbes: no}, "", Infra},
		{"a probe that could not run", func(s *Story) { s.LastProbe(Before, ProbeInjected).NotRun = true },
			map[string]string{ClaimProbes: no}, "", Infra},
		{"no probe before", func(s *Story) { s.without(Before, ProbeInjected) },
			map[string]string{ClaimProbes: no}, "", Infra},
		{"no control before", func(s *Story) { s.without(Before, ProbeControl) },
			map[string]string{ClaimProbes: no}, "", Infra},
		{"a proof that always holds", func(s *Story) { s.LastProbe(During, ProbeProof).Held = true },
			map[string]string{ClaimProbes: guard}, "prove nothing", AbortedGuard},
		{"no proof during", func(s *Story) { s.without(During, ProbeProof) },
			map[string]string{ClaimProbes: no}, "", Infra},
		{"no proof during, and nothing is to be blamed", func(s *Story) { s.quietly() }, map[string]string{},
			"nothing was blamed, in a walk that ended within 2 s of 10 s; green", Pass},
		{"one not armed", func(s *Story) { s.Machines[1].Armed = false }, map[string]string{ClaimArmed: no}, "", Infra},
		{"no machines", func(s *Story) { s.Machines = nil }, map[string]string{ClaimGuards: no, ClaimArmed: no,
			ClaimInTime: no, ClaimKept: no, ClaimReverted: no, ClaimGreenAfter: no, ClaimClean: no, ClaimClosed: no}, "",
			Infra},
	}
}
