package step

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Longer than 300 lines: the fold of a journal, and its queries.

// Ledger is the fold of a journal's entries.
type Ledger struct {
	Drill    Drill
	Known    bool // the drill's entry could be read: without it, nothing can be reverted
	Boot     string
	Armed    bool
	ArmedAt  time.Time
	ArmedNS  int64 // CLOCK_BOOTTIME
	Steps    []StepLedger
	Why      string // not empty: everything is to be reverted, for this reason
	Reverter string // who undid something last
	Guard    int    // pid of the last watchdog
	Guards   int    // how many there were
	Clean    *bool  // the last comparison
	Closed   bool
	Last     int // number of the last entry
}

// StepLedger is the fold of one step.
type StepLedger struct {
	Step     Step
	Wanted   bool
	Verified bool
	Text     string
	DoneAt   *time.Time
	OverAt   *time.Time
	Changes  []ChangeLedger
}

// ChangeLedger is the fold of one change.
type ChangeLedger struct {
	Change Change
	State  State // "" before it is planned
	Note   json.RawMessage
	Text   string
	By     string
}

// Read folds entries.
func Read(entries []Entry) Ledger {
	var l Ledger
	for _, e := range entries {
		l.Add(e)
	}
	return l
}

// Add adds one more entry.
func (l *Ledger) Add(e Entry) {
	l.Last = e.Seq
	s := l.step(e.Step)
	switch e.Event {
	case EventDrill:
		if bounded.Unmarshal(e.Note, &l.Drill, bounded.Line()) == nil {
			l.open()
		}
		l.Boot = e.Boot
	case EventArmed:
		l.Armed, l.ArmedAt, l.ArmedNS, l.Boot = true, e.At, e.BootNS, e.Boot
	case EventGuard:
		l.Guard, l.Guards = e.PID, l.Guards+1
	case EventWanted:
		if s != nil {
			s.Wanted = true
		}
	case EventPlanned, EventChange:
		l.change(s, e)
	case EventVerify:
		if s != nil {
			s.Text, s.Verified = e.Text, e.State == Verified
		}
	case EventRevert:
		l.Why = cmp.Or(l.Why, e.Text)
	case EventClean:
		l.Clean = new(e.State == Reverted)
	case EventClosed:
		l.Closed = true
	}
}

func (l *Ledger) open() {
	l.Known = true
	l.Steps = nil
	for _, s := range l.Drill.Steps {
		row := StepLedger{Step: s}
		for _, c := range s.Changes {
			row.Changes = append(row.Changes, ChangeLedger{Change: c})
		}
		l.Steps = append(l.Steps, row)
	}
}

func (l *Ledger) step(id string) *StepLedger {
	for i := range l.Steps {
		if l.Steps[i].Step.ID == id {
			return &l.Steps[i]
		}
	}
	return nil
}

func (l *Ledger) change(s *StepLedger, e Entry) {
	if s == nil || e.Change == nil || *e.Change < 0 || *e.Change >= len(s.Changes) {
		return
	}
	c := &s.Changes[*e.Change]
	c.State, c.Text, c.By = e.State, e.Text, e.By
	if e.Note != nil {
		c.Note = e.Note
	}
	at := e.At
	switch {
	case e.State == Done && s.State() == Done && s.DoneAt == nil:
		s.DoneAt = &at
	case e.State.Final() && !s.touched():
		s.OverAt = &at
	}
	if e.State == Reverting || e.State.Final() {
		l.Reverter = e.By
		if l.Why == "" { // the entry with the reason was lost on a full disk; a reverted change must not be made again
			l.Why = WhyUnsaid
		}
	}
}

// rank orders states by urgency; a step has the state of its most urgent change.
func rank(s State) int {
	for i, x := range [...]State{"", Reverted, Planned, Lost, Verified, Done, Intent, Reverting, Conflict, Failed} {
		if s == x {
			return i
		}
	}
	return 0
}

// State returns the state of the most urgent change.
func (s StepLedger) State() State {
	var worst State
	for _, c := range s.Changes {
		if rank(c.State) > rank(worst) {
			worst = c.State
		}
	}
	if worst == Done && s.Verified {
		return Verified
	}
	return worst
}

// Touched reports whether the change was begun and is neither reverted nor given up.
func (c ChangeLedger) Touched() bool {
	return c.State != "" && c.State != Planned && !c.State.Final()
}

func (s StepLedger) touched() bool {
	return slices.ContainsFunc(s.Changes, ChangeLedger.Touched)
}

// State returns the state of the most urgent step.
func (l Ledger) State() State {
	var worst State
	for _, s := range l.Steps {
		if st := s.State(); rank(st) > rank(worst) {
			worst = st
		}
	}
	return worst
}

// Touched reports whether anything is injected, or may be.
func (l Ledger) Touched() bool {
	return slices.ContainsFunc(l.Steps, StepLedger.touched)
}

// Held reports whether a change is injected that lasts only as long as the watchdog.
func (l Ledger) Held() bool {
	for _, s := range l.Steps {
		for _, c := range s.Changes {
			if c.Touched() && c.Change.Held() {
				return true
			}
		}
	}
	return false
}

// InProgress reports whether a change was begun and not finished.
func (l Ledger) InProgress() bool {
	for _, s := range l.Steps {
		for _, c := range s.Changes {
			if c.State == Intent || c.State == Failed {
				return true
			}
		}
	}
	return false
}

// Final reports whether nothing more can happen: everything was to be reverted, and every change is reverted or a
// conflict.
func (l Ledger) Final() bool { return l.Why != "" && !l.Touched() }

// Phases of a drill.
const (
	PhaseArming    = "arming"
	PhaseArmed     = "armed"
	PhaseReverting = "reverting"
	PhaseOver      = "over"
	PhaseClosed    = "closed"
)

// Phase returns the drill's current phase.
func (l Ledger) Phase() string {
	switch {
	case l.Closed:
		return PhaseClosed
	case l.Final():
		return PhaseOver
	case l.Why != "":
		return PhaseReverting
	case l.Armed:
		return PhaseArmed
	}
	return PhaseArming
}

// Expired returns why the drill must be reverted now; "" if it may continue. boot and now are the machine's boot
// id and CLOCK_BOOTTIME; renewed is the time of the last renewal of the lease (0: never).
func (l Ledger) Expired(boot string, now, renewed int64) string {
	left, why := l.Remaining(boot, now, renewed)
	if left > 0 {
		return ""
	}
	return why
}

// Remaining returns the drill's remaining time, and what ends it. Another boot id ends it, since the clock has
// restarted; so does a clock before the arming.
func (l Ledger) Remaining(boot string, now, renewed int64) (time.Duration, string) {
	switch {
	case boot != l.Boot:
		return 0, WhyReboot
	case !l.Armed:
		return 0, WhyUnarmed
	case now < l.ArmedNS:
		return 0, WhyClock
	}
	ttl, lease := l.Clocks(now, renewed)
	if renewed > now {
		return 0, WhyClock
	}
	if lease < ttl {
		return lease, WhyLease
	}
	return ttl, WhyTTL
}

// Clocks returns what is left, at now, of the drill's TTL and of its lease, which was last renewed at renewed;
// negative if it is over. All times are CLOCK_BOOTTIME of the boot in which the drill was armed.
func (l Ledger) Clocks(now, renewed int64) (ttl, lease time.Duration) {
	return time.Duration(l.ArmedNS-now) + l.Drill.TTL.Duration(),
		time.Duration(max(renewed, l.ArmedNS)-now) + l.Drill.LeaseFor()
}

// Reasons to undo everything.
const (
	WhyReboot  = "the machine was rebooted"
	WhyUnarmed = "it was never armed"
	WhyClock   = "the clock went backwards"
	WhyTTL     = "its time to live is over"
	WhyLease   = "its lease was not renewed"
	WhyLost    = "the watchdog was started again, and what it held is lost"
	WhyStopped = "the watchdog was told to stop"
	WhyAsked   = "asked for"
	WhyDied    = "what made a change died over it"
	WhyFailed  = "a change could not be made"
	WhyUnsaid  = "its undo was begun, and the reason could not be recorded"
)

// Status converts the ledger for people and programs. It lacks what only the machine knows: clocks, watchdog,
// reaper.
func (l Ledger) Status() Status {
	st := Status{
		Run: l.Drill.Run, Scenario: l.Drill.Scenario, Node: l.Drill.Node, By: l.Drill.By,
		State: l.State(), Phase: l.Phase(), Why: l.Why, Reverter: l.Reverter, Steps: []StepStatus{},
	}
	if l.Armed {
		st.ArmedAt = new(l.ArmedAt)
	}
	for _, s := range l.Steps {
		row := StepStatus{ID: s.Step.ID, Fault: s.Step.Fault, Tier: s.Step.Tier, State: s.State(), Text: s.Text,
			Wanted: s.Wanted, DoneAt: s.DoneAt, OverAt: s.OverAt}
		for _, c := range s.Changes {
			row.Changes = append(row.Changes, ChangeStatus{c.Change.Place(), c.State, c.Text, c.By})
		}
		st.Steps = append(st.Steps, row)
	}
	return st
}
