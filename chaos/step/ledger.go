package step

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Longer than 300 lines: the fold of a journal and what may be asked of it.

// Ledger is what a journal's entries add up to.
type Ledger struct {
	Drill    Drill
	Known    bool // the drill could be read: without that, nothing can be reverted
	Boot     string
	Armed    bool
	ArmedAt  time.Time
	ArmedNS  int64 // CLOCK_BOOTTIME
	Steps    []StepLedger
	Why      string // everything is to be reverted, and why
	Reverter string // who undid something last
	Guard    int    // pid of the last watchdog
	Guards   int    // how many there were
	Clean    *bool  // the last comparison
	Closed   bool
	Last     int // number of the last entry
}

// StepLedger is one step of it.
type StepLedger struct {
	Step     Step
	Wanted   bool
	Verified bool
	Text     string
	DoneAt   *time.Time
	OverAt   *time.Time
	Changes  []ChangeLedger
}

// ChangeLedger is one change of it.
type ChangeLedger struct {
	Change Change
	State  State // "" before it is planned
	Note   json.RawMessage
	Text   string
	By     string
}

// Read adds up entries.
func Read(entries []Entry) Ledger {
	var l Ledger
	for _, e := range entries {
		l.Add(e)
	}
	return l
}

// Add takes one more entry in.
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
	case e.State.Over() && !s.touched():
		s.OverAt = &at
	}
	if e.State == Reverting || e.State.Over() {
		l.Reverter = e.By
		if l.Why == "" { // the entry with the reason was lost: a disk was full, and what is reverted must not be made again
			l.Why = WhyUnsaid
		}
	}
}

// rank orders states by how much they ask for attention; a step is in the state of its worst change.
func rank(s State) int {
	for i, x := range [...]State{"", Reverted, Planned, Lost, Verified, Done, Intent, Reverting, Conflict, Failed} {
		if s == x {
			return i
		}
	}
	return 0
}

// State is that of the change which asks most for attention.
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
	return c.State != "" && c.State != Planned && !c.State.Over()
}

func (s StepLedger) touched() bool {
	return slices.ContainsFunc(s.Changes, ChangeLedger.Touched)
}

// State is that of the step which asks most for attention.
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

// Held reports whether something is injected that lasts only while the watchdog keeps it.
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

// Begun reports whether the making of a change was begun, and not finished.
func (l Ledger) Begun() bool {
	for _, s := range l.Steps {
		for _, c := range s.Changes {
			if c.State == Intent || c.State == Failed {
				return true
			}
		}
	}
	return false
}

// Over reports whether nothing more can happen: everything was to be reverted, and is, or is a conflict.
func (l Ledger) Over() bool { return l.Why != "" && !l.Touched() }

// Phases of a drill.
const (
	PhaseArming    = "arming"
	PhaseArmed     = "armed"
	PhaseReverting = "reverting"
	PhaseOver      = "over"
	PhaseClosed    = "closed"
)

// Phase is where in its life the drill is.
func (l Ledger) Phase() string {
	switch {
	case l.Closed:
		return PhaseClosed
	case l.Over():
		return PhaseOver
	case l.Why != "":
		return PhaseReverting
	case l.Armed:
		return PhaseArmed
	}
	return PhaseArming
}

// Expired returns why the drill must be reverted now, by a machine that has this boot id and whose CLOCK_BOOTTIME is
// now, and to which the lease was renewed at that time (0: never); "" while it may go on.
func (l Ledger) Expired(boot string, now, renewed int64) string {
	left, why := l.Left(boot, now, renewed)
	if left > 0 {
		return ""
	}
	return why
}

// Left is the time that the drill still has, and what ends it. Another boot id is an end: the clock has restarted. So
// is a clock that is before the arming.
func (l Ledger) Left(boot string, now, renewed int64) (time.Duration, string) {
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

// Clocks are what is left, at now, of the drill's time to live and of its lease, which was renewed at that time;
// negative where it is over. All times are CLOCK_BOOTTIME of the boot in which it was armed.
func (l Ledger) Clocks(now, renewed int64) (ttl, lease time.Duration) {
	return time.Duration(l.ArmedNS-now) + l.Drill.TTL.Duration(),
		time.Duration(max(renewed, l.ArmedNS)-now) + l.Drill.LeaseFor()
}

// Reasons for undoing everything.
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
	WhyUnsaid  = "its undoing was begun, and nobody could write down why"
)

// Status is the ledger for people and programs. What only the machine knows is not in it: clocks, watchdog, reaper.
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
