package preflight

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestHealthyWalkPassesOnMeasuredFacts(t *testing.T) {
	r := walkWith(t, nil)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("outcome %s\n%s", r.Verdict.Outcome, describe(r))
	}
	if len(r.Hops) != len(usualHops()) {
		t.Fatalf("%d hops reported, %d declared", len(r.Hops), len(usualHops()))
	}
	for _, h := range r.Hops {
		if h.Status != diag.StatusPass || h.Text == "" || len(h.Evidence) == 0 {
			t.Errorf("%s: %s, text %q, evidence %v", h.ID, h.Status, h.Text, h.Evidence)
		}
	}
	if r.Dashboard.NodeAgentStatus != "healthy" || r.Dashboard.TerminalReadiness != "pty_ready" {
		t.Errorf("dashboard %+v", r.Dashboard)
	}
}

func TestAWalkWithoutAllocationSkipsTheTerminalAndCanPass(t *testing.T) {
	e := testEnv()
	e.Subject.AllocationID = ""
	v := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator}, hop.Node: &scripted{name: hop.Node}}
	plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, hop.Options{Session: true, Token: true, SSH: true})
	facts, ended := walkPlan(t, e, plan, v, nil)
	r := &diag.Report{Subject: e.Subject, Plan: plan, Facts: facts, Run: diag.Run{EndedBy: ended}}
	verdict.Judge(hops.BuiltIn(), r)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("%s\n%s", r.Verdict.Outcome, describe(r))
	}
	for _, id := range []diag.HopID{diag.HopAllocationBinding, diag.HopTerminalTokenMint, diag.HopBrowserTerminalWS,
		diag.HopAppUserRoute} {
		if h := hopOf(r, id); h.Status != diag.StatusSkipped || h.Because != "no --allocation-id given" {
			t.Errorf("%s: %s %q", id, h.Status, h.Because)
		}
	}
}

func TestEveryEndingButCompletionIsNoPass(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want diag.EndedBy
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, diag.EndedDeadline},
		"interrupt": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}, diag.EndedInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tc.end(context.Background())
				defer cancel()
				r := walkUntil(ctx, nil, "node_ops_access/ssh")
				if r.Run.EndedBy != tc.want || r.Verdict.Outcome != diag.OutcomeInconclusive {
					t.Fatalf("ended by %s, outcome %s\n%s", r.Run.EndedBy, r.Verdict.Outcome, describe(r))
				}
				if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusInconclusive {
					t.Errorf("a hop that was cut short is %s", h.Status)
				}
				if h := hopOf(r, diag.HopControlPlaneAccess); h.Status != diag.StatusPass {
					t.Errorf("what had been measured is %s", h.Status)
				}
			})
		})
	}
}

func TestOneSilentHopDoesNotEatTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := walkUntil(t.Context(), nil, "node_readiness/disk")
		if d := time.Since(began); d > 8*time.Second {
			t.Errorf("the walk took %s, more than the silent hop's budget", d)
		}
		for _, h := range r.Hops {
			want := diag.StatusPass
			switch h.ID {
			case diag.HopNodeReadiness:
				want = diag.StatusInconclusive
			}
			if h.Status != want {
				t.Errorf("%s is %s, want %s (%s)", h.ID, h.Status, want, h.Because)
			}
		}
	})
}

func TestObserverSeesEveryHopOnce(t *testing.T) {
	e := testEnv()
	v := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator}, hop.Node: &scripted{name: hop.Node}}
	done := map[diag.HopID]int{}
	started := map[diag.HopID]int{}
	walkPlan(t, e, testPlan(e), v, func(ev walk.Event) {
		switch ev.Kind {
		case walk.HopStarted:
			started[ev.Hop]++
		case walk.HopDone:
			done[ev.Hop]++
		}
	})
	for _, id := range usualHops() {
		if done[id] != 1 {
			t.Errorf("%s was done %d times", id, done[id])
		}
		if started[id] != 1 {
			t.Errorf("%s was started %d times", id, started[id])
		}
	}
}

// TestPatience: a larger budget in the profile stretches the time-outs of the hop's steps, and a smaller one cuts them.
func TestPatience(t *testing.T) {
	h := &hop.Hop{Budget: 5 * time.Second}
	for _, c := range []struct{ step, budget, want time.Duration }{
		{4 * time.Second, 5 * time.Second, 4 * time.Second},
		{4 * time.Second, 20 * time.Second, 16 * time.Second},
		{4 * time.Second, 3 * time.Second, 2 * time.Second},
		{4 * time.Second, time.Second, 500 * time.Millisecond},
		{0, 5 * time.Second, 4 * time.Second},
		{0, time.Second, 500 * time.Millisecond},
	} {
		if got := h.PatienceFor(hop.Step{Timeout: c.step}, c.budget); got != c.want {
			t.Errorf("a step of %s in a budget of %s may take %s, want %s", c.step, c.budget, got, c.want)
		}
	}
}

// TestTheEndOfAWalkIsNoRace: what a walk keeps of the requests that its end cut short does not depend on which of its
// parts notices the end first.
func TestTheEndOfAWalkIsNoRace(t *testing.T) {
	for _, hang := range []string{"node_readiness/disk", "node_ops_access/ssh", "node_runtime_api_reachability/reach"} {
		first := ""
		for range 12 {
			seen := inMadeUpTime(t, func(t *testing.T) string {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				r := walkUntil(ctx, nil, hang)
				var b strings.Builder
				for i := range r.Facts {
					b.WriteString(r.Facts[i].ID + "\n")
				}
				return b.String() + describe(r)
			})
			if first == "" {
				first = seen
			}
			if seen != first {
				t.Fatalf("%s: one walk has\n%s\nanother has\n%s", hang, first, seen)
			}
		}
		if !strings.Contains(first, hang+"\n") {
			t.Errorf("%s was sent, and is not in\n%s", hang, first)
		}
	}
}
