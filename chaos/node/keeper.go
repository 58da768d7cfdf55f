package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Longer than 300 lines: making, comparing and reverting a change share one journal and one order.

// Clock is the time source of a Keeper.
type Clock struct {
	Boot string           // id of this boot
	Now  func() int64     // CLOCK_BOOTTIME in nanoseconds
	Wall func() time.Time // for people
}

// Lease returns when the drill was last renewed; 0 if that cannot be read, which counts as never.
type Lease interface {
	Renewed() int64
}

// Time limits of one change: stopping a unit may take its TimeoutStopSec.
const (
	makeBudget = 30 * time.Second
	undoBudget = 30 * time.Second
)

// Keeper executes a drill by its journal. Its caller holds the drill's lock.
type Keeper struct {
	Journal *Journal
	Machine Machine
	Clock   Clock
	Lease   Lease
	By      string // which process this is: step.ByCLI, step.ByWatchdog...
	PID     int
	// Guarded reports whether a watchdog runs that may hold what this process cannot release. Nil: this is the
	// watchdog.
	Guarded func() bool
}

// write appends an entry with the current time.
func (k *Keeper) write(e step.Entry) error {
	e.At, e.Boot, e.BootNS, e.By, e.PID = k.Clock.Wall().UTC(), k.Clock.Boot, k.Clock.Now(), k.By, k.PID
	return k.Journal.Append(e)
}

func (k *Keeper) location(s *step.StepLedger, n int) Location {
	l := &k.Journal.Ledger
	left := l.Drill.TTL.Duration()
	if l.Armed {
		left += time.Duration(l.ArmedNS - k.Clock.Now())
	}
	c := s.Changes[n]
	return Location{
		Run: l.Drill.Run, Step: s.Step.ID, N: n, Change: c.Change, Note: c.Note, Left: left, Rebooted: l.Boot != k.Clock.Boot,
		Undoing: c.State == step.Reverting || c.State == step.Failed,
	}
}

func (k *Keeper) change(at Location, state step.State, text string, note json.RawMessage) error {
	return k.write(step.Entry{Event: step.EventChange, Step: at.Step, Change: new(at.N), State: state, Text: text,
		Note: note})
}

// Plan writes the drill and, for each of its changes, the current state of the place. It touches nothing.
func (k *Keeper) Plan(ctx context.Context, d step.Drill) error {
	if err := k.write(step.Entry{Event: step.EventDrill, Note: json.RawMessage(d.Encode())}); err != nil {
		return err
	}
	for i := range k.Journal.Ledger.Steps {
		s := &k.Journal.Ledger.Steps[i]
		for n := range s.Changes {
			if run := s.Changes[n].Change.Run; run != nil && run.Late { // make reads the state later, just before the change
				if err := k.planned(s, n, nil); err != nil {
					return err
				}
				continue
			}
			note, err := k.Machine.Snapshot(ctx, k.location(s, n))
			if err != nil {
				return fmt.Errorf("step %s, %s: %w", s.Step.ID, s.Changes[n].Change.Place(), err)
			}
			if err := k.planned(s, n, note); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Keeper) planned(s *step.StepLedger, n int, note json.RawMessage) error {
	return k.write(step.Entry{Event: step.EventPlanned, Step: s.Step.ID, Change: &n, State: step.Planned, Note: note})
}

// expired returns why everything must be reverted now; "" if nothing must.
func (k *Keeper) expired() string {
	return k.Journal.Ledger.Expired(k.Clock.Boot, k.Clock.Now(), k.Lease.Renewed())
}

// Start is a watchdog's first action. What a dead predecessor held is gone, so everything else is reverted as well.
func (k *Keeper) Start(ctx context.Context) error {
	l := &k.Journal.Ledger
	// Arming waits for this entry. Later, a full journal must not stop the watchdog.
	if err := k.write(step.Entry{Event: step.EventGuard}); err != nil && l.Guards == 0 {
		return err
	}
	if l.Why == "" && l.Held() {
		return k.Revert(ctx, step.WhyLost)
	}
	return nil
}

// Tick does what is due: an undo whose time has come, or a requested step. It reports whether everything is over.
// A change that a process began and did not finish is reverted instead of repeated, since its progress is unknown.
func (k *Keeper) Tick(ctx context.Context) (over bool, err error) {
	l := &k.Journal.Ledger
	if l.Final() {
		return true, nil
	}
	why := l.Why
	if why == "" {
		why = k.expired()
	}
	if why == "" && l.InProgress() {
		why = step.WhyDied
	}
	if why != "" {
		err := k.Revert(ctx, why)
		return l.Final(), err
	}
	for i := range l.Steps {
		if s := &l.Steps[i]; s.Wanted && s.State() == step.Planned {
			if err := k.make(ctx, s); err != nil {
				return false, errors.Join(err, k.Revert(ctx, step.WhyFailed))
			}
		}
	}
	return false, nil
}

// Yield makes way for another drill. It first reverts this drill if that has expired and has no watchdog. It
// refuses if anything is injected or may become so, or if an operator has to act.
func (k *Keeper) Yield(ctx context.Context) error {
	l := &k.Journal.Ledger
	guarded := k.Guarded()
	why := l.Why
	if why == "" {
		why = k.expired()
	}
	if why != "" && !l.Final() && !guarded {
		if err := k.Revert(ctx, why); err != nil {
			return err
		}
	}
	if l.Final() && (l.Closed || l.State() != step.Conflict) && !guarded {
		return nil
	}
	return step.Refuse(step.RefusedLocked, "drill %s (%s) of %s is on this machine since %s, and is %s", l.Drill.Run,
		l.Drill.Scenario, l.Drill.By, l.ArmedAt.Format(time.RFC3339), l.Phase())
}

// make makes the changes of a step. It compares each place first: another process may have changed it since the
// arming.
func (k *Keeper) make(ctx context.Context, s *step.StepLedger) error {
	ctx, cancel := context.WithTimeout(ctx, makeBudget)
	defer cancel()
	for n := range s.Changes {
		at := k.location(s, n)
		note, err := k.Machine.Snapshot(ctx, at)
		if err != nil {
			return errors.Join(err, k.change(at, step.Planned, err.Error(), nil))
		}
		if err := k.change(at, step.Intent, "", note); err != nil {
			return err
		}
		at.Note = note
		err = k.Machine.Make(ctx, at)
		if err == nil {
			err = k.notify(ctx, at)
		}
		if err != nil {
			err = fmt.Errorf("step %s, %s: %w", s.Step.ID, at.Change.Place(), err)
			return errors.Join(err, k.change(at, step.Failed, err.Error(), nil))
		}
		if err := k.change(at, step.Done, "", nil); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) notify(ctx context.Context, at Location) error {
	var errs []error
	for _, n := range at.Change.Notify {
		if err := k.Machine.Notify(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", n.Verb, n.Unit, err))
		}
	}
	return errors.Join(errs...)
}

// Revert undoes everything that is injected, in reverse order, from any state. It does not stop at errors, and
// does not need a writable journal: the next process would just find the places reverted.
func (k *Keeper) Revert(ctx context.Context, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBudget)
	defer cancel()
	l := &k.Journal.Ledger
	if !l.Known {
		return step.Refuse(step.RefusedNone, "the journal holds no drill")
	}
	var errs []error
	if l.Why == "" {
		errs = append(errs, k.write(step.Entry{Event: step.EventRevert, Text: why}))
	}
	for i := len(l.Steps) - 1; i >= 0; i-- {
		errs = append(errs, k.revertStep(ctx, &l.Steps[i]))
	}
	return errors.Join(errs...)
}

// revertStep undoes the changes of one step. If a drop-in now belongs to another owner, the files that it names
// stay as well: without them, the unit could not start. It asks the drop-in and not the journal, which may be
// full.
func (k *Keeper) revertStep(ctx context.Context, s *step.StepLedger) error {
	var errs []error
	var left []step.Change // conflicts
	for n := len(s.Changes) - 1; n >= 0; n-- {
		c := s.Changes[n]
		if !c.Touched() && c.State != step.Conflict {
			continue
		}
		reader := ""
		if i := slices.IndexFunc(left, func(r step.Change) bool { return r.Names(c.Change) }); i >= 0 {
			reader = left[i].Place()
		}
		foreign, err := k.undo(ctx, k.location(s, n), c, reader)
		if errs = append(errs, err); foreign {
			left = append(left, c.Change)
		}
	}
	return errors.Join(errs...)
}

// undo undoes one change, if the place is still in the changed state and no drop-in that now belongs to another
// process needs it. It reports whether the place itself belongs to another process.
func (k *Keeper) undo(ctx context.Context, at Location, c step.ChangeLedger, reader string) (foreign bool, err error) {
	if at.Change.Hold != nil && k.Guarded != nil && k.Guarded() {
		return false, nil // only the watchdog can release it, and it will see the request to revert
	}
	say := func(state step.State, text string) error {
		if c.State == state && c.Text == text {
			return nil // the same result as before: do not fill the journal
		}
		return k.change(at, state, text, nil)
	}
	found, err := k.Machine.Compare(ctx, at)
	switch {
	case err != nil:
		return false, errors.Join(err, say(c.State, err.Error())) // nothing was reverted, so nothing has failed
	case found.State == Foreign:
		return true, say(step.Conflict, found.Text)
	case found.State == Injected && reader != "":
		return false, say(step.Conflict, "it stays, for "+reader+" needs it, which somebody has changed")
	case found.State == Before:
		if err := k.notify(ctx, at); err != nil { // the process that restored it may have died before this
			return false, errors.Join(err, say(step.Failed, err.Error()))
		}
		return false, say(without(at, c.State), found.Text)
	}
	return k.revertPlace(ctx, at, c.State, say)
}

// revertPlace undoes a change whose place is in the changed state.
func (k *Keeper) revertPlace(ctx context.Context, at Location, state step.State,
	say func(step.State, string) error) (foreign bool, err error) {
	var errs []error
	if state != step.Reverting && state != step.Failed {
		errs = append(errs, k.change(at, step.Reverting, "", nil))
	}
	if err := k.Machine.Undo(ctx, at); err != nil {
		return false, errors.Join(append(errs, err, say(step.Failed, err.Error()))...)
	}
	if err := k.notify(ctx, at); err != nil {
		return false, errors.Join(append(errs, err, say(step.Failed, err.Error()))...)
	}
	at.Undone = true
	foreign, err = k.seen(ctx, at, say)
	return foreign, errors.Join(append(errs, err)...)
}

// without returns the final state of a change whose place is in its earlier state without this process reverting
// it: Reverted if a process of this drill was reverting it, otherwise Lost. What is held ends with its holder by
// design, and what is in memory ends with the boot.
func without(at Location, state step.State) step.State {
	if (state == step.Done || state == step.Conflict) && at.Change.Hold == nil && !at.Rebooted {
		return step.Lost
	}
	return step.Reverted
}

// seen records a change as reverted only after checking it.
func (k *Keeper) seen(ctx context.Context, at Location, say func(step.State, string) error) (foreign bool, err error) {
	found, err := k.Machine.Compare(ctx, at)
	switch {
	case err != nil:
		return false, errors.Join(err, say(step.Failed, err.Error()))
	case found.State == Foreign:
		return true, say(step.Conflict, found.Text)
	case found.State == Injected:
		text := "undone, and still there"
		return false, errors.Join(errors.New(text), say(step.Failed, text))
	}
	return false, say(step.Reverted, found.Text)
}
