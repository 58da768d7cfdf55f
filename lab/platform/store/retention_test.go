package store_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// TestClockThatIsAheadDeletesNothing: a clock that is years ahead, at the first round or at a later one, deletes no row
// that its step does not reach; a clock that is right again is followed at once.
func TestClockThatIsAheadDeletesNothing(t *testing.T) {
	s, path := open(t)
	ctx, step := t.Context(), 2*time.Hour
	for i := range 3 {
		heartbeat(t, s, "own", t0.Add(time.Duration(i)*time.Hour))
		if err := s.Record(ctx, store.Evidence{At: t0, Kind: store.NodeEvent, NodeID: "n1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Decide(ctx, store.Decision{NodeID: "n1", Action: store.Fence, InstanceID: "own", Reason: "copy",
		At: t0}); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		rows, err := s.EvidenceOf(ctx, "n1", "", time.Time{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows) + counts(t, path)["audit"]
	}
	all := left()
	for _, clock := range []time.Time{t0.AddDate(2, 0, 0), t0.Add(3 * time.Hour), t0.AddDate(150, 0, 0)} {
		behind, err := s.Prune(ctx, clock, step)
		if err != nil || left() != all || (behind > 0) != clock.After(t0.Add(24*time.Hour)) {
			t.Errorf("%v: %d rows of %d, behind %v, %v", clock, left(), all, behind, err)
		}
	}
	if behind, err := s.Prune(ctx, t0.Add(store.KeepEvidence+time.Hour), 30*24*time.Hour); err != nil || behind != 0 ||
		left() >= all {
		t.Errorf("a right clock: %d rows of %d, behind %v, %v", left(), all, behind, err)
	}
}
