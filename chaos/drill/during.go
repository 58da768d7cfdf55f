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
)

// errEnough ends what goes on while the fault is there.
var errEnough = errors.New("enough is seen")

// during breaks what is to be broken, and walks until the chain reports what it should, or the time for it is over. It
// ends before the machines' time to live does.
func (r *runner) during(ctx context.Context, until time.Time, end context.CancelCauseFunc, terminal *openTerminal) {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if r.breaking(bounded) {
		var wg sync.WaitGroup
		for _, l := range [...]chaos.Look{r.Plan.Injected, r.Plan.Control} {
			wg.Go(func() {
				if !r.look(bounded, l, During, true) && bounded.Err() == nil {
					end(errEnough) // nothing that the chain reports would be about the fault
				}
			})
		}
		if terminal != nil {
			wg.Go(func() { r.ended(bounded, terminal) })
		}
		if !r.Plan.Scenario.Expect.Blame.None { // what proves the repair must not hold yet, unless it repairs itself
			wg.Go(func() { r.look(bounded, r.Plan.Proof, During, false) })
		}
		r.watch(bounded, end)
		wg.Wait() // what independent probes see has budgets of its own
	}
	if ctx.Err() == nil && bounded.Err() != nil && !r.hadTime() {
		r.tell(Event{Kind: Stopped,
			Text: fmt.Sprintf("the ttl of %s is nearly over, and what the drill needs was not", r.Plan.Budgets.TTL)})
	}
	end(errEnough)
}

// renew renews the lease of the drill until ctx ends. A machine that has reverted itself reports it here.
func (r *runner) renew(ctx context.Context, t chaos.PlannedMachine, m Machine, end context.CancelCauseFunc) {
	for asked := time.Now(); ; {
		pause(ctx, max(again, time.Until(asked.Add(step.RenewEvery))))
		if ctx.Err() != nil {
			return
		}
		asked = time.Now()
		reply, err := try(ctx, m, step.RenewEvery, "renew", "--run", r.Plan.Run) // a lease has time for more than one try
		none := reply.Refused != nil && reply.Refused.Code == step.RefusedNone
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.trouble(t.ID, fmt.Errorf("renew the lease: %w", err))
		case failed(reply.Status): // the answer to the step reports it as well
			return
		case none || (reply.Status != nil && reply.Status.Phase != step.PhaseArmed):
			r.lose(t.ID, reply)
			end(errEnough)
			return
		case says(reply) != "":
			r.trouble(t.ID, fmt.Errorf("renew the lease: %s", says(reply)))
		default:
			r.keep(t.ID, asked)
			r.tell(Event{Kind: Renewed, Machine: t.ID, Status: reply.Status})
		}
	}
}

// failed reports whether the machine has reverted itself because a change could not be made there.
func failed(st *step.Status) bool {
	return st != nil && st.Phase != step.PhaseArmed && st.Why == step.WhyFailed
}

// lose records a machine that reverted before it was asked, or that no longer has the drill.
func (r *runner) lose(id string, reply step.Reply) {
	if read(r, func(s *Story) bool { return s.part(id).Lost != "" }) {
		return
	}
	why := says(reply)
	if st := reply.Status; st != nil {
		why = cmp.Or(st.Why, st.Phase)
	}
	r.tell(Event{Kind: Lost, Machine: id, Text: why, Status: reply.Status})
}

// breaking makes every step at its time, each machine's in turn. After one that could not be made, none is begun.
func (r *runner) breaking(ctx context.Context) bool {
	zero := time.Now()
	var against atomic.Bool
	r.each(func(t chaos.PlannedMachine, m Machine) {
		for _, move := range r.Plan.Schedule {
			if move.Machine != t.ID {
				continue
			}
			pause(ctx, time.Until(zero.Add(move.At.Std())))
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

// make makes one step. After an answer that was lost the machine's journal is read, and then it is asked for once more:
// a step that is wanted already is not made again, only waited for.
func (r *runner) make(ctx context.Context, t chaos.PlannedMachine, m Machine, id string) bool {
	if r.tell(Event{Kind: Breaking, Machine: t.ID, Step: id}); ctx.Err() != nil {
		return false
	}
	reply, err := try(ctx, m, doMost, "do", "--run", r.Plan.Run, "--step", id)
	if err != nil && ctx.Err() == nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		reply, err = try(ctx, m, askMost, "status", "--run", r.Plan.Run)
		if err == nil && reply.Status != nil && reply.Status.Phase == step.PhaseArmed {
			reply, err = try(ctx, m, doMost, "do", "--run", r.Plan.Run, "--step", id)
		} else if err == nil && says(reply) == "" {
			reply.Refused = step.Refuse(step.RefusedState, "it is not asked for again %s", state(reply.Status))
		}
	}
	if err != nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		return false
	}
	r.tell(Event{Kind: Broken, Machine: t.ID, Step: id, Status: reply.Status, Text: says(reply), TookUS: reply.TookUS})
	if st := reply.Status; says(reply) != "" && (st == nil || st.Phase != step.PhaseArmed) && !failed(st) {
		r.lose(t.ID, reply)
	}
	return says(reply) == ""
}

// hadTime reports whether everything was seen that a drill needs while the fault is there, or had its time to be.
func (r *runner) hadTime() bool {
	now := time.Since(r.began).Milliseconds()
	return read(r, func(s *Story) bool {
		zero, placed := s.InPlace()
		in := s.Look(During, LookInjected) != nil && s.Look(During, LookControl) != nil &&
			(s.Plan.Scenario.Expect.Terminal == "" || s.Look(During, LookTerminal) != nil)
		return placed && in && (s.detected() != nil || now-zero >= s.Plan.Budgets.DetectWithin.Std().Milliseconds())
	})
}

// watch walks until the chain has reported what it should, or it is late.
func (r *runner) watch(ctx context.Context, end context.CancelCauseFunc) {
	budget := r.Plan.Budgets.DetectWithin.Std()
	ctx, cancel := context.WithTimeout(ctx, budget+budget/2) // what comes after the budget is late, and worth knowing
	defer cancel()
	for ctx.Err() == nil {
		w := r.walk(ctx, During)
		if ctx.Err() != nil {
			return
		}
		for _, h := range r.Plan.Scenario.Guards.StopIf {
			if w.Hops[h] == diag.StatusFail {
				r.tell(Event{Kind: Stopped, Text: fmt.Sprintf("%s failed, which ends the drill (stopIf)", h)})
				end(errEnough)
				return
			}
		}
		if read(r, func(s *Story) bool { return s.detected() != nil }) {
			return
		}
		pause(ctx, again)
	}
}

// look probes until the probe gives what is wanted or its time is over, and records it. It reports whether it gave
// that.
func (r *runner) look(ctx context.Context, l chaos.Look, stage Stage, want bool) bool {
	seen, ok := see(ctx, r.Machines[l.Machine], l, stage, want)
	if !ok {
		return false
	}
	r.tell(Event{Kind: Looked, Machine: l.Machine, Seen: &seen})
	return seen.Held == want && !seen.NotRun
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
