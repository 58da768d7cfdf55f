package store

import (
	"strconv"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// TestEvidenceKeepsWhoseItWas: a reimaged node keeps its history, each line with the instance at that time.
func TestEvidenceKeepsWhoseItWas(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	began := time.UnixMilli(1_700_000_000_000)
	if err := s.SeedNode(ctx, Node{ID: "n1", Status: "ACTIVE", CreatedAt: began}); err != nil {
		t.Fatal(err)
	}
	if err := s.SeedAllocation(ctx, Allocation{ID: "a1", NodeID: "n1", State: "active", WorkflowID: "wf-1"}); err != nil {
		t.Fatal(err)
	}
	for i, instance := range []string{"first", "first", "second"} {
		at := began.Add(time.Duration(i) * time.Minute)
		b := Heartbeat{HeartbeatRequest: wire.HeartbeatRequest{NodeInstanceID: instance}, NodeID: "n1", CorrelationID: "c",
			ReceivedAt: at}
		clone := func([]Source, Source) *Source { return nil }
		none := Judges{Clone: clone, Echo: func([]Link, string, time.Time) ChallengeResult {
			return ChallengeResult{}
		}}
		if _, err := s.Heartbeat(ctx, b, time.Minute, none); err != nil {
			t.Fatal(err)
		}
		if err := s.Record(ctx, Evidence{At: at, Kind: NodeEvent, NodeID: "n1", AllocationID: "a1"}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.EvidenceOf(ctx, "n1", "", began.Add(time.Minute), 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range rows {
		got = append(got, e.Kind+" "+e.InstanceID+" "+e.WorkflowID)
	}
	want := []string{"node.event first wf-1", "node.heartbeat_changed second ", "node.event second wf-1"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %q, want %q", got, want)
	}
	if newest, err := s.EvidenceOf(ctx, "", "a1", time.Time{}, 2); err != nil || len(newest) != 2 ||
		newest[0].InstanceID != "first" || newest[1].InstanceID != "second" {
		t.Errorf("the newest two of the allocation: %+v, %v", newest, err)
	}
}

// TestEvidenceByKeepsTheNewest: a diagnosis needs the latest events, in the order in which they happened.
func TestEvidenceByKeepsTheNewest(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	began := time.UnixMilli(1_700_000_000_000)
	for i := range evidenceLimit + 5 {
		e := Evidence{At: began.Add(time.Duration(i) * time.Second), Kind: NodeEvent, CorrelationID: "c", SessionID: "s",
			TaskID: strconv.Itoa(i)}
		if err := s.Record(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range [][2]string{{"c", ""}, {"", "s"}} {
		rows, err := s.EvidenceBy(ctx, by[0], by[1])
		if err != nil || len(rows) != evidenceLimit {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if first, last := rows[0].TaskID, rows[len(rows)-1].TaskID; first != "5" || last != strconv.Itoa(evidenceLimit+4) {
			t.Errorf("from %s to %s", first, last)
		}
	}
}
