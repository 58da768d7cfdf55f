package drill

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

const secret = "s3cret-canary"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sent is a drill of two steps: one with a check, one without.
func sent() step.Drill {
	return step.Drill{
		Schema: step.Schema, Run: "r1", Scenario: "api-egress-blocked", Node: "n1", By: "ann@laptop", At: noon, TTL: 90_000,
		Steps: []step.Step{
			{ID: "block", Fault: "net-block", Tier: step.TierKernel, Verify: []step.Check{{Name: "nothing gets through"}},
				Changes: []step.Change{{Block: &step.Block{}}}},
			{ID: "key", Fault: "file", Tier: step.TierBoot,
				Changes: []step.Change{{File: &step.File{Path: "/etc/gpuaas/key.pem", Text: secret, Secret: true}}}},
		},
	}
}

// pen writes a machine's journal. The machine's clock is 7 s ahead of the operator's, and its boot clock has
// another offset.
type pen struct {
	entries []step.Entry
	boot    string
}

func (p *pen) at(ms int64, e step.Entry) *pen {
	e.Seq, e.At, e.Boot, e.BootNS = len(p.entries)+1, noon.Add(time.Duration(ms+7000)*time.Millisecond), p.boot,
		(ms+5_000_000)*int64(time.Millisecond)
	if e.By == "" {
		e.By = step.ByWatchdog
	}
	p.entries = append(p.entries, e)
	return p
}

func (p *pen) change(ms int64, id string, state step.State) *pen {
	n := 0
	return p.at(ms, step.Entry{Event: step.EventChange, Step: id, Change: &n, State: state})
}

// injected writes a journal up to the point at which both steps are made.
func injected() *pen {
	p := &pen{boot: "b1"}
	p.at(1000, step.Entry{Event: step.EventDrill, Note: sent().Encode(), By: step.ByCLI})
	p.at(1100, step.Entry{Event: step.EventArmed, By: step.ByCLI}).at(1150, step.Entry{Event: step.EventGuard, PID: 7})
	p.at(1500, step.Entry{Event: step.EventWanted, Step: "block", By: step.ByCLI}).change(1510, "block", step.Intent).
		change(1530, "block", step.Done)
	p.at(3600, step.Entry{Event: step.EventVerify, Step: "block", State: step.Verified, By: step.ByCLI})
	return p.at(3700, step.Entry{Event: step.EventWanted, Step: "key", By: step.ByCLI}).change(3710, "key", step.Intent).
		change(3720, "key", step.Done)
}

// reverted adds an undo for that reason.
func (p *pen) reverted(ms int64, why string) *pen {
	p.at(ms, step.Entry{Event: step.EventRevert, Text: why})
	p.change(ms+5, "key", step.Reverting).change(ms+10, "key", step.Reverted)
	return p.change(ms+20, "block", step.Reverting).change(ms+31, "block", step.Reverted)
}

func (p *pen) cleared(ms int64, state step.State) *pen {
	e := step.Entry{Event: step.EventClean, State: state, By: step.ByCLI}
	if state != step.Reverted {
		e.Text = "2 differences"
	}
	return p.at(ms, e).at(ms+500, step.Entry{Event: step.EventClosed, By: step.ByCLI})
}

// bytes returns the journal as it is on a disk.
func (p *pen) bytes() []byte {
	b := make([]byte, step.JournalSize)
	at := 0
	for _, e := range p.entries {
		at += copy(b[at:], step.EncodeEntry(e))
	}
	return b
}

func (p *pen) journal(t *testing.T) Journal {
	t.Helper()
	j, err := ReadJournal(p.bytes())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// logOf is the tool's log of the same run until the tool was killed, when the fault was in place and one walk had
// seen it. Times are the operator's.
func logOf(t *testing.T) []Event {
	t.Helper()
	p := chaos.Plan{
		Run: "r1", Hash: "abc", Scenario: chaos.Scenario{Metadata: chaos.Metadata{ID: "api-egress-blocked"}}, Node: "n1",
		Targets:  []chaos.PlannedMachine{{Role: chaos.RoleNode, ID: "n1", Tier: step.TierBoot, Drill: sent().Redacted()}},
		Schedule: []chaos.PlannedStep{{Machine: "n1", Step: "block"}, {Machine: "n1", Step: "key"}},
		Budgets:  chaos.Budgets{Lease: chaos.Duration(20 * time.Second), DetectWithin: chaos.Duration(30 * time.Second)},
	}
	p.Scenario.Expect.Blame.Hop, p.Scenario.Expect.Blame.Signal = []diag.HopID{diag.HopNodeRuntimeAPI},
		[]diag.Signal{diag.SigAPIUnreachable}
	armed, made := step.Read(injected().entries[:2]).Status(), step.Read(injected().entries).Status()
	green := WalkView{N: 1, Stage: Before, EndedBy: diag.EndedCompleted, Outcome: diag.OutcomePass}
	red := WalkView{N: 2, Stage: During, BeganMS: 3800, EndedMS: 4500, EndedBy: diag.EndedCompleted,
		Outcome: diag.OutcomeFail, Blame: &diag.Blame{Hop: diag.HopNodeRuntimeAPI, Signal: diag.SigAPIUnreachable}}
	var all []Event
	for _, e := range []Event{
		{Kind: Begun, Plan: &p}, {MS: 900, Kind: Walked, WalkView: &green}, {MS: 950, Kind: Arming, Machine: "n1"},
		{MS: 1100, Kind: Armed, Machine: "n1", Status: &armed}, {MS: 1490, Kind: Breaking, Machine: "n1", Step: "block"},
		{MS: 3650, Kind: Broken, Machine: "n1", Step: "block", Status: &made},
		{MS: 3690, Kind: Breaking, Machine: "n1", Step: "key"},
		{MS: 3750, Kind: Broken, Machine: "n1", Step: "key", Status: &made}, {MS: 4500, Kind: Walked, WalkView: &red},
	} {
		e.Seq, e.At = len(all)+1, diag.At(noon.Add(time.Duration(e.MS)*time.Millisecond))
		all = append(all, e)
	}
	return all
}

func merged(t *testing.T, events []Event, p *pen) Drill {
	t.Helper()
	all, err := Merge(events, []Journal{p.journal(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range all {
		if e.Seq != i+1 || (i > 0 && e.MS < all[i-1].MS) {
			t.Errorf("event %d is number %d at %d ms, after one at %d ms", i+1, e.Seq, e.MS, all[max(0, i-1)].MS)
		}
	}
	s := Fold(all)
	d := s.Drill()
	if text, err := json.Marshal(d); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("the drill shows a secret, or does not encode: %v", err)
	}
	return d
}

func claim(t *testing.T, d Drill, id string) Claim {
	t.Helper()
	i := slices.IndexFunc(d.Claims, func(c Claim) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("no claim %s", id)
	}
	return d.Claims[i]
}

// TestKilledRun: the log ends, and the machine's journal has the rest.
func TestKilledRun(t *testing.T) {
	d := merged(t, logOf(t), injected().reverted(24_000, step.WhyLease))
	m := d.Machines[0]
	if d.Verdict.Word != Infra || m.State != step.Reverted || m.Reverter != step.ByWatchdog || m.Why != step.WhyLease ||
		m.UndoUS != 31_000 {
		t.Errorf("%+v %+v", d.Verdict, m)
	}
	for id, want := range map[string]State{"detected": Held, "reverted": Held, "kept": Held, "clean": NotSeen,
		"closed": NotSeen, "green_after": NotSeen} {
		if c := claim(t, d, id); c.State != want {
			t.Errorf("%s is %s: %s", id, c.State, c.Text)
		}
	}
	if !d.EndedAt.IsZero() || len(m.Journal) != len(injected().reverted(1, "").entries) {
		t.Errorf("ended at %v, %d entries", d.EndedAt, len(m.Journal))
	}
}

// TestLostWhileRun: the machine reverted itself while the tool still ran the drill.
func TestLostWhileRun(t *testing.T) {
	d := merged(t, logOf(t), injected().reverted(4200, step.WhyFailed))
	if c := claim(t, d, "kept"); c.State != Violated || c.Word != RevertedEarly {
		t.Errorf("%+v", c)
	}
}

// TestJournalAlone: without a log, walks and probes are unknown, so the verdict is that something was not
// measured; the machine's own events are reported.
func TestJournalAlone(t *testing.T) {
	for name, p := range map[string]*pen{
		"in place": injected(), "reverted": injected().reverted(24_000, step.WhyReboot),
		"closed": injected().reverted(9000, step.WhyAsked).cleared(9500, step.Reverted),
	} {
		d := merged(t, nil, p)
		if d.Verdict.Word != Infra {
			t.Errorf("%s: %+v", name, d.Verdict)
		}
		if d.Run != "r1" || d.Scenario != "api-egress-blocked" || len(d.Machines) != 1 || len(d.Machines[0].Steps) != 2 ||
			len(d.Machines[0].Journal) != len(p.entries) || d.Machines[0].Tier != step.TierBoot ||
			!strings.Contains(strings.Join(d.Trouble, "\n"), "this is what n1 wrote down") {
			t.Errorf("%s: %+v", name, d)
		}
		for _, id := range []string{"green_before", "injected", "control", "detected", "in_time", "spared", "proof",
			"green_after"} {
			if c := claim(t, d, id); c.State != NotSeen {
				t.Errorf("%s: nobody said that %s is %s", name, id, c.State)
			}
		}
	}
	dirty := merged(t, nil, injected().reverted(9000, step.WhyAsked).cleared(9500, step.Conflict))
	if dirty.Verdict.Word != Residue || !strings.Contains(strings.Join(dirty.Trouble, "\n"), "2 differences") {
		t.Errorf("%+v %v", dirty.Verdict, dirty.Trouble)
	}
}

// TestEveryPrefix kills the tool at any event, and loses the disk after any entry, with the log or without. There
// is always a report, never a pass, and no machine is reverted before its journal shows it.
func TestEveryPrefix(t *testing.T) {
	log, whole := logOf(t), injected().reverted(24_000, step.WhyLease).cleared(60_000, step.Reverted)
	for n := 0; n <= len(log); n++ {
		if n > 0 && n < 3 {
			continue // not armed yet, so there is no journal
		}
		for k := 1; k <= len(whole.entries); k++ {
			if testing.Short() && (n+k)%5 != 0 { // the race detector's run: the code is the same
				continue
			}
			d := merged(t, log[:n], &pen{entries: whole.entries[:k]})
			back := step.Read(whole.entries[:k]).Final()
			if d.Verdict.Word == Pass || (claim(t, d, "reverted").State == Held) != back {
				t.Errorf("%d events and %d entries: %+v, reverted %+v", n, k, d.Verdict, claim(t, d, "reverted"))
			}
			if c := claim(t, d, "closed"); (c.State == Held) != (k == len(whole.entries)) {
				t.Errorf("%d events and %d entries: closed %+v", n, k, c)
			}
		}
	}
}

// TestNothingIsToldTwice: merging a journal that the log already contains adds nothing.
func TestNothingIsToldTwice(t *testing.T) {
	whole := injected().reverted(9000, step.WhyAsked).cleared(9500, step.Reverted)
	all, err := Merge(logOf(t), []Journal{whole.journal(t)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Merge(all, []Journal{whole.journal(t)})
	if err != nil || len(again) != len(all) {
		t.Errorf("%d events, then %d: %v", len(all), len(again), err)
	}
	for _, kind := range []Kind{Arming, Armed, Reverted, Compared, Closed} {
		n := 0
		for _, e := range all {
			if e.Kind == kind {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events %s", n, kind)
		}
	}
}

// TestTornJournal: a torn entry is skipped and reported.
func TestTornJournal(t *testing.T) {
	p := injected()
	b := p.bytes()
	_, end, _ := step.DecodeJournal(b)
	copy(b[end:], "gpuaas-drill 1 blocks=1 crc32c=deadbeef {")
	j, err := ReadJournal(b)
	if err != nil || j.Torn != 1 || len(j.Entries) != len(p.entries) {
		t.Fatalf("%d torn, %d entries: %v", j.Torn, len(j.Entries), err)
	}
	all, err := Merge(nil, []Journal{j})
	if err != nil || !slices.ContainsFunc(all, func(e Event) bool {
		return strings.Contains(e.Text, "not wholly written")
	}) {
		t.Errorf("%v: %v", err, all)
	}
}

func TestWrongJournals(t *testing.T) {
	if _, err := ReadJournal(make([]byte, step.JournalSize)); err == nil || !strings.Contains(err.Error(), "no entry") {
		t.Error("a journal of zeros is read")
	}
	b := injected().bytes()
	clear(b[:len(step.EncodeEntry(injected().entries[0]))])
	if _, err := ReadJournal(b); err == nil || !strings.Contains(err.Error(), "the drill") {
		t.Errorf("a journal without its drill is read: %v", err)
	}
	other, foreign := sent(), sent()
	other.Run, foreign.Node = "r2", "n9"
	for _, d := range []step.Drill{other, foreign} {
		p := (&pen{boot: "b"}).at(0, step.Entry{Event: step.EventDrill, Note: d.Encode()})
		if _, err := Merge(logOf(t), []Journal{p.journal(t)}); err == nil {
			t.Errorf("the journal of %s on %s is merged", d.Run, d.Node)
		}
	}
	if _, err := Merge(nil, nil); err == nil {
		t.Error("nothing is merged with nothing")
	}
}

// TestTwoMachines: two journals of one run, with different clocks, are merged in the order of the events.
func TestTwoMachines(t *testing.T) {
	d := sent()
	d.Node = "n2"
	second := &pen{boot: "c1"}
	second.at(1200, step.Entry{Event: step.EventDrill, Note: d.Encode()}).at(1300, step.Entry{Event: step.EventArmed})
	all, err := Merge(nil, []Journal{injected().journal(t), second.journal(t)})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := Merge(nil, []Journal{second.journal(t), injected().journal(t)})
	if first := noon.Add(8 * time.Second); err != nil || !all[0].At.Equal(first) || !turned[0].At.Equal(first) {
		t.Errorf("it began at %v and %v, want %v: %v", all[0].At, turned[0].At, first, err)
	}
	s := Fold(all)
	if got := s.Drill(); len(got.Machines) != 2 || !got.Machines[1].Armed || got.Machines[1].State != "" {
		t.Errorf("%+v", got.Machines)
	}
	for _, c := range s.Claims() { // no machine knows what the tool refused, and whether there were other machines
		if (c.ID == "guards" || c.ID == "armed") && c.State != NotSeen {
			t.Errorf("%s is %s without the tool's log", c.ID, c.State)
		}
	}
	order := slices.IsSortedFunc(all, func(a, b Event) int { return a.Seq - b.Seq })
	if !order {
		t.Error("not in order")
	}
}
