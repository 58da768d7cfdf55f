package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// counts gives the rows of each table that a caller can grow.
func counts(t *testing.T, path string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := map[string]int{}
	for _, table := range []string{"tasks", "operations", "sessions", "events", "watermarks", "instances", "audit",
		"audit_open"} {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		out[table] = n
	}
	return out
}

func heartbeat(t *testing.T, s *store.Store, host string, at time.Time) {
	t.Helper()
	b := store.Heartbeat{HeartbeatRequest: wire.HeartbeatRequest{NodeInstanceID: host}, NodeID: "n1", ReceivedAt: at}
	none := store.Judges{Clone: func([]store.Source, store.Source) *store.Source { return nil },
		Echo: func([]store.Link, string, time.Time) store.ChallengeResult { return store.ChallengeResult{} }}
	if _, err := s.Heartbeat(t.Context(), b, time.Minute, none); err != nil {
		t.Fatal(err)
	}
}

func events(t *testing.T, s *store.Store, host string, at time.Time, from, to uint64) uint64 {
	t.Helper()
	in := wire.EventsRequest{NodeInstanceID: host}
	for n := from; n <= to; n++ {
		in.Events = append(in.Events, wire.Event{Seq: n, At: at, Kind: "k"})
	}
	mark, err := s.AddEvents(t.Context(), "n1", in, at)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// TestPruneForgetsHistory: rows of tables that callers fill are deleted after a time; a fence, the node's own host
// and a decision within its time stay.
func TestPruneForgetsHistory(t *testing.T) {
	s, path := open(t)
	ctx := t.Context()
	add(t, s, "done", t0, time.Minute)
	if _, err := s.Expire(ctx, t0.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	add(t, s, "open", t0, 200*24*time.Hour)
	if err := s.Mint(ctx, store.Session{ID: "ts", NodeID: "n1", CreatedAt: t0,
		ExpiresAt: t0.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"gone", "fenced", "own"} {
		heartbeat(t, s, host, t0.Add(time.Duration(i)*time.Second))
		events(t, s, host, t0, 1, 3)
	}
	events(t, s, "never spoke", t0, 1, 3)
	if _, err := s.Decide(ctx,
		store.Decision{NodeID: "n1", Action: store.Fence, InstanceID: "fenced", Reason: "copy", At: t0}); err != nil {
		t.Fatal(err)
	}
	key := store.AuditKey{ActorType: "host", ActorID: "fenced", Action: "node.authenticate", Reason: "fenced"}
	for i := range 3 {
		if _, err := s.Failed(ctx, store.Audit{AuditKey: key, At: t0.Add(time.Duration(i) * time.Second)},
			time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	prune(ctx, t, s, t0.Add(store.QuietAfter+time.Hour))
	rows, err := s.AuditRows(ctx, store.AuditQuery{Limit: 10})
	if err != nil || len(rows) != 3 || rows[2].Phase != store.AuditQuiet || rows[2].Count != 3 ||
		counts(t, path)["audit_open"] != 0 {
		t.Errorf("a failure that nobody repeated is closed: %+v, %v, %v", rows, counts(t, path), err)
	}
	prune(ctx, t, s, t0.Add(store.KeepEvidence+time.Hour))
	if mark := events(t, s, "own", t0, 2, 4); mark != 4 {
		t.Errorf("a repetition of what was forgotten, and one more: %d", mark)
	}
	prune(ctx, t, s, t0.Add(store.KeepHistory+time.Hour))
	got, want := fmt.Sprint(counts(t, path)),
		fmt.Sprint(map[string]int{"tasks": 1, "operations": 0, "sessions": 0, "events": 0, "watermarks": 2, "instances": 2,
			"audit": 2, "audit_open": 0})
	if got != want {
		t.Errorf("after a quarter: %s, want %s", got, want)
	}
	prune(ctx, t, s, t0.Add(store.KeepDecisions+time.Hour))
	if n := counts(t, path)["audit"]; n != 0 {
		t.Errorf("%d audit rows after more than a year", n)
	}
}

// TestPruneBoundsNumbers: rows that a caller adds with its own names and numbers are bounded at any time.
func TestPruneBoundsNumbers(t *testing.T) {
	s, path := open(t)
	heartbeat(t, s, "own", t0)
	for n := uint64(1); n <= store.MaxEvents+2; n += 4000 {
		events(t, s, "own", t0.AddDate(50, 0, 0), n, min(n+3999, store.MaxEvents+2)) // a time of the node's own
	}
	for i := range store.MaxInstances + 5 {
		heartbeat(t, s, fmt.Sprintf("host-%03d", i), t0.Add(time.Duration(i)*time.Second))
	}
	heartbeat(t, s, "own", t0.Add(time.Hour))
	prune(t.Context(), t, s, t0.Add(2*time.Hour))
	if c := counts(t, path); c["events"] != store.MaxEvents || c["instances"] != store.MaxInstances+1 {
		t.Errorf("left: %v", c)
	}
	hosts, err := s.Instances(t.Context(), "n1")
	if err != nil || hosts[0].ID != "own" || hosts[len(hosts)-1].ID != "host-005" {
		t.Errorf("the newest stay: %+v ... %+v, %v", hosts[0], hosts[len(hosts)-1], err)
	}
}

// TestPruneKeepsConfirmedEvents: a host may report its boot before its first heartbeat; pruning in between does
// not delete confirmed events.
func TestPruneKeepsConfirmedEvents(t *testing.T) {
	s, path := open(t)
	events(t, s, "starting", t0, 1, 2)
	prune(t.Context(), t, s, t0.Add(time.Second))
	if mark := events(t, s, "starting", t0, 3, 3); mark != 3 {
		t.Errorf("watermark %d after a pruning, want 3", mark)
	}
	prune(t.Context(), t, s, t0.Add(store.KeepStrangers+time.Second))
	if c := counts(t, path); c["events"]+c["watermarks"] != 0 {
		t.Errorf("a host without a heartbeat is kept: %v", c)
	}
}

func prune(ctx context.Context, t *testing.T, s *store.Store, now time.Time) {
	t.Helper()
	if behind, err := s.Prune(ctx, now, 1000*24*time.Hour); err != nil || behind > 0 {
		t.Fatal(behind, err)
	}
}
