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
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// restore reverts every machine that was touched, waits until the chain is green again, checks for residue, and
// cleans up. An interrupted run only reverts, compares and cleans up.
func (r *runner) restore(h interrupts) {
	if !read(r, (*Story).touched) {
		return
	}
	var open atomic.Int64
	open.Store(int64(len(r.Plan.Targets)))
	back := make(chan struct{}) // closed once every machine is reverted or given up
	r.each(func(t chaos.PlannedMachine, m Machine) {
		// long enough for an unreachable machine to revert itself
		r.revert(h.patient, t, m, r.Plan.Budgets.Lease.Std()+step.Grace+restTime)
		if open.Add(-1) == 0 {
			close(back)
		}
		select {
		case <-back:
		case <-h.asked.Done(): // no time to wait for the others
			r.clear(h.patient, t, m)
		}
	})
	if h.asked.Err() == nil && read(r, (*Story).broken) {
		r.awaitRecovery(h.asked)
	}
	r.each(func(t chaos.PlannedMachine, m Machine) {
		r.clear(h.patient, t, m)
		ctx, cancel := context.WithTimeout(h.life, leaveTime)
		defer cancel()
		if err := m.RemoveHelper(ctx); h.life.Err() == nil {
			r.trouble(t.ID, err)
		}
	})
}

// revert asks one machine to revert everything, until it reports that it has, or has a conflict, or the given time
// is over. An unreachable machine reverts itself, and is asked again.
func (r *runner) revert(ctx context.Context, t chaos.PlannedMachine, m Machine, patience time.Duration) {
	p := read(r, func(s *Story) MachineStory { return *s.part(t.ID) })
	if !p.Touched || p.Closed || p.RevertedMS > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.AskedMS == 0 {
		r.record(Event{Kind: Reverting, Machine: t.ID})
	}
	began, reported := r.began.Add(
		time.Duration(read(r, func(s *Story) int64 { return s.part(t.ID).AskedMS }))*time.Millisecond), ""
	for reached := p.AskedMS == 0; ctx.Err() == nil; sleep.For(ctx, retryPause) {
		reply, err := try(ctx, m, revertTimeout, "revert", "--run", r.Plan.Run, "--why", step.WhyAsked)
		switch {
		case err != nil:
			reached = false
		case reply.Refused != nil && reply.Refused.Code == step.RefusedNone:
			if r.mayYetArm(t.ID) && time.Since(began) < armTimeout {
				continue
			}
			if read(r, func(s *Story) bool { return s.part(t.ID).Armed }) {
				r.recordLost(t.ID, reply)
			}
			if err = r.abandon(ctx, m, reply); err == nil {
				r.record(Event{Kind: Closed, Machine: t.ID})
				return
			}
		case reply.Status != nil && (reply.Status.State.Final() || untouched(*reply.Status)):
			if r.early(t, *reply.Status, reached, began) {
				r.recordLost(t.ID, reply)
			}
			r.record(Event{Kind: Reverted, Machine: t.ID, Status: reply.Status, TookUS: reply.TookUS})
			return
		default:
			err = errors.New(errorIn(reply) + " " + state(reply.Status))
		}
		if err != nil && err.Error() != reported && ctx.Err() == nil {
			reported = err.Error()
			r.record(Event{Kind: Trouble, Machine: t.ID, Text: "revert: " + reported, Status: reply.Status})
		}
	}
}

// abandon removes the remains of a drill that a machine knows nothing about: the arming process died before any
// change was possible.
func (r *runner) abandon(ctx context.Context, m Machine, none step.Reply) error {
	if none.Status == nil { // not even its folder exists
		return nil
	}
	reply, err := try(ctx, m, compareTimeout, "close", "--run", r.Plan.Run, "--force")
	gone := reply.Refused != nil && reply.Refused.Code == step.RefusedNone
	if err != nil || gone || errorIn(reply) == "" {
		return err
	}
	return errors.New(errorIn(reply))
}

// mayYetArm reports whether an arming may still be in progress: its response was lost, and no reply has shown the
// machine armed.
func (r *runner) mayYetArm(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.armUnconfirmed[id] && !r.story.part(id).Armed
}

// early reports whether a machine reverted itself before it was asked to. If it responded to the first request, it
// did. Otherwise that is unknown, unless its lease ran out before the request.
func (r *runner) early(t chaos.PlannedMachine, st step.Status, reached bool, asked time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st.Why == step.WhyAsked || failed(&st) || !r.story.part(t.ID).Armed {
		return false
	}
	return reached || r.kept[t.ID].Add(r.Plan.Budgets.Lease.Std()).Before(asked)
}

// untouched reports whether the drill is over and none of its steps ever began.
func untouched(s step.Status) bool {
	return s.State == step.Planned && (s.Phase == step.PhaseOver || s.Phase == step.PhaseClosed)
}

func state(s *step.Status) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("(%s, %s)", s.Phase, s.State)
}

// awaitRecovery makes the API calls that are due after the revert, and probes and walks until the chain is green again.
func (r *runner) awaitRecovery(ctx context.Context) {
	back := read(r, func(s *Story) bool { _, back := s.RevertedAt(); return back })
	if d := r.Plan.Decision; d != nil && back {
		r.record(Event{Kind: Decided, Text: r.decide(ctx, *d)})
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.runProbe(ctx, r.Plan.Proof, After, true) })
	within := r.Plan.Budgets.RecoverWithin.Std()
	// a recovery after the budget is late, but worth reporting
	bounded, cancel := context.WithTimeout(ctx, within+within/2)
	defer cancel()
	for bounded.Err() == nil {
		w := r.walk(bounded, After)
		if read(r, func(s *Story) bool { _, enough := s.green(); return enough }) {
			return
		}
		if read(r, func(s *Story) bool { return !s.recoveredIn(w) }) {
			sleep.For(bounded, retryPause)
		}
	}
}

// decide returns why the platform did not accept the decision; "" if it did.
func (r *runner) decide(ctx context.Context, d chaos.Decision) string {
	if r.Decide == nil {
		return "the platform's API is not available"
	}
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if err := r.Decide(ctx, d); err != nil {
		return err.Error()
	}
	return ""
}

// clear compares one machine with its state before the drill, and removes the drill's artifacts. A machine that
// was given up is asked once more, since it may be back. A machine with a conflict keeps its journal for an
// operator to inspect.
func (r *runner) clear(ctx context.Context, t chaos.PlannedMachine, m Machine) {
	r.revert(ctx, t, m, revertTimeout)
	p := read(r, func(s *Story) MachineStory { return *s.part(t.ID) })
	if !p.Touched || p.Closed || p.NotClosed != "" || p.RevertedMS == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	if reply, err := r.ask(ctx, m, "verify"); err != nil || reply.Clean == nil || errorIn(reply) != "" {
		r.trouble(t.ID, errors.Join(err, fmt.Errorf("compare with before: %s", errorIn(reply))))
	} else {
		r.record(Event{Kind: Compared, Machine: t.ID, Clean: reply.Clean, Residue: reply.Residue})
	}
	reply, err := r.ask(ctx, m, "close")
	gone := reply.Refused != nil && reply.Refused.Code == step.RefusedNone
	switch {
	case err != nil:
		r.trouble(t.ID, fmt.Errorf("take the drill's traces away: %w", err))
	case gone: // an earlier attempt closed it, and its response was lost
		r.record(Event{Kind: Closed, Machine: t.ID})
	default:
		r.record(Event{Kind: Closed, Machine: t.ID, Text: errorIn(reply), Status: reply.Status})
	}
}

// ask repeats a request until there is a response or ctx ends. The request must be idempotent.
func (r *runner) ask(ctx context.Context, m Machine, command string) (step.Reply, error) {
	for {
		reply, err := try(ctx, m, compareTimeout, command, "--run", r.Plan.Run)
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		sleep.For(ctx, retryPause)
	}
}

// try makes one request, and gives up a connection that brought no response. If the caller has stopped waiting, it
// keeps the connection: it may be the last that the machine accepts.
func try(ctx context.Context, m Machine, most time.Duration, args ...string) (step.Reply, error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	reply, err := m.Fault(bounded, nil, args...)
	if err != nil && ctx.Err() == nil {
		m.Reconnect()
	}
	return reply, err
}
