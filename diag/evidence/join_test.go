package evidence

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at returns a time: noon plus ms milliseconds.
func at(ms int) diag.Time { return diag.At(noon.Add(time.Duration(ms) * time.Millisecond)) }

func offset(ms int64) *int64 { return &ms }

// known returns a clock that is off by ms.
func known(host string, ms int64) Clock { return Clock{Host: host, OffsetMS: offset(ms)} }

func line(ms int, text string) diag.JournalLine { return diag.JournalLine{At: at(ms), Text: text} }

// texts returns the history as people see it, without times.
func texts(events []Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.Origin)+": "+e.Message)
	}
	return out
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func record(instance string, entries ...diag.RecordEntry) *diag.RecordFacts {
	for i := range entries {
		e := &entries[i]
		e.Seq, e.InstanceID, e.BootID, e.About = uint64(i+1), instance, "b1", "task_wait"
	}
	return &diag.RecordFacts{Entries: entries}
}

// TestClocksAreCorrected: the node's clock is 5 s ahead, the platform's 2 s behind; the order is the true one.
func TestClocksAreCorrected(t *testing.T) {
	h := Join(Query{NodeID: "n1"},
		Platform(known("platform", -2000),
			[]Item{{EvidenceLine: diag.EvidenceLine{At: at(-1000), Kind: "node.denied", NodeID: "n1"}}}, keep),
		Record(known("node", 5000), "n1",
			record("i1", diag.RecordEntry{At: at(5000), Decision: "retry"}, diag.RecordEntry{At: at(7000), Decision: "stop"})),
	)
	equal(t, texts(h.Events), "record: task_wait retry", "evidence: node.denied", "record: task_wait stop")
	for i, want := range []int{0, 1000, 2000} {
		if !h.Events[i].At.Equal(at(want).Time) || h.Events[i].Clock != ClockKnown || h.Events[i].SourceTime.IsZero() {
			t.Errorf("event %d: %+v", i, h.Events[i])
		}
	}
	notes := strings.Join(h.Notes(), "\n")
	if !strings.Contains(notes, "clock of node: +5000 ms") || !strings.Contains(notes, "clock of platform: -2000 ms") {
		t.Errorf("the notes do not say it:\n%s", notes)
	}
}

func keep(s string) string { return s }

// TestClocksThatAgree: a difference within the uncertainty changes no time.
func TestClocksThatAgree(t *testing.T) {
	clock := Clock{Host: "node", OffsetMS: offset(-9), ErrorMS: offset(10)}
	h := Join(Query{}, Record(clock, "n1", record("i1", diag.RecordEntry{At: at(0), Decision: "retry"})),
		Platform(Clock{Host: "platform", OffsetMS: offset(8), ErrorMS: offset(8)},
			[]Item{{EvidenceLine: diag.EvidenceLine{At: at(5), Kind: "node.denied"}}}, keep))
	equal(t, texts(h.Events), "record: task_wait retry", "evidence: node.denied")
	if notes := strings.Join(h.Notes(), "\n"); !strings.Contains(notes,
		"clock of node: agrees with the operator's, give or take 10 ms") {
		t.Errorf("the notes do not say it:\n%s", notes)
	}
}

// TestUnknownClocks: times of an unknown clock are not corrected, and are marked.
func TestUnknownClocks(t *testing.T) {
	clock := known("node", 1000)
	clock.BootID = "b2"
	// recorded in another boot
	h := Join(Query{}, Record(clock, "n1", record("i1", diag.RecordEntry{At: at(0), Decision: "retry"})),
		Journal(Clock{Host: "platform"}, FromPlatform, "",
			&diag.JournalFacts{Lines: []diag.JournalLine{line(10, "a"), {Text: "without a time"}}}))
	equal(t, texts(h.Events), "record: task_wait retry", "platform: a", "platform: without a time")
	var clocks []ClockNote
	for _, e := range h.Events {
		clocks = append(clocks, e.Clock)
	}
	if !reflect.DeepEqual(clocks, []ClockNote{ClockOfSource, ClockOfSource, ClockInherited}) {
		t.Errorf("got %q", clocks)
	}
	if !strings.Contains(strings.Join(h.Notes(), "\n"), "clock of platform: not known") {
		t.Errorf("the notes do not say it: %q", h.Notes())
	}
}

// TestSteppedClock: the node's clock was set by an hour after the event; its monotonic time gives the true time.
func TestSteppedClock(t *testing.T) {
	clock := Clock{Host: "node", OffsetMS: offset(0), BootID: "b1", Now: at(60_000), UptimeS: offset(100)}
	// ten seconds ago
	r := record("i1", diag.RecordEntry{At: diag.At(noon.Add(-time.Hour)), MonoNS: 90e9, Decision: "retry"})
	h := Join(Query{}, Record(clock, "n1", r))
	e := h.Events[0]
	if e.Clock != ClockStepped || !e.At.Equal(at(50_000).Time) || !e.SourceTime.Equal(noon.Add(-time.Hour)) {
		t.Errorf("%+v", e)
	}
}

// TestEqualTimes: events of one millisecond are in the order of a request's path, then in each source's own order.
func TestEqualTimes(t *testing.T) {
	zero := known("x", 0)
	item := func(kind string) Item {
		return Item{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: kind, NodeID: "n1", TaskID: "t1"}}
	}
	h := Join(Query{NodeID: "n1"},
		Platform(zero, []Item{item("task.queued"), item("task.dispatched"), item("task.completed")}, keep),
		Journal(zero, FromIngress, "n1", &diag.JournalFacts{Lines: []diag.JournalLine{line(0, "asked")}}),
		Record(zero, "n1", record("i1", diag.RecordEntry{At: at(0), Decision: "start"})))
	equal(t, texts(h.Events), "record: task_wait start", "ingress: asked", "tasks: task.queued", "tasks: task.dispatched",
		"tasks: task.completed")
}

// TestDoubles: an entry that is in both rings, and a line that two queries returned, is one event; ids do not change.
func TestDoubles(t *testing.T) {
	r := record("i1", diag.RecordEntry{At: at(0), Decision: "retry"}, diag.RecordEntry{At: at(1), Decision: "retry"})
	r.Pinned = r.Entries[:1]
	item := Item{EvidenceLine: diag.EvidenceLine{At: at(5), Kind: "node.denied", NodeID: "n1", CorrelationID: "c1"}}
	h := Join(Query{}, Record(known("node", 0), "n1", r), Platform(known("platform", 0), []Item{item, item}, keep))
	if len(h.Events) != 3 || h.Doubles != 1 {
		t.Errorf("%d events, %d doubles: %q", len(h.Events), h.Doubles, texts(h.Events))
	}
	again := Join(Query{}, Platform(known("platform", -900), []Item{item}, keep))
	if h.Events[2].ID != again.Events[0].ID {
		t.Error("the id of an event depends on what is known of the clock")
	}
}

// TestTheRecordIsShownInFull: a contact has the number of the preceding entry and is a separate event. An entry that
// counts repetitions is shown with its latest count, and again when the count has grown.
func TestTheRecordIsShownInFull(t *testing.T) {
	repeated := func(count int64, until diag.Time) []Event {
		r := record("i1", diag.RecordEntry{At: at(0), Decision: "enrolled"}, diag.RecordEntry{At: at(10), Decision: "retry"},
			diag.RecordEntry{At: at(20), MonoNS: 20e6, Decision: "retry", Count: 2, First: at(10), Last: at(20)})
		contact, storm := r.Entries[0], r.Entries[2]
		contact.At, contact.Decision, contact.Pin, contact.Count = at(5), "contact", "contact", 7
		r.Pinned = []diag.RecordEntry{contact, storm}
		storm.At, storm.Count, storm.Last, storm.MonoNS = until, count, until, until.Sub(noon).Nanoseconds()
		r.Entries[2] = storm
		return Join(Query{}, Record(known("node", 0), "n1", r)).Events
	}
	first, second := repeated(40, at(1000)), repeated(80, at(2000))
	equal(t, texts(first), "record: task_wait enrolled", "record: task_wait contact 7 times", "record: task_wait retry",
		"record: task_wait retry 40 times")
	equal(t, texts(second[3:]), "record: task_wait retry 80 times")
	for i, e := range second {
		if known := e.ID == first[i].ID; known != (i < 3) {
			t.Errorf("%s: the same id as before: %v", e.Message, known)
		}
	}
}

// TestIdsJoin: ids that one source knows fill in those that another left out, even over two links, but never if they
// are ambiguous.
func TestIdsJoin(t *testing.T) {
	p := known("platform", 0)
	h := Join(Query{NodeID: "n1"},
		Journal(p, FromPlatform, "", &diag.JournalFacts{Lines: []diag.JournalLine{
			line(1,
				`{"time":"2026-01-02T12:00:00.001Z","level":"INFO","msg":"request","listener":"gateway","method":"GET","path":"/v1/terminal/s1","status":101}`),
			line(2,
				`{"level":"WARN","msg":"request","listener":"node_api","method":"POST","path":"/internal/v1/nodes/n2/heartbeat","status":403,"correlation_id":"c2"}`),
			line(3,
				`{"level":"INFO","msg":"request","listener":"api","method":"POST","path":"/v1/x","status":201,"correlation_id":"both"}`),
		}}),
		Platform(p, []Item{
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "terminal.token_minted", NodeID: "n1", AllocationID: "a1",
				WorkflowID: "w1", SessionID: "s1", CorrelationID: "c1"}},
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "task.queued", NodeID: "n1", TaskID: "t1", CorrelationID: "both"}},
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "task.queued", NodeID: "n1", TaskID: "t2", CorrelationID: "both"}},
		}, keep))
	var browser, both *Event
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Origin == FromGateway:
			browser = e
		case e.Origin == FromAPI:
			both = e
		case e.NodeID == "n2" || e.CorrelationID == "c2":
			t.Errorf("another node's line is in the history: %+v", e)
		}
	}
	if browser == nil || browser.CorrelationID != "c1" || browser.AllocationID != "a1" || browser.WorkflowID != "w1" ||
		browser.NodeID != "n1" {
		t.Errorf("the browser's line is %+v", browser)
	}
	if both == nil || both.NodeID != "n1" || both.TaskID != "" {
		t.Errorf("a line that goes with two tasks is %+v", both)
	}
	if h.Dropped != 1 {
		t.Errorf("%d dropped", h.Dropped)
	}
}

// TestAWalkIsNotItsTask: requests under a walk's correlation id belong to its task and its session only if they name
// them.
func TestAWalkIsNotItsTask(t *testing.T) {
	p := known("platform", 0)
	h := Join(Query{NodeID: "n1"},
		Journal(p, FromPlatform, "", &diag.JournalFacts{Lines: []diag.JournalLine{
			line(1,
				`{"level":"INFO","msg":"request","listener":"api","method":"GET","path":"/v1/admin/evidence","status":200,"correlation_id":"walk"}`),
		}}),
		Platform(p, []Item{
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "task.queued", NodeID: "n1", TaskID: "t1", CorrelationID: "walk"}},
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "task.completed", TaskID: "t1"}},
			{EvidenceLine: diag.EvidenceLine{At: at(0), Kind: "terminal.token_minted", NodeID: "n1", AllocationID: "a1",
				SessionID: "s1", CorrelationID: "walk"}},
		}, keep))
	if len(h.Events) != 4 {
		t.Fatalf("%+v", h.Events)
	}
	for _, e := range h.Events {
		if e.CorrelationID != "walk" || e.NodeID != "n1" || e.AllocationID != "a1" {
			t.Errorf("not of the walk: %+v", e)
		}
		if (e.TaskID == "t1") != (e.Origin == FromTasks) || (e.SessionID == "s1") != (e.Origin == FromSessions) {
			t.Errorf("%s: task %q, session %q", e.Message, e.TaskID, e.SessionID)
		}
	}
}

// TestAnotherInstance: a node that was reimaged keeps its history, and the change is a line. An old instance that acts
// again means two machines, unless only the platform, with outdated data, named it.
func TestAnotherInstance(t *testing.T) {
	var items []Item
	for i, source := range [...][2]string{
		{"old", "node.enrolled"}, {"old", "node.booted"}, {"new", "node.enrolled"}, {"old", "node.recovery_changed"},
		{"old", "task.expired"}, {"", "node.event"}, {"old", "node.heartbeat_changed"}, {"new", "node.event"},
	} {
		items = append(items, Item{
			EvidenceLine: diag.EvidenceLine{At: at(i), Kind: source[1], NodeID: "n1", InstanceID: source[0]},
		})
	}
	h := Join(Query{NodeID: "n1"}, Platform(known("platform", 0), items, keep))
	equal(t, texts(h.Events), "evidence: node.enrolled", "evidence: node.booted",
		"timeline: from here on another instance acts as this node: new, before it was old (reimaged, or another "+
			"machine)",
		"evidence: node.enrolled", "evidence: node.recovery_changed", "tasks: task.expired", "evidence: node.event",
		"timeline: instance old acts again, after new did: two machines may have one identity",
		"evidence: node.heartbeat_changed",
		"timeline: instance new acts again, after old did: two machines may have one identity",
		"evidence: node.event")
}

// TestOrderOfSources: the history does not depend on the order in which sources are read.
func TestOrderOfSources(t *testing.T) {
	var sources []Source
	for w := range 5 {
		var j diag.JournalFacts
		for i := range 20 {
			j.Lines = append(j.Lines, line(i%7, fmt.Sprintf("node_id=n1 correlation_id=c%d msg=w%d", i%5, w)))
		}
		sources = append(sources, Journal(known(fmt.Sprint("host", w), int64(w)), Origins[w], "", &j))
	}
	want := Join(Query{NodeID: "n1"}, sources...)
	for range 20 {
		rand.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
		if got := Join(Query{NodeID: "n1"}, sources...); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order of sources gives another history:\n%q\n%q", texts(got.Events), texts(want.Events))
		}
	}
}

// TestOtherTenants: a line that names another tenant's allocation, session or task and no node is not part of our
// history.
func TestOtherTenants(t *testing.T) {
	j := &diag.JournalFacts{Lines: []diag.JournalLine{line(0, "msg=closed allocation_id=theirs session_id=s9"),
		line(1, "msg=closed allocation_id=ours"), line(2, "msg=closed session_id=s1"), line(3, "msg=starts")}}
	items := []Item{{EvidenceLine: diag.EvidenceLine{At: at(4), Kind: "terminal.closed", NodeID: "n1", SessionID: "s1"}}}
	h := Join(Query{NodeID: "n1", RelatedIDs: []string{"ours"}}, Journal(known("platform", 0), FromPlatform, "", j),
		Platform(known("platform", 0), items, keep))
	equal(t, texts(h.Events), "platform: closed", "platform: closed", "platform: starts", "sessions: terminal.closed")
	if h.Dropped != 1 {
		t.Errorf("%d dropped", h.Dropped)
	}
}

// TestNarrow: by request, by allocation, by time.
func TestNarrow(t *testing.T) {
	item := func(ms int, correlation, allocation string) Item {
		return Item{EvidenceLine: diag.EvidenceLine{At: at(ms), Kind: "k" + correlation, NodeID: "n1",
			CorrelationID: correlation, AllocationID: allocation}}
	}
	h := Join(Query{NodeID: "n1"},
		Platform(known("platform", 0), []Item{item(0, "1", "a1"), item(1, "2", "a2"), item(2, "3", "a1")}, keep))
	equal(t, texts(h.Narrow(Query{NodeID: "n1", CorrelationID: "2"}).Events), "evidence: k2")
	equal(t, texts(h.Narrow(Query{NodeID: "n1", AllocationID: "a1"}).Events), "evidence: k1", "evidence: k3")
	equal(t, texts(h.Narrow(Query{NodeID: "n1", Since: at(1)}).Events), "evidence: k2", "evidence: k3")
}
