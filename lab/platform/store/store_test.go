package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var t0 = time.Date(2026, 5, 25, 12, 0, 0, 0, time.UTC)

// open returns a store in a file, with one node.
func open(t *testing.T) (*store.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "platform.db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.SeedNode(t.Context(), store.Node{ID: "n1", Status: store.NodeActive, CreatedAt: t0}); err != nil {
		t.Fatal(err)
	}
	return s, path
}

func add(t *testing.T, s *store.Store, id string, queued time.Time, ttl time.Duration) {
	t.Helper()
	err := s.Enqueue(t.Context(),
		store.Task{ID: id, NodeID: "n1", Type: wire.TaskNoop, CorrelationID: "c-" + id, QueuedAt: queued,
			ExpiresAt: queued.Add(ttl)}, false)
	if err != nil {
		t.Fatal(err)
	}
}

// kinds lists the evidence of a task in order.
func kinds(t *testing.T, s *store.Store, taskID string) string {
	t.Helper()
	rows, err := s.EvidenceBy(t.Context(), "c-"+taskID, "")
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, len(rows))
	for i, e := range rows {
		words[i] = e.Kind
	}
	return strings.Join(words, " ")
}

func TestTaskTransitions(t *testing.T) {
	s, _ := open(t)
	ctx := t.Context()
	done := wire.TaskResult{Status: wire.TaskCompleted}
	for _, c := range []struct {
		name  string
		steps func(id string) error
		want  string // the status at the end
		trail string // of evidence
	}{
		{"completed", func(id string) error {
			_, err := s.Claim(ctx, "n1", t0)
			return errors.Join(err, second(s.Finish(ctx, "n1", id, done, t0.Add(time.Second))))
		}, wire.TaskCompleted, "task.queued task.dispatched task.completed"},
		{"twice", func(id string) error {
			_, err := s.Claim(ctx, "n1", t0)
			return errors.Join(err, second(s.Finish(ctx, "n1", id, wire.TaskResult{Status: wire.TaskFailed}, t0)),
				second(s.Finish(ctx, "n1", id, done, t0)))
		}, wire.TaskFailed, "task.queued task.dispatched task.failed"},
		{"requeued", func(id string) error {
			task, err := s.Claim(ctx, "n1", t0)
			return errors.Join(err, s.Requeue(ctx, task, t0))
		}, wire.TaskQueued, "task.queued task.dispatched task.requeued"},
		{"expired in the queue", func(string) error {
			_, err := s.Expire(ctx, t0.Add(time.Minute))
			return err
		}, wire.TaskExpired, "task.queued task.expired"},
		{"late", func(id string) error {
			_, err := s.Claim(ctx, "n1", t0)
			_, err2 := s.Expire(ctx, t0.Add(time.Minute))
			return errors.Join(err, err2, second(s.Finish(ctx, "n1", id, done, t0.Add(2*time.Minute))))
		}, wire.TaskExpired, "task.queued task.dispatched task.expired task.result_late"},
		{"withdrawn", func(id string) error {
			_, err := s.Withdraw(ctx, id, t0)
			return err
		}, wire.TaskExpired, "task.queued task.expired"},
		{"claimed is not withdrawn", func(id string) error {
			_, err := s.Claim(ctx, "n1", t0)
			_, err2 := s.Withdraw(ctx, id, t0)
			return errors.Join(err, err2)
		}, wire.TaskDispatched, "task.queued task.dispatched"},
	} {
		id := strings.ReplaceAll(c.name, " ", "-")
		add(t, s, id, t0, time.Minute)
		if err := c.steps(id); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		task, err := s.Task(ctx, id)
		if err != nil || task.Status != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, task.Status, c.want, err)
		}
		if got := kinds(t, s, id); got != c.trail {
			t.Errorf("%s: evidence %q, want %q", c.name, got, c.trail)
		}
		if _, err := s.Expire(ctx, t0.Add(time.Hour)); err != nil { // out of the next one's way
			t.Fatal(err)
		}
	}
}

func second(_ store.Task, _ bool, err error) error { return err }

func TestExpiryIsToTheMillisecond(t *testing.T) {
	s, _ := open(t)
	add(t, s, "a", t0, time.Minute)
	end := t0.Add(time.Minute)
	if got, err := s.Expire(t.Context(), end.Add(-time.Millisecond)); err != nil || len(got) != 0 {
		t.Errorf("a millisecond before: %v %v", got, err)
	}
	if n, err := s.StaleTasks(t.Context(), "n1", end); err != nil || n != 1 {
		t.Errorf("stale at its end: %d %v", n, err)
	}
	if _, err := s.Claim(t.Context(), "n1", end); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("claimed at its end: %v", err)
	}
	if got, err := s.Expire(t.Context(), end); err != nil || len(got) != 1 || got[0].Status != wire.TaskExpired {
		t.Errorf("at its end: %v %v", got, err)
	}
}

// TestClaimsAreExclusive: with many pollers, each task is claimed once, in order.
func TestClaimsAreExclusive(t *testing.T) {
	s, _ := open(t)
	const tasks, pollers = 20, 8
	for i := range tasks {
		add(t, s, string(rune('a'+i)), t0.Add(time.Duration(i)*time.Second), time.Hour)
	}
	got := make(chan string, tasks*2)
	var wg sync.WaitGroup
	for range pollers {
		wg.Go(func() {
			for {
				task, err := s.Claim(context.Background(), "n1", t0.Add(time.Minute))
				if errors.Is(err, store.ErrNotFound) {
					return
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				got <- task.ID
			}
		})
	}
	wg.Wait()
	close(got)
	seen := map[string]int{}
	for id := range got {
		seen[id]++
	}
	for i := range tasks {
		if id := string(rune('a' + i)); seen[id] != 1 {
			t.Errorf("task %s was claimed %d times", id, seen[id])
		}
	}
}

func TestReopen(t *testing.T) {
	s, path := open(t)
	add(t, s, "a", t0, time.Minute)
	if err := s.AddToken(t.Context(),
		store.Token{NodeID: "n1", Digest: store.Digest("secret-token"), IssuedAt: t0,
			ExpiresAt: t0.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	again, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if task, err := again.Task(t.Context(), "a"); err != nil || task.Status != wire.TaskQueued ||
		!task.QueuedAt.Equal(t0) {
		t.Errorf("task after reopening: %+v %v", task, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("a database of the future: %v", err)
	}
}

func TestFailedIssueConsumesNothing(t *testing.T) {
	s, _ := open(t)
	ctx, digest := t.Context(), store.Digest("token")
	if err := s.AddToken(ctx,
		store.Token{NodeID: "n1", Digest: digest, IssuedAt: t0, ExpiresAt: t0.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	e := store.Enrollment{NodeID: "n1", TokenDigest: digest, KeyDigest: "k", CorrelationID: "c", At: t0}
	broken := errors.New("the CA is away")
	if _, err := s.Enroll(ctx, e, func(int64) (store.Cert, error) { return store.Cert{}, broken }); !errors.Is(err,
		broken) {
		t.Fatalf("enroll: %v", err)
	}
	c, err := s.Enroll(ctx, e, func(g int64) (store.Cert, error) {
		return store.Cert{Serial: "1", NodeID: "n1", Generation: g}, nil
	})
	if err != nil || c.Generation != 1 {
		t.Errorf("enroll after the CA is back: %+v %v", c, err)
	}
}

func TestPrune(t *testing.T) {
	s, _ := open(t)
	add(t, s, "old", t0, time.Minute)
	add(t, s, "new", t0.Add(time.Hour), time.Minute)
	if _, err := s.Prune(t.Context(), t0.Add(store.KeepEvidence+time.Minute), 1000*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if kinds(t, s, "old") != "" || kinds(t, s, "new") != "task.queued" {
		t.Errorf("evidence left: old %q, new %q", kinds(t, s, "old"), kinds(t, s, "new"))
	}
}
