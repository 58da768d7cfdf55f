package state_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
)

func xid(code int, pci string, record uint64) *report.Event {
	return &report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.XIDEvent,
		Source: report.FromKernelLog, At: time.Now().UTC(), BootID: "boot", GPU: &report.Identity{PCI: pci},
		XID: &report.XID{Code: &code, Times: 1, Record: &record, BootID: "boot"}}
}

// codes returns the errors with their counts.
func codes(s *state.State) (all []string) {
	for _, e := range s.Events {
		all = append(all, fmt.Sprintf("%d x%d", *e.XID.Code, e.XID.Times))
	}
	return all
}

// TestAStormDoesNotWashOutTheFirst: equal errors become one with a count; others stay, and one without room is counted.
func TestAStormDoesNotWashOutTheFirst(t *testing.T) {
	s := state.State{BootID: "boot"}
	record := uint64(0)
	keep := func(code int) bool {
		record++
		return s.Keep(xid(code, "0000:01:00.0", record))
	}
	keep(79)
	for range 10_000 {
		keep(45)
	}
	if got := codes(&s); got[0] != "79 x1" || len(s.Events) != 96 || len(s.Forgotten) > 0 {
		t.Fatalf("%d: %v, %v", len(s.Events), got, s.Forgotten)
	}
	times := int64(0)
	for _, e := range s.Events {
		times += e.XID.Times
	}
	if times != 10_001 {
		t.Errorf("%d of 10001 errors are counted", times)
	}
	for code := range 200 {
		keep(1000 + code)
	}
	if s.Forgotten[report.XIDEvent] == 0 || len(s.Events) != 96 {
		t.Errorf("%d kept, %v", len(s.Events), s.Forgotten)
	}
	if s.Keep(xid(1199, "0000:01:00.0", record)) {
		t.Error("a record that was read twice is two errors")
	}
	long := xid(1, "", 1)
	long.XID.Text = strings.Repeat("x", report.MaxEvent)
	before := s.Forgotten[report.XIDEvent]
	if s.Keep(long); s.Forgotten[report.XIDEvent] != before+1 {
		t.Error("an event that no reader takes is kept, or not counted")
	}
}

// TestEveryEvidenceIsTaken: a policy gets events that are within their limits, including the count of forgotten ones.
func TestEveryEvidenceIsTaken(t *testing.T) {
	s := state.State{APIVersion: report.APIVersion, Kind: state.Kind, At: time.Now().UTC(), BootID: "boot",
		Forgotten: map[report.EventType]int64{report.XIDEvent: 3}, Log: &kmsg.Coverage{BootID: "boot"}}
	s.Keep(xid(79, "0000:01:00.0", 1))
	types := map[report.EventType]int{}
	for _, e := range s.Evidence(time.Now(), time.Hour) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := report.DecodeEvent(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		types[e.Type]++
	}
	if types[report.XIDEvent] != 1 || types[report.DroppedEvent] != 1 || types[report.CoverageEvent] != 1 {
		t.Errorf("%v", types)
	}
}

// TestEventsOfANewerAgent: an event that this build does not know is counted as an error that it cannot show.
func TestEventsOfANewerAgent(t *testing.T) {
	text := `{"apiVersion":"gpuaas/v1","kind":"GPUNodeState","at":"2026-01-01T00:00:00Z","boot_id":"boot","later":true,
"events":[{"apiVersion":"gpuaas/v1","kind":"GPUEvent","type":"melted","source":"agent","at":"2026-01-01T00:00:00Z"}]}`
	s, err := state.Decode([]byte(text))
	if err != nil || len(s.Events) != 0 || s.Forgotten[report.XIDEvent] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"gpuaas/v1","kind":"GPUNodeState","at":"2026-01-01T00:00:00Z","sample":{}}`))
	f.Add([]byte(`{"apiVersion":"gpuaas/v1","kind":"GPUNodeState","at":"2026-01-01T00:00:00Z","probe":{"type":"probe"}}`))
	f.Add([]byte(`{"apiVersion":"gpuaas/v1","kind":"GPUNodeState","at":"2026-01-01T00:00:00Z","events":[{"type":"xid"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := state.Decode(data)
		if err != nil {
			return
		}
		for _, e := range s.Evidence(time.Unix(1e9, 0), time.Hour) {
			if e.Type == "" {
				t.Errorf("an event without a type")
			}
		}
	})
}
