package drill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestClock: an entry's time in the run. The machine's clock is 7 s ahead of the operator's, and must not matter if the
// log and the journal have the arming; its boot clock counts until it boots again.
func TestClock(t *testing.T) {
	log, j := logOf(t), injected().journal(t)
	for name, tc := range map[string]struct {
		events  []Event
		entries []step.Entry
		with    int   // the entry that the clock is anchored at
		ms      int64 // and its time
	}{
		"armed in both":               {log, j.Entries, 1, 1100},
		"armed in the log only":       {log, j.Entries[:1], 0, 950},
		"asked, in the log":           {log[:3], j.Entries, 0, 950},
		"nothing of it in the log":    {log[:1], j.Entries, 0, 8000},
		"the machine's clock is slow": {[]Event{{Kind: Begun, At: diag.At(noon.Add(time.Hour))}}, j.Entries, 0, 0},
		"another machine was armed": {append(slices.Clone(log[:1]), Event{Kind: Armed, Machine: "n2", MS: 5}), j.Entries, 0,
			8000},
	} {
		j.Entries = tc.entries
		c := j.clock(tc.events)
		if c.ms != tc.ms || c.with.Seq != tc.entries[tc.with].Seq {
			t.Errorf("%s: entry %d at %d ms, want %d at %d ms", name, c.with.Seq, c.ms, tc.entries[tc.with].Seq, tc.ms)
		}
		e := tc.entries[tc.with]
		e.BootNS += 5 * int64(time.Second)
		if got := c.of(e); got != tc.ms+5000 {
			t.Errorf("%s: 5 s later is at %d", name, got)
		}
		e.Boot, e.At = "after a boot", e.At.Add(9*time.Second)
		if got := c.of(e); got != tc.ms+9000 {
			t.Errorf("%s: 9 s later, in another boot, is at %d", name, got)
		}
	}
}

// TestMadeInJournal: a step whose response the log lacks was made when its checks passed or, without checks, when its
// last change was; and it is reported once.
func TestMadeInJournal(t *testing.T) {
	made := func(events []Event, p *pen) map[string][]int64 {
		all, err := Merge(events, []Journal{p.journal(t)})
		if err != nil {
			t.Fatal(err)
		}
		at := map[string][]int64{}
		for _, e := range all {
			if e.Kind == Broken {
				at[e.Step] = append(at[e.Step], e.MS)
			}
		}
		return at
	}
	check := func(name string, got map[string][]int64, block, key []int64) {
		if !slices.Equal(got["block"], block) || !slices.Equal(got["key"], key) || len(got) > 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
	log := logOf(t)
	check("neither is in the log", made(log[:5], injected()), []int64{3600}, []int64{3720})
	check("one is in the log", made(log[:7], injected()), []int64{3650}, []int64{3720})
	check("both are in the log", made(log, injected()), []int64{3650}, []int64{3750})
	unchecked := injected()
	unchecked.entries = unchecked.entries[:6] // the step with checks is done, and they have not run
	check("its checks have not run", made(log[:5], unchecked), nil, nil)

	// A step of two changes is made with the second.
	d := sent()
	d.Steps[1].Changes = append(d.Steps[1].Changes, step.Change{File: &step.File{Path: "/etc/b", Absent: true}})
	p := &pen{boot: "b1"}
	p.at(1000, step.Entry{Event: step.EventDrill, Note: d.Encode()}).at(1100, step.Entry{Event: step.EventArmed})
	p.change(1200, "block", step.Done) // its checks have not run
	for n, ms := range []int64{2000, 2500} {
		p.at(ms-10, step.Entry{Event: step.EventChange, Step: "key", Change: &n, State: step.Intent})
	}
	for n, ms := range []int64{2600, 2700} {
		p.at(ms, step.Entry{Event: step.EventChange, Step: "key", Change: &n, State: step.Done})
	}
	n := 1
	p.at(9000, step.Entry{Event: step.EventChange, Step: "key", Change: &n, State: step.Reverted})
	check("of two changes", made(log[:5], p), nil, []int64{2700})
}

// TestRevertInJournal: what the journal alone says about an undo: its reason, its duration, and its time.
func TestRevertInJournal(t *testing.T) {
	find := func(p *pen, kind Kind) (found []Event) {
		all, err := Merge(logOf(t), []Journal{p.journal(t)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.Kind == kind {
				found = append(found, e)
			}
		}
		return found
	}
	last := logOf(t)[len(logOf(t))-1].MS
	for name, tc := range map[string]struct {
		at   int64
		why  string
		lost int
	}{
		"while the tool ran":        {last - 1, step.WhyTTL, 1},
		"when the log ends":         {last, step.WhyTTL, 0},
		"asked for while it ran":    {last - 1, step.WhyAsked, 0},
		"after the tool was killed": {last + 1, step.WhyLease, 0},
		"asked for by another one":  {last + 1, step.WhyAsked, 0},
	} {
		p := injected().reverted(tc.at, tc.why)
		back := find(p, Reverted)
		if lost := find(p, Lost); len(lost) != tc.lost || len(back) != 1 || back[0].TookUS != 31_000 ||
			back[0].MS != max(last, tc.at+31) {
			t.Errorf("%s: %d lost, reverted %+v", name, len(lost), back)
		}
	}
	// What the log has of it is not reported again.
	for kind, e := range map[Kind]Event{Lost: {Kind: Lost, Text: "ttl"}, Reverted: {Kind: Reverted}} {
		log := logOf(t)
		e.Seq, e.MS, e.Machine, e.At = len(log)+1, last+500, "n1", log[0].At
		all, err := Merge(append(log, e), []Journal{injected().reverted(last, step.WhyTTL).journal(t)})
		lost := slices.ContainsFunc(all, func(e Event) bool { return e.Kind == Lost })
		n := len(slices.DeleteFunc(all, func(e Event) bool { return e.Kind != kind }))
		if n != 1 || lost != (kind == Lost) || err != nil {
			t.Errorf("%d events %s, lost %v, %v", n, kind, lost, err)
		}
	}
	if len(slices.DeleteFunc(find(injected(), Trouble), func(e Event) bool {
		return !strings.Contains(e.Text, "not wholly written")
	})) > 0 {
		t.Error("a whole journal is torn")
	}
	p := injected().reverted(9000, step.WhyReboot)
	for i := range p.entries[len(p.entries)-4:] {
		p.entries[len(p.entries)-4+i].Boot = "b2" // it was begun in one boot, and went on in the next
	}
	if back := find(p, Reverted); len(back) != 1 || back[0].TookUS != 0 {
		t.Errorf("an undo over two boots took %+v", back)
	}
	closed := find(injected().reverted(9000, step.WhyAsked).cleared(9500, step.Reverted), Closed)
	if len(closed) != 1 || len(closed[0].Status.Journal) == 0 || closed[0].MS != 10_000 {
		t.Errorf("%+v", closed)
	}
	compared := find(injected().reverted(9000, step.WhyAsked).cleared(9500, step.Conflict), Compared)
	if len(compared) != 1 || *compared[0].Clean {
		t.Errorf("%+v", compared)
	}
}
