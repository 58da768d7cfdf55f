package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// errEnough ends what goes on while the fault is there.
var errEnough = errors.New("enough is seen")

// during breaks what is to be broken, and walks until the chain says what it should, or the time for it is over. All the
// while the machines are told that it is still wanted.
func (r *runner) during(ctx context.Context) {
	ctx, end := context.WithCancelCause(ctx)
	bounded, cancel := context.WithTimeout(ctx, r.Plan.Budgets.TTL.Std()-reserve)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		r.each(func(t chaos.PlannedMachine, m Machine) { r.renew(ctx, t, m, end) })
	})
	if r.breaking(bounded) {
		wg.Go(func() { r.look(bounded, r.Plan.Injected, end) })
		wg.Go(func() { r.look(bounded, r.Plan.Control, end) })
		r.watch(bounded, end)
	}
	end(errEnough)
	wg.Wait()
}

// renew says again and again that the drill is wanted, until ctx ends. A machine that has put itself back says so here.
func (r *runner) renew(ctx context.Context, t chaos.PlannedMachine, m Machine, end context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step.RenewEvery):
		}
		reply, err := m.Fault(ctx, nil, "renew", "--run", r.Plan.Run)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.trouble(t.ID, fmt.Errorf("renew the lease: %w", err))
			m.Anew()
		case reply.Status != nil && reply.Status.Phase != step.PhaseArmed:
			r.tell(Event{Kind: Lost, Machine: t.ID, Text: reply.Status.Why, Status: reply.Status})
			end(errEnough)
			return
		case says(reply) != "":
			r.trouble(t.ID, fmt.Errorf("renew the lease: %s", says(reply)))
		default:
			r.tell(Event{Kind: Renewed, Machine: t.ID, Status: reply.Status})
		}
	}
}

// breaking makes every step at its time, each machine's in turn.
func (r *runner) breaking(ctx context.Context) bool {
	zero := time.Now()
	r.each(func(t chaos.PlannedMachine, m Machine) {
		for _, move := range r.Plan.Schedule {
			if move.Machine != t.ID {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(zero.Add(move.At.Std()))):
			}
			if !r.make(ctx, t, m, move.Step) {
				return
			}
		}
	})
	return read(r, func(s *Story) bool { _, ok := s.InPlace(); return ok })
}

// make makes one step. After an answer that was lost the machine's journal is read, and then it is asked for once more:
// a step that is wanted already is not made again, only waited for.
func (r *runner) make(ctx context.Context, t chaos.PlannedMachine, m Machine, id string) bool {
	r.tell(Event{Kind: Breaking, Machine: t.ID, Step: id})
	reply, err := m.Fault(ctx, nil, "do", "--run", r.Plan.Run, "--step", id)
	if err != nil && ctx.Err() == nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		m.Anew()
		now, err2 := m.Fault(ctx, nil, "status", "--run", r.Plan.Run)
		if err2 != nil || now.Status == nil || now.Status.Phase != step.PhaseArmed {
			r.trouble(t.ID, errors.Join(err2, fmt.Errorf("step %s is not asked for again: %s", id, says(now))))
			return false
		}
		reply, err = m.Fault(ctx, nil, "do", "--run", r.Plan.Run, "--step", id)
	}
	if err != nil {
		r.trouble(t.ID, fmt.Errorf("step %s: %w", id, err))
		return false
	}
	r.tell(Event{Kind: Broken, Machine: t.ID, Step: id, Status: reply.Status, Text: says(reply), TookUS: reply.TookUS})
	return says(reply) == ""
}

// watch walks until everything is seen, or it is late.
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
		seen := read(r, func(s *Story) bool { return s.detected() != nil })
		if seen && r.looksAreIn(ctx) {
			return
		}
		if !seen {
			pause(ctx, again)
		}
	}
}

// looksAreIn waits for the plain tools: what they see has budgets of its own.
func (r *runner) looksAreIn(ctx context.Context) bool {
	for ctx.Err() == nil {
		if read(r, func(s *Story) bool { return s.look(LookInjected) != nil && s.look(LookControl) != nil }) {
			return true
		}
		pause(ctx, again)
	}
	return false
}

// look looks until it holds or its time is over, and tells. One that does not hold ends what goes on: nothing that the
// chain says would be about the fault.
func (r *runner) look(ctx context.Context, l chaos.Look, end context.CancelCauseFunc) {
	seen, ok := see(ctx, r.Machines[l.Machine], l)
	if !ok {
		return
	}
	r.tell(Event{Kind: Looked, Machine: l.Machine, Seen: &seen})
	if !seen.Held {
		end(errEnough)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
