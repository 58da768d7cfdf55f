package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRevertOne: one machine is asked until it is known to be reverted; what it answers decides what is recorded.
func TestRevertOne(t *testing.T) {
	status := func(state step.State, phase, why string) answer {
		return answer{reply: step.Reply{Status: &step.Status{State: state, Phase: phase, Why: why}}}
	}
	back := status(step.Reverted, step.PhaseOver, step.WhyAsked)
	stuck := status(step.Failed, step.PhaseReverting, step.WhyAsked)
	busy := answer{reply: step.Reply{Refused: step.Refuse(step.RefusedBusy, "no")}}
	cut, gone := answer{err: errors.New("cut")}, answer{reply: step.Reply{Refused: none}}
	const armed, unconfirmed = 1, 2
	for name, tc := range map[string]struct {
		flags   int
		answers []answer
		kinds   []Kind // what is recorded
		took    time.Duration
	}{
		"reverted": {armed, []answer{back}, []Kind{Reverting, Reverted}, 0},
		"never begun": {armed, []answer{status(step.Planned, step.PhaseOver, step.WhyAsked)},
			[]Kind{Reverting, Reverted}, 0},
		"planned, armed": {armed, []answer{status(step.Planned, step.PhaseArmed, ""), back},
			[]Kind{Reverting, Trouble, Reverted}, retryPause},
		"conflict": {armed, []answer{status(step.Conflict, step.PhaseOver, step.WhyAsked)},
			[]Kind{Reverting, Reverted}, 0},
		"by itself, before it was asked": {armed, []answer{status(step.Reverted, step.PhaseOver, step.WhyLease)},
			[]Kind{Reverting, Lost, Reverted}, 0},
		"by itself, while it was out of reach": {armed, []answer{cut, status(step.Reverted, step.PhaseOver, step.WhyLease)},
			[]Kind{Reverting, Trouble, Reverted}, retryPause},
		"stuck, twice": {armed, []answer{stuck, stuck, back}, []Kind{Reverting, Trouble, Reverted},
			2 * retryPause},
		"cut, then stuck": {armed, []answer{cut, stuck, back}, []Kind{Reverting, Trouble, Trouble, Reverted},
			2 * retryPause},
		"refused":     {armed, []answer{busy, back}, []Kind{Reverting, Trouble, Reverted}, retryPause},
		"gone":        {armed, []answer{gone}, []Kind{Reverting, Lost, Closed}, 0},
		"never armed": {0, []answer{gone}, []Kind{Reverting, Closed}, 0},
		"it may yet arm, and does": {unconfirmed, []answer{gone, gone, back}, []Kind{Reverting, Reverted},
			2 * retryPause},
		"it may yet arm, and does not": {unconfirmed, slices.Repeat([]answer{gone}, 35), []Kind{Reverting, Closed},
			34 * retryPause},
		"it may not arm any more": {unconfirmed, []answer{{after: armTimeout, reply: gone.reply}},
			[]Kind{Reverting, Closed},
			armTimeout},
		"it may arm in the last moment": {unconfirmed, []answer{{after: armTimeout - 1, reply: gone.reply}, gone},
			[]Kind{Reverting, Closed}, armTimeout - 1 + retryPause},
		"it was seen armed, and is gone": {armed | unconfirmed, []answer{gone}, []Kind{Reverting, Lost, Closed}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := runnerOf(Event{Kind: Arming, Machine: "n1"})
			time.Sleep(time.Second) // the time of a request to revert is never 0
			if tc.flags&armed != 0 {
				r.record(Event{Kind: Armed, Machine: "n1"})
				r.kept["n1"] = time.Now()
			}
			r.armUnconfirmed["n1"] = tc.flags&unconfirmed != 0
			var kinds []Kind
			r.Observe = func(e Event, _ *Story) { kinds = append(kinds, e.Kind) }
			began := time.Now()
			m := &machine{answers: map[string][]answer{"revert": tc.answers}}
			r.revert(t.Context(), r.Plan.Targets[0], m, time.Minute)
			if !slices.Equal(kinds, tc.kinds) || time.Since(began) != tc.took || len(m.answers["revert"]) > 0 {
				t.Errorf("%s: %q after %v, want %q after %v; not asked %d times", name, kinds, time.Since(began), tc.kinds,
					tc.took, len(m.answers["revert"]))
			}
			kinds = nil
			r.revert(t.Context(), r.Plan.Targets[0], m, time.Minute)
			if len(kinds) > 0 {
				t.Errorf("%s: asked again: %q", name, kinds)
			}
		})
	}
}

// TestRevertGivesUp: a machine is given up after that time, and asked again later without a second announcement.
func TestRevertGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runnerOf()
		m := &machine{answers: map[string][]answer{"revert": slices.Repeat([]answer{{err: errors.New("cut")}}, 4)}}
		r.revert(t.Context(), r.Plan.Targets[0], m, time.Minute)
		if len(m.asked) > 0 {
			t.Errorf("a machine that was not touched was asked: %q", m.asked)
		}
		time.Sleep(time.Second)
		r.record(Event{Kind: Arming, Machine: "n1"})
		began := time.Now()
		for range 2 {
			r.revert(t.Context(), r.Plan.Targets[0], m, retryPause+1)
		}
		p := r.story.Machines[0]
		if time.Since(began) != 2*(retryPause+1) || len(m.asked) != 4 || p.RevertedMS != 0 || p.AskedMS != 1000 {
			t.Errorf("%v, asked %q, %+v", time.Since(began), m.asked, p)
		}
		m.answers["revert"] = []answer{{after: time.Minute, err: errors.New("nobody waits for it")}}
		r.revert(t.Context(), r.Plan.Targets[0], m, time.Second)
		if len(r.story.Trouble) != 2 || r.story.Trouble[1] != "n1: revert: cut" {
			t.Errorf("trouble %q", r.story.Trouble)
		}
		// It answers now, and reverted itself: whether before it was asked is not known, since the first answer was lost.
		r.record(Event{Kind: Armed, Machine: "n1"})
		r.kept["n1"] = began
		m.answers["revert"] = []answer{{reply: step.Reply{Status: &step.Status{State: step.Reverted, Phase: step.PhaseOver,
			Why: step.WhyLease}}}}
		r.revert(t.Context(), r.Plan.Targets[0], m, time.Minute)
		if p := r.story.Machines[0]; p.Lost != "" || p.RevertedMS == 0 {
			t.Errorf("%+v", p)
		}
	})
}

// TestAsk: an idempotent request is repeated until there is an answer, or nobody waits.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := answer{err: errors.New("cut")}
		m := &machine{answers: map[string][]answer{"verify": {cut, cut, {reply: step.Reply{Clean: new(true)}}}}}
		began := time.Now()
		if reply, err := runnerOf().ask(t.Context(), m, "verify"); err != nil || reply.Clean == nil ||
			time.Since(began) != 2*retryPause {
			t.Errorf("%+v, %v after %v", reply, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), retryPause/2)
		defer cancel()
		m.answers["verify"] = []answer{cut, cut}
		if _, err := runnerOf().ask(ctx, m, "verify"); err == nil || len(m.answers["verify"]) > 0 {
			t.Errorf("%v, %d left", err, len(m.answers["verify"]))
		}
	})
}

// TestWatchEnds: a walk that was cut short proves nothing, not even that a drill must be stopped.
func TestWatchEnds(t *testing.T) {
	for _, cut := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := runnerOf()
		r.Plan.Scenario.Guards.StopIf = []diag.HopID{diag.HopNodeHeartbeat}
		r.Plan.Budgets.DetectWithin = secs(10)
		r.Walk = func(context.Context) *diag.Report {
			if cut {
				cancel()
			}
			return &diag.Report{Hops: []diag.HopResult{{ID: diag.HopNodeHeartbeat,
				Finding: diag.Finding{Status: diag.StatusFail}}}}
		}
		ended, end := context.WithCancel(ctx)
		end()
		walk := r.Walk
		r.Walk = func(context.Context) *diag.Report { t.Error("a walk after the end"); return nil }
		r.watch(ended, func(error) {})
		r.Walk = walk
		why := error(nil)
		r.watch(ctx, func(err error) { why = err })
		if (r.story.Stopped == "") != cut || (why == nil) != cut || (len(r.story.Walks) == 0) != cut {
			t.Errorf("cut short %v: stopped %q, %v, %d walks", cut, r.story.Stopped, why, len(r.story.Walks))
		}
	}
}

// TestDecide: why the platform did not take a decision.
func TestDecide(t *testing.T) {
	r, decision := runnerOf(), chaos.Decision{Path: "/x", Reason: "y"}
	if got := r.decide(t.Context(), decision); !strings.Contains(got, "not available") {
		t.Errorf("%q", got)
	}
	for _, err := range []error{nil, errors.New("409")} {
		r.Decide = func(ctx context.Context, d chaos.Decision) error {
			if _, bounded := ctx.Deadline(); !bounded || d != decision {
				t.Errorf("%+v, bounded %v", d, bounded)
			}
			return err
		}
		want := ""
		if err != nil {
			want = err.Error()
		}
		if got := r.decide(t.Context(), decision); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
