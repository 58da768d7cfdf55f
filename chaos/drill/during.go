package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// errEnough ends the tasks that run while the fault is in place.
var errEnough = errors.New("enough is seen")

// during injects the faults, and walks until the chain reports what is expected, or the time for that is over. It
// ends before the TTL on the machines does.
func (r *runner) during(ctx context.Context, until time.Time, end context.CancelCauseFunc, terminal *openTerminal) {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if r.breaking(bounded) {
		var wg sync.WaitGroup
		for _, l := range [...]chaos.PlannedProbe{r.Plan.Injected, r.Plan.Control} {
			wg.Go(func() {
				if !r.runProbe(bounded, l, During, true) && bounded.Err() == nil {
					end(errEnough) // the chain's reports would not be about the fault
				}
			})
		}
		if terminal != nil {
			wg.Go(func() { r.ended(bounded, terminal) })
		}
		if !r.Plan.Scenario.Expect.Blame.None { // the proof of repair must fail now, unless the fault repairs itself
			wg.Go(func() { r.runProbe(bounded, r.Plan.Proof, During, false) })
		}
		r.watch(bounded, end)
		wg.Wait() // independent probes have their own time limits
	}
	if ctx.Err() == nil && bounded.Err() != nil && !r.hadTime() {
		r.record(Event{Kind: Stopped,
			Text: fmt.Sprintf("the ttl of %s is nearly over, and what the drill needs was not", r.Plan.Budgets.TTL)})
	}
	end(errEnough)
}

// renew renews the drill's lease until ctx ends. This is where a machine that has reverted itself is noticed.
func (r *runner) renew(ctx context.Context, t chaos.PlannedMachine, m Machine, end context.CancelCauseFunc) {
	for asked := time.Now(); ; {
		sleep.For(ctx, max(retryPause, time.Until(asked.Add(step.RenewEvery))))
		if ctx.Err() != nil {
			return
		}
		asked = time.Now()
		// the lease is long enough for more than one attempt
		reply, err := try(ctx, m, step.RenewEvery, "renew", "--run", r.Plan.Run)
		none := reply.Refused != nil && reply.Refused.Code == step.RefusedNone
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.trouble(t.ID, fmt.Errorf("renew the lease: %w", err))
		case failed(reply.Status): // the response to the step reports it as well
			return
		case none || (reply.Status != nil && reply.Status.Phase != step.PhaseArmed):
			r.recordLost(t.ID, reply)
			end(errEnough)
			return
		case errorIn(reply) != "":
			r.trouble(t.ID, fmt.Errorf("renew the lease: %s", errorIn(reply)))
		default:
			r.keep(t.ID, asked)
			r.record(Event{Kind: Renewed, Machine: t.ID, Status: reply.Status})
		}
	}
}

// failed reports whether the machine has reverted itself because it could not make a change.
func failed(st *step.Status) bool {
	return st != nil && st.Phase != step.PhaseArmed && st.Why == step.WhyFailed
}

// recordLost records a machine that reverted before it was asked to, or that no longer has the drill.
func (r *runner) recordLost(id string, reply step.Reply) {
	if read(r, func(s *Story) bool { return s.part(id).Lost != "" }) {
		return
	}
	why := errorIn(reply)
	if st := reply.Status; st != nil {
		why = cmp.Or(st.Why, st.Phase)
	}
	r.record(Event{Kind: Lost, Machine: id, Text: why, Status: reply.Status})
}

// breaking makes every step at its scheduled time, in order on each machine. After a failed step, no further step
// begins.
func (r *runner) breaking(ctx context.Context) bool {
	zero := time.Now()
	var against atomic.Bool
	r.each(func(t chaos.PlannedMachine, m Machine) {
		for _, move := range r.Plan.Schedule {
			if move.Machine != t.ID {
				continue
			}
			sleep.For(ctx, time.Until(zero.Add(move.At.Std())))
			if ctx.Err() != nil || against.Load() {
				return
			}
			if !r.make(ctx, t, m, move.Step) {
				against.Store(true)
			}
		}
	})
	return read(r, func(s *Story) bool { _, ok := s.InPlace(); return ok })
}

// make makes one step. If the response is lost, it reads the machine's state and requests the step once more: the
// machine does not repeat a requested step, and only waits for it.
func (r *runner) make(ctx context.Context, t chaos.PlannedMachine, m Machine, id string) bool {
	if r.record(Event{Kind: Breaking, Machine: t.ID, Step: id}); ctx.Err() != nil {
		return false
	}
	reply, err := try(ctx, m, stepTimeout, "do", "--run", r.Plan.Run, "--step", id)
	if err != nil && ctx.Err() == nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		reply, err = try(ctx, m, readTimeout, "status", "--run", r.Plan.Run)
		if err == nil && reply.Status != nil && reply.Status.Phase == step.PhaseArmed {
			reply, err = try(ctx, m, stepTimeout, "do", "--run", r.Plan.Run, "--step", id)
		} else if err == nil && errorIn(reply) == "" {
			reply.Refused = step.Refuse(step.RefusedState, "it is not asked for again %s", state(reply.Status))
		}
	}
	if err != nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		return false
	}
	r.record(Event{Kind: Broken, Machine: t.ID, Step: id, Status: reply.Status, Text: errorIn(reply),
		TookUS: reply.TookUS})
	if st := reply.Status; errorIn(reply) != "" && (st == nil || st.Phase != step.PhaseArmed) && !failed(st) {
		r.recordLost(t.ID, reply)
	}
	return errorIn(reply) == ""
}

// hadTime reports whether every observation that the drill needs during the fault was made, or had its full time.
func (r *runner) hadTime() bool {
	now := time.Since(r.began).Milliseconds()
	return read(r, func(s *Story) bool {
		zero, placed := s.InPlace()
		in := s.LastProbe(During, ProbeInjected) != nil && s.LastProbe(During, ProbeControl) != nil &&
			(s.Plan.Scenario.Expect.Terminal == "" || s.LastProbe(During, ProbeTerminal) != nil)
		return placed && in && (s.detected() != nil || now-zero >= s.Plan.Budgets.DetectWithin.Std().Milliseconds())
	})
}

// watch walks until the chain has reported what is expected, or is late.
func (r *runner) watch(ctx context.Context, end context.CancelCauseFunc) {
	budget := r.Plan.Budgets.DetectWithin.Std()
	ctx, cancel := context.WithTimeout(ctx, budget+budget/2) // a detection after the budget is late, but worth reporting
	defer cancel()
	for ctx.Err() == nil {
		w := r.walk(ctx, During)
		if ctx.Err() != nil {
			return
		}
		for _, h := range r.Plan.Scenario.Guards.StopIf {
			if w.Hops[h] == diag.StatusFail {
				r.record(Event{Kind: Stopped, Text: fmt.Sprintf("%s failed, which ends the drill (stopIf)", h)})
				end(errEnough)
				return
			}
		}
		if read(r, func(s *Story) bool { return s.detected() != nil }) {
			return
		}
		sleep.For(ctx, retryPause)
	}
}

// runProbe runs a probe until it gives the wanted result or its time is over, and records it. It reports whether it
// gave that result.
func (r *runner) runProbe(ctx context.Context, l chaos.PlannedProbe, stage Stage, want bool) bool {
	seen, ok := see(ctx, r.Machines[l.Machine], l, stage, want)
	if !ok {
		return false
	}
	r.record(Event{Kind: Probed, Machine: l.Machine, Seen: &seen})
	return seen.Held == want && !seen.NotRun
}
