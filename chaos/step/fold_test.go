package step

import (
	"encoding/json"
	"testing"
	"time"
)

// two is the start of a journal: the step "a" changes what a watchdog holds, and a file; the step "b" a file.
func two() Ledger {
	held, file := Change{Pause: &Pause{"a.service"}}, Change{File: &File{Path: "/etc/a", Absent: true}}
	d := Drill{Run: "r1", Steps: []Step{{ID: "a", Changes: []Change{held, file}},
		{ID: "b", Changes: []Change{{File: &File{Path: "/etc/b", Absent: true}}}}}}
	return Read([]Entry{{Seq: 1, Event: EventDrill, Boot: "b1", Note: d.Encode()}})
}

// is adds the entry that a change has reached a state, at that second.
func (l *Ledger) is(step string, change int, s State, second int) {
	l.Add(Entry{Seq: l.Last + 1, Event: EventChange, Step: step, Change: &change, State: s, Text: string(s),
		At: time.Unix(int64(second), 0), By: ByWatchdog})
}

// TestStates: what each state of a change means for what remains to be done.
func TestStates(t *testing.T) {
	for s, want := range map[State]struct{ touched, over, begun bool }{
		"":        {},
		Planned:   {},
		Intent:    {touched: true, begun: true}, // it may have been made
		Done:      {touched: true},
		Verified:  {touched: true},
		Reverting: {touched: true},
		Failed:    {touched: true, begun: true},
		Reverted:  {over: true},
		Lost:      {over: true},
		Conflict:  {over: true},
	} {
		if got := s.Final(); got != want.over {
			t.Errorf("%q is over: %v", s, got)
		}
		for change, held := range []bool{true, false} {
			l := two()
			l.is("a", change, s, 1)
			if l.Touched() != want.touched || l.InProgress() != want.begun || l.Held() != (held && want.touched) {
				t.Errorf("%q, held %v: touched %v, begun %v, held %v", s, held, l.Touched(), l.InProgress(), l.Held())
			}
			// A change that is begun to be reverted, or is, must not be made again, so everything is to be reverted.
			why, by := "", ""
			if s == Reverting || want.over {
				why, by = WhyUnsaid, ByWatchdog
			}
			if l.Why != why || l.Reverter != by {
				t.Errorf("%q: why %q, reverted by %q", s, l.Why, l.Reverter)
			}
		}
	}
}

// TestMostUrgent: of two states the step and the drill have the one that asks for more.
func TestMostUrgent(t *testing.T) {
	for _, tc := range []struct {
		less, more State
		why        string
	}{
		{"", Reverted, "another step has not been planned"},
		{Reverted, Planned, "not all is over"},
		{Planned, Lost, "something ended by itself"},
		{Lost, Verified, "something is injected"},
		{Verified, Done, "the effect of one was not seen"},
		{Done, Intent, "one may be half made"},
		{Intent, Reverting, "an undo is under way"},
		{Reverting, Conflict, "a person must look"},
		{Conflict, Failed, "something is still injected, against our will"},
	} {
		for _, pair := range [][2]State{{tc.less, tc.more}, {tc.more, tc.less}} {
			l := two()
			l.is("a", 0, pair[0], 1)
			l.is("a", 1, pair[1], 2)
			if got := l.Steps[0].State(); got != tc.more {
				t.Errorf("step with %q: %q, want %q: %s", pair, got, tc.more, tc.why)
			}
			l = two()
			l.is("a", 0, pair[0], 1)
			l.is("a", 1, pair[0], 1)
			l.is("b", 0, pair[1], 2)
			if got := l.State(); got != tc.more {
				t.Errorf("drill with %q: %q, want %q: %s", pair, got, tc.more, tc.why)
			}
		}
	}
}

// TestVerified: a step that is done is verified by its checks; one that is not done never is.
func TestVerified(t *testing.T) {
	for _, tc := range []struct {
		change, check, want State
	}{
		{Done, Verified, Verified}, {Done, Failed, Done}, {Done, "", Done}, {Intent, Verified, Intent},
		{Lost, Verified, Lost},
	} {
		l := two()
		l.is("b", 0, tc.change, 1)
		if tc.check != "" {
			l.Add(Entry{Event: EventVerify, Step: "b", State: tc.check, Text: "seen"})
		}
		if got := l.Steps[1].State(); got != tc.want || (l.Steps[1].Text == "seen") != (tc.check != "") {
			t.Errorf("%q with check %q: %q, %q", tc.change, tc.check, got, l.Steps[1].Text)
		}
		if l.Steps[0].Verified || l.Steps[0].Text != "" {
			t.Errorf("the other step is verified: %+v", l.Steps[0])
		}
	}
}

// TestStepTimes: a step is done when its last change is, for the first time; it is over with the last one as well.
func TestStepTimes(t *testing.T) {
	l := two()
	seen := func() (s [2]int64) {
		for i, at := range []*time.Time{l.Steps[0].DoneAt, l.Steps[0].OverAt} {
			if at != nil {
				s[i] = at.Unix()
			}
		}
		return s
	}
	for _, tc := range []struct {
		change int
		state  State
		want   [2]int64
	}{
		{0, Planned, [2]int64{}}, {0, Intent, [2]int64{}}, {1, Intent, [2]int64{}}, {0, Done, [2]int64{}},
		{1, Done, [2]int64{5, 0}}, {1, Done, [2]int64{5, 0}}, {1, Reverting, [2]int64{5, 0}}, {1, Reverted, [2]int64{5, 0}},
		{0, Reverting, [2]int64{5, 0}}, {0, Lost, [2]int64{5, 10}},
	} {
		l.is("a", tc.change, tc.state, l.Last)
		if got := seen(); got != tc.want {
			t.Fatalf("entry %d, %q: done and over at %v, want %v", l.Last, tc.state, got, tc.want)
		}
	}
	if l.Steps[1].DoneAt != nil || l.Steps[1].OverAt != nil {
		t.Error("the other step has times")
	}
	l = two()
	l.is("a", 0, Intent, 1)
	l.is("a", 1, Intent, 1)
	l.is("a", 0, Done, 2)
	l.is("a", 1, Lost, 3)
	if got := seen(); got != [2]int64{} {
		t.Errorf("a step that was never all done: %v", got)
	}
}

// TestEntriesOfNothing: an entry about a step or a change that the drill does not have changes nothing else.
func TestEntriesOfNothing(t *testing.T) {
	for _, e := range []Entry{
		{Step: "c", Change: ptr(0), State: Done}, {Step: "a", State: Done}, {Step: "a", Change: ptr(-1), State: Done},
		{Step: "a", Change: ptr(2), State: Done}, {Step: "b", Change: ptr(1), State: Reverted}, {Change: ptr(0), State: Done},
	} {
		for _, event := range []string{EventPlanned, EventChange, EventVerify, EventWanted} {
			l := two()
			e.Event, e.Seq = event, 7
			l.Add(e)
			if l.Touched() || l.State() != "" || l.Why != "" || l.Last != 7 {
				t.Errorf("%s %+v: %+v", event, e, l)
			}
		}
	}
	l := Read([]Entry{{Seq: 1, Event: EventDrill, Boot: "b1", Note: json.RawMessage(`{`)}})
	if l.Known || l.Boot != "b1" || two().Known != true {
		t.Errorf("a drill that cannot be read: %+v", l)
	}
}

// TestFold: entries that are about the drill, or give a change what its undo needs.
func TestFold(t *testing.T) {
	l := two()
	note := json.RawMessage(`{"before":1}`)
	for _, e := range []Entry{
		{Event: EventPlanned, Step: "a", Change: ptr(0), State: Planned, Note: note},
		{Event: EventPlanned, Step: "b", Change: ptr(0), State: Planned, Note: note},
		{Event: EventArmed, Boot: "b2", BootNS: 5, At: time.Unix(9, 0)},
		{Event: EventGuard, PID: 7}, {Event: EventGuard, PID: 8}, {Event: EventWanted, Step: "b"},
		{Event: EventChange, Step: "b", Change: ptr(0), State: Intent},
		{Event: EventChange, Step: "b", Change: ptr(0), State: Done, Note: json.RawMessage(`{"after":1}`), By: ByCLI},
	} {
		e.Seq = l.Last + 1
		l.Add(e)
	}
	a, b := l.Steps[0], l.Steps[1]
	if string(a.Changes[0].Note) != string(note) || string(b.Changes[0].Note) != `{"after":1}` ||
		b.Changes[0].By != ByCLI {
		t.Errorf("notes %s, %s", a.Changes[0].Note, b.Changes[0].Note)
	}
	if a.Wanted || !b.Wanted || l.Guard != 8 || l.Guards != 2 || !l.Armed || l.ArmedNS != 5 || l.Boot != "b2" ||
		l.Last != 9 {
		t.Errorf("%+v", l)
	}
	if st := l.Status(); st.ArmedAt == nil || st.ArmedAt.Unix() != 9 || len(st.Steps) != 2 ||
		st.Steps[1].Changes[0] != (ChangeStatus{"file:/etc/b", Done, "", ByCLI}) || st.State != Done || st.Why != "" {
		t.Errorf("%+v", st)
	}
	if st := two().Status(); st.ArmedAt != nil {
		t.Errorf("armed at %v", st.ArmedAt)
	}
	// The first reason stays, and the last comparison counts.
	for _, e := range []Entry{{Event: EventRevert, Text: WhyTTL}, {Event: EventRevert, Text: WhyAsked},
		{Event: EventClean, State: Reverted}} {
		l.Add(e)
	}
	if l.Why != WhyTTL || l.Clean == nil || !*l.Clean {
		t.Errorf("why %q, clean %v", l.Why, l.Clean)
	}
	l.is("b", 0, Reverted, 20)
	l.Add(Entry{Event: EventClean, State: Failed})
	if l.Why != WhyTTL || *l.Clean {
		t.Errorf("why %q, clean %v", l.Why, *l.Clean)
	}
}

// TestPhases: a drill is over when it was to be reverted and nothing is injected, and never before.
func TestPhases(t *testing.T) {
	for name, tc := range map[string]struct {
		armed, revert, closed bool
		state                 State
		want                  string
		over                  bool
	}{
		"new":             {want: PhaseArming},
		"planned":         {state: Planned, want: PhaseArming},
		"armed":           {armed: true, state: Planned, want: PhaseArmed},
		"injected":        {armed: true, state: Done, want: PhaseArmed},
		"to be reverted":  {armed: true, revert: true, state: Done, want: PhaseReverting},
		"not reverted":    {armed: true, revert: true, state: Failed, want: PhaseReverting},
		"reverted":        {armed: true, revert: true, state: Reverted, want: PhaseOver, over: true},
		"conflict":        {armed: true, revert: true, state: Conflict, want: PhaseOver, over: true},
		"nothing to undo": {armed: true, revert: true, state: Planned, want: PhaseOver, over: true},
		"never armed":     {revert: true, want: PhaseOver, over: true},
		"closed":          {armed: true, revert: true, closed: true, state: Reverted, want: PhaseClosed, over: true},
	} {
		l := two()
		for event, is := range map[string]bool{EventArmed: tc.armed, EventRevert: tc.revert, EventClosed: tc.closed} {
			if is {
				l.Add(Entry{Event: event, Text: WhyAsked})
			}
		}
		if tc.state != "" {
			l.is("a", 0, tc.state, 1)
		}
		if l.Phase() != tc.want || l.Final() != tc.over || l.Status().Phase != tc.want {
			t.Errorf("%s: %s, over %v", name, l.Phase(), l.Final())
		}
	}
}
