package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// restore reverts everything that was touched, sees that the chain is green again and that nothing is left, and
// clears up. An interrupted run reverts, compares and clears up, and walks no more.
func (r *runner) restore(h interrupts) {
	if !read(r, (*Story).touched) {
		return
	}
	var open atomic.Int64
	open.Store(int64(len(r.Plan.Targets)))
	back := make(chan struct{}) // closed when every machine is reverted, or given up
	r.each(func(t chaos.PlannedMachine, m Machine) {
		// long enough for a machine that cannot be reached to have reverted itself
		r.revert(h.patient, t, m, r.Plan.Budgets.Lease.Std()+step.Grace+restTime)
		if open.Add(-1) == 0 {
			close(back)
		}
		select {
		case <-back:
		case <-h.asked.Done(): // out of time to wait for the others
			r.clear(h.patient, t, m)
		}
	})
	if h.asked.Err() == nil && read(r, (*Story).broken) {
		r.heal(h.asked)
	}
	r.each(func(t chaos.PlannedMachine, m Machine) {
		r.clear(h.patient, t, m)
		ctx, cancel := context.WithTimeout(h.life, leaveTime)
		defer cancel()
		if err := m.Leave(ctx); h.life.Err() == nil {
			r.trouble(t.ID, err)
		}
	})
}

// revert asks one machine to revert everything until it answers that it has, or has a conflict, or so much patience
// is over. A machine that cannot be reached does so by itself, and is asked again.
func (r *runner) revert(ctx context.Context, t chaos.PlannedMachine, m Machine, patience time.Duration) {
	p := read(r, func(s *Story) Part { return *s.part(t.ID) })
	if !p.Touched || p.Closed || p.RevertedMS > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.AskedMS == 0 {
		r.tell(Event{Kind: Reverting, Machine: t.ID})
	}
	began, told := r.began.Add(
		time.Duration(read(r, func(s *Story) int64 { return s.part(t.ID).AskedMS }))*time.Millisecond), ""
	for reached := p.AskedMS == 0; ctx.Err() == nil; pause(ctx, again) {
		reply, err := try(ctx, m, revertMost, "revert", "--run", r.Plan.Run, "--why", step.WhyAsked)
		switch {
		case err != nil:
			reached = false
		case reply.Refused != nil && reply.Refused.Code == step.RefusedNone:
			if r.mayYetArm(t.ID) && time.Since(began) < armMost {
				continue
			}
			if read(r, func(s *Story) bool { return s.part(t.ID).Armed }) {
				r.lose(t.ID, reply)
			}
			if err = r.abandon(ctx, m, reply); err == nil {
				r.tell(Event{Kind: Closed, Machine: t.ID})
				return
			}
		case reply.Status != nil && (reply.Status.State.Over() || untouched(*reply.Status)):
			if r.early(t, *reply.Status, reached, began) {
				r.lose(t.ID, reply)
			}
			r.tell(Event{Kind: Reverted, Machine: t.ID, Status: reply.Status, TookUS: reply.TookUS})
			return
		default:
			err = errors.New(says(reply) + " " + state(reply.Status))
		}
		if err != nil && err.Error() != told && ctx.Err() == nil {
			told = err.Error()
			r.tell(Event{Kind: Trouble, Machine: t.ID, Text: "revert: " + told, Status: reply.Status})
		}
	}
}

// abandon removes what is left of a drill of which a machine knows nothing: the process that armed it died,
// before anything could be changed.
func (r *runner) abandon(ctx context.Context, m Machine, none step.Reply) error {
	if none.Status == nil { // not even its folder is there
		return nil
	}
	reply, err := try(ctx, m, clearMost, "close", "--run", r.Plan.Run, "--force")
	if gone := reply.Refused != nil && reply.Refused.Code == step.RefusedNone; err != nil || gone || says(reply) == "" {
		return err
	}
	return errors.New(says(reply))
}

// mayYetArm reports whether an arming may still be under way: its answer was lost, and no reply has shown the machine
// armed.
func (r *runner) mayYetArm(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.armUnconfirmed[id] && !r.story.part(id).Armed
}

// early reports whether a machine that gives why it was reverted was so before the request. One that answered at once
// was; of one that did not, that is unknown, unless its lease went on until it was asked.
func (r *runner) early(t chaos.PlannedMachine, st step.Status, reached bool, asked time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st.Why == step.WhyAsked || failed(&st) || !r.story.part(t.ID).Armed {
		return false
	}
	return reached || r.kept[t.ID].Add(r.Plan.Budgets.Lease.Std()).Before(asked)
}

// untouched reports whether the drill is over and no step of it was ever begun.
func untouched(s step.Status) bool {
	return s.State == step.Planned && (s.Phase == step.PhaseOver || s.Phase == step.PhaseClosed)
}

func state(s *step.Status) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("(%s, %s)", s.Phase, s.State)
}

// heal makes the calls to the platform that are due once everything is reverted, and probes and walks until the chain
// is green again.
func (r *runner) heal(ctx context.Context) {
	back := read(r, func(s *Story) bool { _, back := s.PutBack(); return back })
	if d := r.Plan.Decision; d != nil && back {
		r.tell(Event{Kind: Decided, Text: r.decide(ctx, *d)})
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.look(ctx, r.Plan.Proof, After, true) })
	within := r.Plan.Budgets.RecoverWithin.Std()
	bounded, cancel := context.WithTimeout(ctx, within+within/2) // what comes after the budget is late, and worth knowing
	defer cancel()
	for bounded.Err() == nil {
		w := r.walk(bounded, After)
		if read(r, func(s *Story) bool { _, enough := s.green(); return enough }) {
			return
		}
		if read(r, func(s *Story) bool { return !s.recoveredIn(w) }) {
			pause(bounded, again)
		}
	}
}

// decide gives what is against the decision; "" nothing.
func (r *runner) decide(ctx context.Context, d chaos.Decision) string {
	if r.Decide == nil {
		return "nobody can tell it"
	}
	ctx, cancel := context.WithTimeout(ctx, decideMost)
	defer cancel()
	if err := r.Decide(ctx, d); err != nil {
		return err.Error()
	}
	return ""
}

// clear compares one machine with how it was, and removes what the drill has put there. A machine that was given up
// is asked once more: by now it may be back. One with a conflict keeps its journal, for an operator to inspect.
func (r *runner) clear(ctx context.Context, t chaos.PlannedMachine, m Machine) {
	r.revert(ctx, t, m, revertMost)
	p := read(r, func(s *Story) Part { return *s.part(t.ID) })
	if !p.Touched || p.Closed || p.NotClosed != "" || p.RevertedMS == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	if reply, err := r.ask(ctx, m, "verify"); err != nil || reply.Clean == nil || says(reply) != "" {
		r.trouble(t.ID, errors.Join(err, fmt.Errorf("compare with before: %s", says(reply))))
	} else {
		r.tell(Event{Kind: Compared, Machine: t.ID, Clean: reply.Clean, Residue: reply.Residue})
	}
	reply, err := r.ask(ctx, m, "close")
	gone := reply.Refused != nil && reply.Refused.Code == step.RefusedNone
	switch {
	case err != nil:
		r.trouble(t.ID, fmt.Errorf("take the drill's traces away: %w", err))
	case gone: // by an earlier try, whose answer was lost
		r.tell(Event{Kind: Closed, Machine: t.ID})
	default:
		r.tell(Event{Kind: Closed, Machine: t.ID, Text: says(reply), Status: reply.Status})
	}
}

// ask asks until there is an answer, or ctx ends: what is asked may be asked twice.
func (r *runner) ask(ctx context.Context, m Machine, command string) (step.Reply, error) {
	for {
		reply, err := try(ctx, m, clearMost, command, "--run", r.Plan.Run)
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		pause(ctx, again)
	}
}

// try asks once, and gives up the connection that gave no answer; not one on which no caller waits for an answer any
// more: it may be the last that a machine takes.
func try(ctx context.Context, m Machine, most time.Duration, args ...string) (step.Reply, error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	reply, err := m.Fault(bounded, nil, args...)
	if err != nil && ctx.Err() == nil {
		m.Reconnect()
	}
	return reply, err
}
