package drill

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Journal is a machine's own journal of a run. It may come from a dead disk.
type Journal struct {
	Drill   step.Drill // without secrets
	Entries []step.Entry
	Torn    int // blocks that were not completely written
}

// ReadJournal reads a machine's journal.
func ReadJournal(b []byte) (Journal, error) {
	entries, _, torn := step.DecodeJournal(b)
	l := step.Read(entries)
	switch {
	case len(entries) == 0:
		return Journal{}, errors.New("no entry of it is whole")
	case !l.Known:
		return Journal{}, errors.New(
			"its first entry, which is the drill, is not whole, and the others mean nothing without it")
	}
	return Journal{l.Drill.Redacted(), step.RedactEntries(entries), torn}, nil
}

// Merge adds to the events of a run what only the machines' journals have. Without events, the result consists of
// the machines' part alone. Only journal entries lead to added events.
func Merge(events []Event, journals []Journal) ([]Event, error) {
	if len(events) == 0 {
		if len(journals) == 0 {
			return nil, errors.New("there is neither a log nor a journal")
		}
		events = alone(journals)
	}
	story, last := Fold(events), events[len(events)-1]
	var added []Event
	for _, j := range journals {
		if j.Drill.Run != story.Plan.Run {
			return nil, fmt.Errorf("%s has a journal of run %s, and this is %s", j.Drill.Node, j.Drill.Run, story.Plan.Run)
		}
		p := story.part(j.Drill.Node)
		if p == nil {
			return nil, fmt.Errorf("run %s has nothing to do with %s", j.Drill.Run, j.Drill.Node)
		}
		if !p.Closed { // the log contains the journal of a closed machine
			t := converter{part: *p, clock: j.clock(events), logged: last.MS}
			added = append(added, t.convert(j)...)
		}
	}
	slices.SortStableFunc(added, func(a, b Event) int { return cmp.Compare(a.MS, b.MS) })
	all := slices.Clone(events)
	for _, e := range added {
		e.Seq, e.MS = len(all)+1, max(e.MS, last.MS)
		e.At = diag.At(events[0].At.Add(time.Duration(e.MS) * time.Millisecond))
		all = append(all, e)
	}
	return all, nil
}

// alone creates the first events of a run without a log from the drills in the journals. A journal does not
// contain the walked node or the expected result.
func alone(journals []Journal) []Event {
	first := journals[0].Drill
	p := chaos.Plan{
		Head: diag.NewHead(chaos.PlanKind), Run: first.Run, At: first.At,
		Scenario: chaos.Scenario{Metadata: chaos.Metadata{ID: first.Scenario}},
		Budgets:  chaos.Budgets{TTL: chaos.Duration(first.TTL.Duration()), Lease: chaos.Duration(first.LeaseFor())},
	}
	at := journals[0].Entries[0].At
	var names []string
	for _, j := range journals {
		tier := ""
		for _, s := range j.Drill.Steps {
			tier = max(tier, s.Tier)
		}
		p.Targets = append(p.Targets, chaos.PlannedMachine{ID: j.Drill.Node, Tier: tier, Drill: j.Drill})
		names = append(names, j.Drill.Node)
		if t := j.Entries[0].At; t.Before(at) {
			at = t
		}
	}
	text := fmt.Sprintf(
		"the log of the tool is missing: this is what %s wrote down, and nothing is known of other machines or of walks",
		strings.Join(names, ", "))
	return []Event{{Seq: 1, At: diag.At(at), Kind: Begun, Plan: &p}, {Seq: 2, At: diag.At(at), Kind: Trouble, Text: text}}
}

// clock maps an entry's time to milliseconds of the run.
type clock struct {
	ms   int64
	with step.Entry // what was written then
}

// clock is anchored at the arming, which both the log and the journal have; otherwise at the first entry.
func (j Journal) clock(events []Event) clock {
	c := clock{with: j.Entries[0]}
	if began := events[0].At; c.with.At.After(began.Time) { // assumes equal clocks, for lack of anything better
		c.ms = c.with.At.Sub(began.Time).Milliseconds()
	}
	for _, e := range events {
		if e.Machine != j.Drill.Node {
			continue
		}
		if e.Kind == Arming {
			c.ms = e.MS
		}
		i := slices.IndexFunc(j.Entries, func(x step.Entry) bool { return x.Event == step.EventArmed })
		if e.Kind == Armed && i >= 0 {
			return clock{e.MS, j.Entries[i]}
		}
	}
	return c
}

// of uses the machine's boot clock, which cannot be set, if the machine did not reboot in between; otherwise its
// wall clock.
func (c clock) of(e step.Entry) int64 {
	if e.Boot == c.with.Boot {
		return c.ms + (e.BootNS-c.with.BootNS)/int64(time.Millisecond)
	}
	return c.ms + e.At.Sub(c.with.At).Milliseconds()
}

// converter converts one machine's journal to events, except for those that the log has.
type converter struct {
	part   MachineStory
	clock  clock
	logged int64 // when the log ends
	ledger step.Ledger
	asked  step.Entry // to revert everything
	now    int64
	events []Event
}

func (t *converter) convert(j Journal) []Event {
	for _, e := range j.Entries {
		t.ledger.Add(e)
		at := t.clock.of(e)
		t.now = max(t.now, at, 1)
		t.entry(e, at)
		if t.part.RevertedMS == 0 && t.ledger.Final() {
			t.part.RevertedMS = t.now
			took := int64(0)
			if t.asked.Boot == e.Boot {
				took = (e.BootNS - t.asked.BootNS) / int64(time.Microsecond)
			}
			t.emit(Event{Kind: Reverted, TookUS: took})
		}
		if e.Event == step.EventClosed {
			t.emit(Event{Kind: Closed})
			t.events[len(t.events)-1].Status.Journal = j.Entries
		}
	}
	if j.Torn > 0 {
		t.emit(Event{Kind: Trouble, Text: fmt.Sprintf("%d blocks of its journal were not wholly written", j.Torn)})
	}
	if !t.ledger.Closed {
		t.emit(Event{Kind: Trouble, Text: fmt.Sprintf("its journal ends here: %s, %s", t.ledger.Phase(), t.ledger.State())})
		t.events[len(t.events)-1].Status.Journal = j.Entries
	}
	return t.events
}

// emit adds an event with the machine's current state.
func (t *converter) emit(e Event) {
	e.Machine, e.MS, e.Status = t.part.ID, t.now, new(t.ledger.Status())
	t.events = append(t.events, e)
}

func (t *converter) entry(e step.Entry, at int64) {
	p := &t.part
	switch e.Event {
	case step.EventDrill:
		if !p.Touched {
			t.emit(Event{Kind: Arming})
		}
	case step.EventArmed:
		if !p.Armed {
			t.emit(Event{Kind: Armed})
		}
	case step.EventVerify:
		if _, logged := p.Made[e.Step]; !logged {
			t.emit(Event{Kind: Broken, Step: e.Step, Text: e.Text})
		}
	case step.EventChange:
		if _, logged := p.Made[e.Step]; !logged && t.madeUnchecked(e) {
			t.emit(Event{Kind: Broken, Step: e.Step})
		}
	case step.EventRevert:
		t.asked = e
		// An unattended machine reverts itself: that is too early only while the run was still active.
		if p.Lost == "" && p.RevertedMS == 0 && e.Text != step.WhyAsked && at < t.logged {
			t.emit(Event{Kind: Lost, Text: e.Text})
		}
	case step.EventClean:
		if p.Clean == nil {
			clean := e.State == step.Reverted
			t.emit(Event{Kind: Compared, Clean: &clean})
			if !clean {
				t.emit(Event{Kind: Trouble, Text: "it was compared with before, and the journal has only how much differs: " +
					e.Text})
			}
		}
	}
}

// madeUnchecked reports whether e is the last change of a step without checks.
func (t *converter) madeUnchecked(e step.Entry) bool {
	s, ok := t.ledger.Drill.Step(e.Step)
	return ok && len(s.Verify) == 0 && e.State == step.Done &&
		slices.ContainsFunc(t.ledger.Steps, func(l step.StepLedger) bool {
			return l.Step.ID == e.Step && l.State() == step.Done
		})
}
