//go:build linux

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// poll is the interval at which a process checks for another one's progress, and at which the watchdog checks for
// requests.
const poll = 20 * time.Millisecond

// letGo is how long the watchdog may take to release what it holds. Then it is killed, and systemd restarts it.
const letGo = 5 * time.Second

// Do requests a step, or all steps, from the watchdog, waits until they are made, and checks their effect. Only
// the watchdog makes changes, so that a lost SSH connection cannot interrupt one, and so that held resources
// belong to it.
func (r *Run) Do(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, makeBudget+lockWait)
	defer cancel()
	var wanted []string
	err := r.locked(ctx, func() error {
		l := &r.Journal.Ledger
		if l.Phase() != step.PhaseArmed || !r.guarded() {
			return r.state("nothing is injected")
		}
		for _, s := range l.Steps {
			if id != "" && s.Step.ID != id {
				continue
			}
			wanted = append(wanted, s.Step.ID)
			if s.Wanted {
				continue // already requested: the response may have been lost
			}
			if err := r.keeper(step.ByCLI).write(step.Entry{Event: step.EventWanted, Step: s.Step.ID}); err != nil {
				return err
			}
		}
		if len(wanted) == 0 {
			return step.Refuse(step.RefusedDrill, "drill %s has no step %q", r.ID, id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range wanted {
		if err := r.await(ctx, id); err != nil {
			return err
		}
	}
	for _, id := range wanted {
		if err := r.check(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a step is made.
func (r *Run) await(ctx context.Context, id string) error {
	for {
		if err := r.Journal.Refresh(); err != nil {
			return err
		}
		for _, s := range r.Journal.Ledger.Steps {
			if s.Step.ID != id {
				continue
			}
			if st := s.State(); st == step.Done || st == step.Verified {
				return nil
			}
			if r.Journal.Ledger.Why != "" {
				return r.state("step %s was not made%s", id, firstProblem(s))
			}
		}
		if !sleep.For(ctx, poll) {
			return r.state("step %s was not made in time", id)
		}
	}
}

// firstProblem returns the first problem with a step's changes in the journal.
func firstProblem(s step.StepLedger) string {
	for _, c := range s.Changes {
		if c.Text != "" {
			return ": " + c.Text
		}
	}
	return ""
}

// check runs a step's checks until they pass, and records the result in the journal.
func (r *Run) check(ctx context.Context, id string) error {
	s, _ := r.Journal.Ledger.Drill.Step(id)
	if len(s.Verify) == 0 {
		return nil
	}
	var failed []string
	for _, c := range s.Verify {
		if why := try(ctx, c); why != "" {
			failed = append(failed, c.Name+": "+why)
		}
	}
	return r.locked(ctx, func() error {
		e := step.Entry{Event: step.EventVerify, Step: id, State: step.Verified}
		if len(failed) > 0 {
			e.State, e.Text = step.Done, strings.Join(failed, "; ")
		}
		if err := r.keeper(step.ByCLI).write(e); err != nil {
			return err
		}
		if len(failed) > 0 {
			return step.Refuse(step.RefusedCheck, "step %s: %s", id, e.Text)
		}
		return nil
	})
}

// Renew renews the drill's lease.
func (r *Run) Renew() error {
	if err := r.Journal.Refresh(); err != nil {
		return err
	}
	if r.Journal.Ledger.Phase() != step.PhaseArmed {
		return r.state("it cannot be renewed")
	}
	return r.lease.renew(r.host.Clock.Now())
}

// Revert undoes everything now. It waits for what only the watchdog can release, and kills a watchdog that does
// not, which releases it as well.
func (r *Run) Revert(ctx context.Context, by, why string) error {
	err := r.locked(ctx, func() error { return r.keeper(by).Revert(ctx, why) })
	for deadline := time.Now().Add(lockWait); err == nil && r.Journal.Ledger.Touched(); {
		if !r.guarded() {
			err = r.locked(ctx, func() error { return r.keeper(by).Revert(ctx, why) })
			break
		}
		endHolder(r.path("watch"), time.Until(deadline) < lockWait-letGo)
		if time.Now().After(deadline) {
			return fmt.Errorf("the watchdog (process %d) does not let go", r.Journal.Ledger.Guard)
		}
		time.Sleep(poll)
		err = r.Journal.Refresh()
	}
	return errors.Join(err, r.forget())
}

// forget removes the secrets once everything is over.
func (r *Run) forget() error {
	if !r.Journal.Ledger.Final() {
		return nil
	}
	return os.RemoveAll(r.host.secrets(r.ID))
}

// Reap undoes a drill that a reboot ended.
func (r *Run) Reap(ctx context.Context) error {
	l := &r.Journal.Ledger
	why := l.Expired(r.host.Clock.Boot, r.host.Clock.Now(), r.lease.Renewed())
	if why == "" || l.Final() || r.guarded() {
		return nil
	}
	return r.Revert(ctx, step.ByReaper, why)
}

// Verify compares the machine with its state before the drill. It records the result in the journal, and returns
// every difference.
func (r *Run) Verify(ctx context.Context) ([]step.Residue, error) {
	if l := &r.Journal.Ledger; !l.Final() && l.Touched() {
		return nil, r.state("there is nothing to compare yet")
	}
	r.awaitEnd(ctx)
	b, err := os.ReadFile(r.path("baseline"))
	if err != nil {
		return nil, err
	}
	var before Fingerprint
	if err := json.Unmarshal(b, &before); err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	var all []step.Residue
	for deadline := time.Now().Add(settles); ; time.Sleep(10 * poll) {
		if all, err = r.differs(ctx, before); err != nil {
			return nil, err
		}
		if len(step.Unexplained(all)) == 0 || time.Now().After(deadline) {
			break
		}
	}
	e := step.Entry{Event: step.EventClean, State: step.Reverted}
	if n := len(step.Unexplained(all)); n > 0 {
		e.State, e.Text = step.Conflict, fmt.Sprintf("%d differences", n)
	}
	return all, r.locked(ctx, func() error { return r.keeper(step.ByCLI).write(e) })
}

// settles is how long to wait for a difference to disappear by itself: a restored unit and its dependents start,
// and after a boot the kernel checks an address for duplicates before it adds the route.
const settles = 4 * time.Second

// differs returns the differences between the machine's state and the one before the drill, without the drill's
// own artifacts.
func (r *Run) differs(ctx context.Context, before Fingerprint) ([]step.Residue, error) {
	d := r.Journal.Ledger.Drill
	now, err := ReadFingerprint(ctx, d.Scope)
	if err != nil {
		return nil, err
	}
	all := Diff(before, now, d.Scope, append(d.Allowed, r.own()...))
	return slices.DeleteFunc(all, func(x step.Residue) bool { return x.Allowed == ownTrace }), nil
}

// awaitEnd waits until the watchdog has noticed that everything is over. It kills a stopped watchdog.
func (r *Run) awaitEnd(ctx context.Context) {
	for deadline := time.Now().Add(letGo); r.guarded() && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(poll)
		endHolder(r.path("watch"), false)
	}
}

// ownTrace marks differences that are not reported at all.
const ownTrace = "the drill's own, until it is closed"

// own lists the artifacts of a drill that is not closed yet.
func (r *Run) own() []step.Allow {
	why := ownTrace
	dir := r.host.folder(r.ID)
	var all []step.Allow
	for _, p := range [...]string{dir, dir + "/*", r.host.reaperUnit(r.ID), r.host.reaperLink(r.ID), r.host.armLock(),
		r.host.Paths.State, r.host.secrets(r.ID), "/run/systemd/transient/" + watchName(r.ID)} {
		all = append(all, step.Allow{Class: step.ClassOwn, Key: p, Why: why},
			step.Allow{Class: step.ClassFile, Key: p, Why: why})
	}
	for _, p := range [...]string{step.Program + "-*", "." + step.Program + "-*"} { // there, or on its way there
		all = append(all, step.Allow{Class: step.ClassOwn, Key: step.RunDir + "/" + p, Why: "the tool's own, while it works"})
	}
	for _, u := range [...]string{watchName(r.ID), reaperName(r.ID)} {
		all = append(all, step.Allow{Class: step.ClassUnit, Key: u + "*", Why: why},
			step.Allow{Class: step.ClassOwn, Key: u, Why: why})
	}
	return all
}

// Close removes the drill's own artifacts. It returns the journal, which is removed with them. It refuses a drill
// that is not over, and one with a conflict unless force states that an operator has inspected it.
func (r *Run) Close(ctx context.Context, force bool) (step.Status, error) {
	l := &r.Journal.Ledger
	if !l.Final() && !l.Closed {
		return step.Status{}, r.state("it cannot be closed")
	}
	if l.State() == step.Conflict && !force {
		return step.Status{}, r.state("it is not closed, for there is a conflict; look at it, then close it by force")
	}
	unlock, err := lock(ctx, r.host.armLock(), lockWait)
	if err != nil {
		return step.Status{}, err
	}
	defer unlock()
	err = r.locked(ctx, func() error { return r.keeper(step.ByCLI).write(step.Entry{Event: step.EventClosed}) })
	if err != nil && !errors.Is(err, errFull) {
		return step.Status{}, err
	}
	st, err := r.Status(true)
	if err != nil {
		return st, err
	}
	err = errors.Join(r.remove(ctx), r.host.tidy())
	st.Watchdog, st.Reaper = 0, false
	return st, err
}

// remove removes the units first: a folder without units is harmless.
func (r *Run) remove(ctx context.Context) error {
	err := r.host.removeUnits(ctx, r.ID, r.madeFolder())
	return errors.Join(err, os.RemoveAll(r.host.secrets(r.ID)), os.RemoveAll(r.host.folder(r.ID)))
}
