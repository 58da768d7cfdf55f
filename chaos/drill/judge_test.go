package drill

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestJudge: what a walk must say to be a detection; each row changes one thing of an expectation or of a walk that
// fits it.
func TestJudge(t *testing.T) {
	warned := diag.Blame{Hop: diag.HopGPUHealth, Signal: diag.SigGPUDegraded, Status: diag.StatusWarn}
	wantsWarning := func(e *chaos.Expect) {
		e.Blame.Finding = chaos.Finding{Hop: []diag.HopID{warned.Hop}, Signal: []diag.Signal{warned.Signal},
			Status: diag.StatusWarn}
	}
	quiet := func(e *chaos.Expect, w *WalkView) {
		*e = chaos.Expect{Blame: chaos.Blame{None: true}}
		w.Blame, w.Outcome = nil, diag.OutcomePass
	}
	for name, tc := range map[string]struct {
		change func(e *chaos.Expect, w *WalkView)
		word   Word
		text   string
	}{
		"fits": {func(*chaos.Expect, *WalkView) {}, Pass, ""},
		"nothing": {func(_ *chaos.Expect, w *WalkView) { w.Blame = nil }, NotDetected,
			"blames nothing (fail), want node_runtime_api_reachability"},
		"another hop": {func(_ *chaos.Expect, w *WalkView) { w.Blame.Hop = diag.HopNodeHeartbeat }, WrongHop,
			"blames node_heartbeat"},
		"another signal": {func(_ *chaos.Expect, w *WalkView) { w.Blame.Signal = diag.SigHeartbeatStale }, WrongHop,
			"blames node_runtime_api_reachability"},
		"one of two failures": {func(e *chaos.Expect, w *WalkView) {
			e.Blame.Failure, w.Blame.Failure = []diag.Failure{diag.TCPRefused, diag.TCPTimeout}, diag.TCPTimeout
		}, Pass, ""},
		"a third failure": {func(e *chaos.Expect, w *WalkView) {
			e.Blame.Failure, w.Blame.Failure = []diag.Failure{diag.TCPRefused}, diag.TCPTimeout
		}, WrongHop, "(tcp_timeout), want"},
		"quiet": {quiet, Pass, ""},
		"quiet, and blame": {func(e *chaos.Expect, w *WalkView) {
			blame := w.Blame
			quiet(e, w)
			w.Blame = blame
		}, WrongHop, "and nothing should be"},
		"quiet, and cut short": {func(e *chaos.Expect, w *WalkView) { quiet(e, w); w.EndedBy = diag.EndedInterrupted },
			NotDetected, "is no pass"},
		"quiet, and an operator must act": {func(e *chaos.Expect, w *WalkView) {
			quiet(e, w)
			w.UserState = diag.UserOperator
		}, NotDetected, "is no pass"},
		"a warning": {func(e *chaos.Expect, w *WalkView) {
			wantsWarning(e)
			w.Blame, w.Unfailed = nil, []diag.Blame{{Hop: diag.HopNodeHeartbeat, Status: diag.StatusWarn}, warned}
		}, Pass, ""},
		"an inconclusive hop for a warning": {func(e *chaos.Expect, w *WalkView) {
			wantsWarning(e)
			other := warned
			other.Status = diag.StatusInconclusive
			w.Blame, w.Unfailed = nil, []diag.Blame{other}
		}, NotDetected, "blames nothing"},
		"a failure for a warning": {func(e *chaos.Expect, w *WalkView) {
			wantsWarning(e)
			w.Unfailed = []diag.Blame{warned}
		}, WrongHop, "(warn)"},
		"a warning for a failure": {func(_ *chaos.Expect, w *WalkView) {
			other := *w.Blame
			other.Status = diag.StatusWarn
			w.Blame, w.Unfailed = nil, []diag.Blame{other}
		}, NotDetected, "blames nothing"},
		"others are there": {func(e *chaos.Expect, w *WalkView) {
			e.Others = []chaos.Finding{e.Blame.Finding, {Hop: []diag.HopID{diag.HopNodeReadiness},
				Signal: []diag.Signal{diag.SigDiskFull}}}
			w.Others = []diag.Blame{{Hop: diag.HopNodeReadiness, Signal: diag.SigDiskFull}}
		}, Pass, ""},
		"another is not": {func(e *chaos.Expect, w *WalkView) {
			e.Others = []chaos.Finding{{Hop: []diag.HopID{diag.HopNodeReadiness}, Signal: []diag.Signal{diag.SigDiskFull}}}
		}, NotDetected, "does not find node_readiness disk_full as well"},
		"one of two first": {func(e *chaos.Expect, w *WalkView) {
			e.FirstFailedHop = []diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRuntimeAPI}
			w.FirstFailed = diag.HopNodeRuntimeAPI
		}, Pass, ""},
		"another first": {func(e *chaos.Expect, w *WalkView) {
			e.FirstFailedHop, w.FirstFailed = []diag.HopID{diag.HopNodeOpsAccess}, diag.HopNodeRuntimeAPI
		}, WrongHop, "failed first, want node_ops_access"},
		"the reason": {func(e *chaos.Expect, w *WalkView) {
			e.Reason, w.Reason = []diag.ReasonCode{diag.ReasonAgentDown}, diag.ReasonAgentDown
		}, Pass, ""},
		"another reason": {func(e *chaos.Expect, w *WalkView) {
			e.Reason, w.Reason = []diag.ReasonCode{diag.ReasonAgentDown}, diag.ReasonClonedIdentity
		}, NotDetected, "gives the reason cloned_identity_detected, want agent_down"},
		"not named by the platform": {func(_ *chaos.Expect, w *WalkView) {
			w.Unnamed = []diag.HopID{diag.HopGatewayNodeStream}
		}, NotDetected, "the platform's read model does not say so"},
		"a hop that must stay green warns":        {green(diag.StatusWarn), Pass, ""},
		"a hop that must stay green was left out": {green(diag.StatusSkipped), Pass, ""},
		"a hop that must stay green fails": {green(diag.StatusFail), Collateral,
			"control_plane_access is fail, and must stay green"},
		"a hop that must stay green is not known": {green(diag.StatusInconclusive), Collateral,
			"control_plane_access is inconclusive"},
		"a hop that must stay green was not reached": {green(diag.StatusNotReached), Collateral,
			"control_plane_access is not_reached"},
		"the id is not everywhere": {func(_ *chaos.Expect, w *WalkView) { w.Unlinked = []string{"gateway", "agent"} },
			Collateral, "of gateway, agent nothing is written down"},
		"the id need not be": {func(e *chaos.Expect, w *WalkView) {
			w.Unlinked, e.SameCorrelationID = []string{"gateway"}, false
		}, Pass, ""},
	} {
		s := passing()
		w, e := s.walkOf(4), &s.Plan.Scenario.Expect
		e.MustStayGreen = chaos.StayGreen{Hops: []diag.HopID{diag.HopControlPlaneAccess}}
		tc.change(e, w)
		if word, text := Judge(*e, *w); word != tc.word || !strings.Contains(text, tc.text) ||
			(text == "") != (word == Pass) {
			t.Errorf("%s: %s %q, want %s ...%s...", name, word, text, tc.word, tc.text)
		}
	}
}

func green(status diag.Status) func(*chaos.Expect, *WalkView) {
	return func(_ *chaos.Expect, w *WalkView) { w.Hops[diag.HopControlPlaneAccess] = status }
}

// TestDetected: where nothing may be blamed, two walks in a row must say so, after the probe saw the fault.
func TestDetected(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Story)
		want   int // number of the walk; 0: none
	}{
		"two in a row":              {func(*Story) {}, 4},
		"the second is red":         {func(s *Story) { s.walkOf(4).Outcome = diag.OutcomeFail }, 0},
		"red between them":          {func(s *Story) { between(s, diag.OutcomeFail) }, 0},
		"three in a row":            {func(s *Story) { between(s, diag.OutcomePass) }, 4},
		"one began too early":       {func(s *Story) { s.walkOf(3).BeganMS = 2099 }, 0},
		"one began at that moment":  {func(s *Story) { s.walkOf(3).BeganMS = 2100 }, 4},
		"nobody looked":             {func(s *Story) { s.without(During, ProbeInjected) }, 0},
		"the probe saw nothing":     {func(s *Story) { s.fails(During, ProbeInjected) }, 0},
		"what is to be blamed once": {func(s *Story) { *s = *passing() }, 4},
		"what is to be blamed, and the probe saw nothing": {func(s *Story) {
			*s = *passing()
			s.fails(During, ProbeInjected)
		}, 4},
	} {
		s := passing()
		s.quietly()
		tc.change(s)
		n := 0
		if w := s.detected(); w != nil {
			n = w.N
		}
		if n != tc.want {
			t.Errorf("%s: walk %d, want %d", name, n, tc.want)
		}
	}
}

// between adds a walk with that outcome between the two of the fault.
func between(s *Story, outcome diag.Outcome) {
	w := *s.walkOf(3)
	w.N, w.Outcome = 33, outcome
	if outcome == diag.OutcomePass {
		s.walkOf(4).N, w.N = 5, 4
	}
	s.Walks = append(s.Walks[:2], append([]WalkView{w}, s.Walks[2:]...)...)
}

// TestTimings: an interval that reaches past its budget is over it; figures are rounded outwards.
func TestTimings(t *testing.T) {
	budget := chaos.Duration(10 * time.Second)
	for want, tc := range map[string]struct {
		t    Timing
		over bool
	}{
		"not within 10 s":                   {Timing{Budget: budget}, false},
		"within 1.1 s of 10 s":              {Timing{true, 0, 1001, budget}, false},
		"within 10 s of 10 s":               {Timing{true, 0, 10_000, budget}, false},
		"within 10.1 s of 10 s":             {Timing{true, 0, 10_001, budget}, true},
		"between 0.00 s and 0.01 s of 10 s": {Timing{true, 1, 2, budget}, false},
		"between 1.9 s and 2.0 s of 10 s":   {Timing{true, 1999, 1999, budget}, false},
		"between 99.9 s and 100.0 s of 1.5 s": {Timing{true, 99_999, 99_999, chaos.Duration(1500 * time.Millisecond)},
			true},
		"between 100 s and 102 s of 0.40 s": {Timing{true, 100_999, 101_001, chaos.Duration(400 * time.Millisecond)},
			true},
		"between 0.99 s and 1.00 s of 1.0 s": {Timing{true, 999, 999, chaos.Duration(1001 * time.Millisecond)}, false},
		"between 1 s and 2 s of 10 s":        {Timing{true, 1000, 2000, budget}, false},
	} {
		if got := tc.t.String(); got != want || tc.t.over() != tc.over {
			t.Errorf("%q, over %v; want %q, over %v", got, tc.t.over(), want, tc.over)
		}
	}
	if got := Rounded(100_000, math.Floor) + " " + Seconds(1999); got != "100 1.9s" {
		t.Error(got)
	}
}

// TestBrackets: an event happened after the last walk that did not show it, and never before the change.
func TestBrackets(t *testing.T) {
	for name, tc := range map[string]struct {
		change                  func(s *Story)
		detect, recover, inject Timing
	}{
		"as it was": {func(*Story) {}, Timing{true, 0, 2000, secs(10)}, Timing{true, 1000, 2000, secs(20)},
			Timing{true, 0, 400, secs(3)}},
		"a walk during that saw nothing": {func(s *Story) { s.walkOf(2).EndedMS = 2600 },
			Timing{true, 600, 2000, secs(10)}, Timing{true, 1000, 2000, secs(20)}, Timing{true, 0, 400, secs(3)}},
		"walks that end before": {func(s *Story) {
			s.walkOf(4).EndedMS, s.walkOf(7).EndedMS, s.walkOf(8).EndedMS = 1500, 5900, 5950
			s.walkOf(8).BeganMS = 6000
		}, Timing{true, 0, 1, secs(10)}, Timing{true, 0, 1, secs(20)}, Timing{true, 0, 400, secs(3)}},
		"not in place": {func(s *Story) { s.Machines[0].Against = "no" },
			Timing{false, 2000, 0, secs(10)}, Timing{true, 1000, 2000, secs(20)}, Timing{true, 0, 400, secs(3)}},
		"not back": {func(s *Story) { s.Machines[0].State = step.Conflict },
			Timing{true, 0, 2000, secs(10)}, Timing{false, 7000, 0, secs(20)}, Timing{true, 0, 400, secs(3)}},
		"nothing detected": {func(s *Story) {
			s.walkOf(4).Blame.Hop = diag.HopNodeHeartbeat
			s.fails(During,
				ProbeInjected)
		},
			Timing{false, 2000, 0, secs(10)}, Timing{true, 1000, 2000, secs(20)}, Timing{false, 0, 0, secs(3)}},
	} {
		s := passing()
		tc.change(s)
		if d, r, i := s.detect(), s.recovered(), s.injected(); d != tc.detect || r != tc.recover || i != tc.inject {
			t.Errorf("%s: detected %+v, recovered %+v, injected %+v", name, d, r, i)
		}
	}
}

// TestGreenInARow: how many walks must be green after the revert, and one at the least.
func TestGreenInARow(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, walks int
		red           bool // the last one
		first         int  // number of the walk; 0: none
		enough        bool
	}{
		"two of two": {2, 3, false, 8, true}, "one of two": {2, 2, false, 8, false}, "one of one": {1, 2, false, 8, true},
		"none of one": {1, 1, false, 0, false}, "none of none": {0, 1, false, 0, false},
		"two, then red": {2, 3, true, 0, false},
		"three wanted":  {3, 3, false, 8, false},
	} {
		s := passing()
		s.Plan.Scenario.Recovery.Green = tc.wanted
		s.Walks = s.Walks[:3+tc.walks]
		if tc.red {
			s.walkOf(9).Outcome = diag.OutcomeFail
		}
		n := 0
		first, enough := s.green()
		if first != nil {
			n = first.N
		}
		if n != tc.first || enough != tc.enough {
			t.Errorf("%s: walk %d, enough %v", name, n, enough)
		}
	}
}

// TestBack: when every armed machine is known to be as it was; one that was not armed does not count.
func TestBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Story)
		ms     int64
		ok     bool
	}{
		"both":                {func(*Story) {}, 6000, true},
		"the first was later": {func(s *Story) { s.Machines[0].RevertedMS = 7000 }, 7000, true},
		"one is not known":    {func(s *Story) { s.Machines[0].RevertedMS = 0 }, 0, false},
		"in the first moment": {func(s *Story) { s.Machines[0].RevertedMS, s.Machines[1].RevertedMS = 1, 1 }, 1, true},
		"one ended by itself": {func(s *Story) { s.Machines[0].State = step.Lost }, 6000, true},
		"one never began":     {func(s *Story) { s.Machines[0].State = step.Planned }, 6000, true},
		"one is in conflict":  {func(s *Story) { s.Machines[0].State = step.Conflict }, 0, false},
		"one was not armed": {func(s *Story) { s.Machines[1].Armed, s.Machines[1].RevertedMS = false, 0 },
			5500, true},
		"none was": {func(s *Story) { s.Machines = nil }, 0, false},
	} {
		s := passing()
		tc.change(s)
		if ms, ok := s.RevertedAt(); ms != tc.ms || ok != tc.ok {
			t.Errorf("%s: %d %v, want %d %v", name, ms, ok, tc.ms, tc.ok)
		}
	}
	s := passing()
	if ms, ok := s.InPlace(); ms != 2000 || !ok {
		t.Errorf("in place at %d, %v", ms, ok)
	}
	s.Machines[0].Made["block"] = 2500
	if ms, ok := s.InPlace(); ms != 2500 || !ok {
		t.Errorf("in place at %d, %v", ms, ok)
	}
	s.Machines = s.Machines[1:]
	if _, ok := s.InPlace(); ok {
		t.Error("in place on a machine that is not there")
	}
}
