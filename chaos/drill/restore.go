package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// restore puts everything back that was touched, sees that the chain is green again and that nothing is left, and clears
// up. An interrupted run puts back, compares and clears up, and walks no more.
func (r *runner) restore(asked context.Context) {
	if !read(r, (*Story).touched) {
		return
	}
	ctx, cancel := r.patient(asked)
	defer cancel()
	r.each(func(t chaos.PlannedMachine, m Machine) { r.revert(ctx, t, m) })
	if asked.Err() == nil && read(r, (*Story).armed) {
		r.heal(asked)
	}
	r.each(func(t chaos.PlannedMachine, m Machine) { r.clear(ctx, t, m) })
}

// patient is a context that outlives the operator's patience, but not being abandoned. It is long enough for a machine
// that cannot be reached to have put itself back.
func (r *runner) patient(asked context.Context) (context.Context, context.CancelFunc) {
	b := r.Plan.Budgets
	long := b.Lease.Std() + step.DefaultGrace + b.RecoverWithin.Std() + restTime
	ctx, cancel := context.WithTimeout(context.WithoutCancel(asked), long)
	stop := make(chan struct{})
	go func() {
		defer cancel()
		select {
		case <-r.Abandon:
		case <-ctx.Done():
		case <-interrupted(asked, stop):
		}
	}()
	return ctx, func() { close(stop); cancel() }
}

// interrupted is closed when an interrupted run has tried for long enough.
func interrupted(asked context.Context, stop <-chan struct{}) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-stop:
			return
		case <-asked.Done():
		}
		select {
		case <-stop:
		case <-time.After(restTime):
		}
	}()
	return done
}

// revert asks one machine to put everything back until it answers that it has, or has a conflict. A machine that cannot
// be reached does so by itself, and is asked again.
func (r *runner) revert(ctx context.Context, t chaos.PlannedMachine, m Machine) {
	if !read(r, func(s *Story) bool { return s.part(t.ID).Touched }) {
		return
	}
	r.tell(Event{Kind: Reverting, Machine: t.ID})
	for told := ""; ctx.Err() == nil; pause(ctx, again) {
		reply, err := m.Fault(ctx, nil, "revert", "--run", r.Plan.Run, "--why", step.WhyAsked)
		switch {
		case err != nil:
			m.Anew()
		case reply.Refused != nil && reply.Refused.Code == step.RefusedNone: // it never came to be armed
			r.tell(Event{Kind: Closed, Machine: t.ID})
			return
		case reply.Status != nil && (reply.Status.State.Over() || untouched(*reply.Status)):
			r.tell(Event{Kind: Reverted, Machine: t.ID, Status: reply.Status, TookUS: reply.TookUS})
			return
		default:
			err = errors.New(says(reply) + " " + state(reply.Status))
		}
		if err != nil && err.Error() != told && ctx.Err() == nil {
			told = err.Error()
			r.tell(Event{Kind: Trouble, Machine: t.ID, Text: "put back: " + told, Status: reply.Status})
		}
	}
}

// untouched says that the drill is over and no step of it was ever begun.
func untouched(s step.Status) bool {
	return s.State == step.Planned && (s.Phase == step.PhaseOver || s.Phase == step.PhaseClosed)
}

func state(s *step.Status) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("(%s, %s)", s.Phase, s.State)
}

// heal tells the platform what it must be told, and looks and walks until the chain is green again.
func (r *runner) heal(ctx context.Context) {
	if d := r.Plan.Decision; d != nil {
		text := ""
		if err := r.Decide(ctx, *d); err != nil {
			text = err.Error()
		}
		r.tell(Event{Kind: Decided, Text: text})
	}
	r.look(ctx, r.Plan.Proof, func(error) {})
	ctx, cancel := context.WithTimeout(ctx, r.Plan.Budgets.RecoverWithin.Std())
	defer cancel()
	for ctx.Err() == nil {
		w := r.walk(ctx, After)
		if read(r, func(s *Story) bool { _, enough := s.green(); return enough }) {
			return
		}
		if !w.Green() {
			pause(ctx, again)
		}
	}
}

// clear compares one machine with how it was, and takes away what the drill has put there. A machine with a conflict keeps
// its journal, for whoever looks at it.
func (r *runner) clear(ctx context.Context, t chaos.PlannedMachine, m Machine) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		r.trouble(t.ID, m.Leave(ctx))
	}()
	p := read(r, func(s *Story) Part { return *s.part(t.ID) })
	if !p.Touched || p.Closed || p.RevertedMS == 0 {
		return
	}
	if reply, err := m.Fault(ctx, nil, "verify", "--run", r.Plan.Run); err != nil || reply.Clean == nil || says(reply) != "" {
		r.trouble(t.ID, errors.Join(err, fmt.Errorf("compare with before: %s", says(reply))))
	} else {
		r.tell(Event{Kind: Compared, Machine: t.ID, Clean: reply.Clean, Residue: reply.Residue})
	}
	reply, err := m.Fault(ctx, nil, "close", "--run", r.Plan.Run)
	switch {
	case err != nil:
		r.trouble(t.ID, fmt.Errorf("take the drill's traces away: %w", err))
	default:
		r.tell(Event{Kind: Closed, Machine: t.ID, Text: says(reply), Status: reply.Status})
	}
}
