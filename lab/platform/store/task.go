package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Task is a task and its progress. Its signature is not stored: it is made when the task is handed out.
type Task struct {
	ID            string
	NodeID        string
	Type          string
	Payload       []byte // JSON
	CorrelationID string
	SessionID     string // terminal.open
	AllocationID  string
	Status        string // wire.Task*
	QueuedAt      time.Time
	ClaimedAt     time.Time
	CompletedAt   time.Time // also of a failed or expired task
	ExpiresAt     time.Time
	Reclaims      int       // how often it returned to the queue without a result
	LateAt        time.Time // when a result arrived after the expiry
	Result        *wire.TaskResult
}

const taskColumns = `SELECT id, node_id, type, payload, correlation_id, session_id, allocation_id, status, queued_at, claimed_at,
	completed_at, expires_at, reclaims, late_at, result FROM tasks `

func taskFields(t *Task) []any {
	return []any{&t.ID, &t.NodeID, &t.Type, &t.Payload, &t.CorrelationID, &t.SessionID, &t.AllocationID, &t.Status,
		moment{&t.QueuedAt}, moment{&t.ClaimedAt}, moment{&t.CompletedAt}, moment{&t.ExpiresAt}, &t.Reclaims,
		moment{&t.LateAt}, jsonText{&t.Result}}
}

func (t Task) evidence(kind string, at time.Time) Evidence {
	return Evidence{At: at, Kind: kind, CorrelationID: t.CorrelationID, NodeID: t.NodeID, AllocationID: t.AllocationID,
		SessionID: t.SessionID, TaskID: t.ID, Detail: map[string]any{"type": t.Type}}
}

// Task returns a task, or ErrNotFound.
func (s *Store) Task(ctx context.Context, id string) (Task, error) {
	return one(ctx, s.db, taskFields, taskColumns+"WHERE id = ?", id)
}

// Enqueue stores a queued task with its operation; it returns ErrNotFound if the node does not exist. An
// observation changes nothing, so no operation is stored for it.
func (s *Store) Enqueue(ctx context.Context, t Task, observation bool) error {
	return s.tx(ctx, func(tx *sql.Tx) error { return enqueue(ctx, tx, t, observation) })
}

func enqueue(ctx context.Context, q querier, t Task, observation bool) error {
	if _, err := node(ctx, q, t.NodeID); err != nil {
		return err
	}
	err := exec(ctx, q,
		`INSERT INTO tasks (id, node_id, type, payload, correlation_id, session_id, allocation_id, status, queued_at, expires_at)
		VALUES (?,?,?,?,?,?,?,?,?,?)`, t.ID, t.NodeID, t.Type, t.Payload, t.CorrelationID, t.SessionID, t.AllocationID,
		wire.TaskQueued, ms(t.QueuedAt), ms(t.ExpiresAt))
	if !observation {
		err = errors.Join(err, addOperation(ctx, q, Operation{NodeID: t.NodeID, Type: t.Type, TaskID: t.ID,
			CorrelationID: t.CorrelationID, CreatedAt: t.QueuedAt, ExpiresAt: t.ExpiresAt}))
	}
	return errors.Join(err, record(ctx, q, t.evidence(TaskQueued, t.QueuedAt)))
}

// Claim hands out the node's oldest queued task; it returns ErrNotFound if the queue is empty.
func (s *Store) Claim(ctx context.Context, nodeID string, now time.Time) (Task, error) {
	// Reading first without a write lock keeps idle polls from blocking writers.
	if _, err := one(ctx, s.db, value[int], "SELECT 1 FROM tasks WHERE status = ? AND node_id = ? LIMIT 1",
		wire.TaskQueued, nodeID); err != nil {
		return Task{}, err
	}
	return inTx(ctx, s, func(tx *sql.Tx) (Task, error) {
		t, err := one(ctx, tx, taskFields,
			taskColumns+"WHERE status = ? AND node_id = ? AND expires_at > ? ORDER BY queued_at, rowid LIMIT 1",
			wire.TaskQueued, nodeID, ms(now))
		if err != nil {
			return t, err
		}
		t.Status, t.ClaimedAt = wire.TaskDispatched, now
		return t, errors.Join(
			exec(ctx, tx, "UPDATE tasks SET status = ?, claimed_at = ? WHERE id = ?", t.Status, ms(now),
				t.ID),
			record(ctx, tx, t.evidence(TaskDispatched, now)))
	})
}

// Requeue reverts a claim whose response could not be delivered.
func (s *Store) Requeue(ctx context.Context, t Task, now time.Time) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			exec(ctx, tx, "UPDATE tasks SET status = ?, claimed_at = 0 WHERE id = ? AND status = ?",
				wire.TaskQueued, t.ID, wire.TaskDispatched),
			record(ctx, tx, t.evidence(TaskRequeued, now)))
	})
}

// ErrNotClaimed is returned for the result of a task that was never handed out.
var ErrNotClaimed = errors.New("task was not handed out")

// Finish stores a result. Repeating it changes nothing, and then news is false. The result of a task that expired
// after it was handed out is stored and recorded as late: the task stays expired, and its consequences stay.
func (s *Store) Finish(ctx context.Context, nodeID, taskID string, r wire.TaskResult,
	now time.Time) (t Task, news bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		if t, err = one(ctx, tx, taskFields, taskColumns+"WHERE id = ? AND node_id = ?", taskID, nodeID); err != nil {
			return err
		}
		switch {
		case t.Result != nil:
			return nil
		case t.ClaimedAt.IsZero() && t.Reclaims == 0:
			return ErrNotClaimed
		case t.Status == wire.TaskExpired:
			news, t.LateAt, t.Result = true, now, &r
			if err := exec(ctx, tx, "UPDATE tasks SET late_at = ?, result = ? WHERE id = ?", ms(now), jsonText{r},
				t.ID); err != nil {
				return err
			}
			if err := record(ctx, tx, t.outcome(TaskResultLate, now)); err != nil || t.Type != wire.TaskCleanup {
				return err
			}
			return cleaned(ctx, tx, t, now)
		}
		news, t.Status, t.CompletedAt, t.Result = true, r.Status, now, &r
		return errors.Join(
			exec(ctx, tx, "UPDATE tasks SET status = ?, completed_at = ?, result = ? WHERE id = ?",
				t.Status, ms(now), jsonText{r}, t.ID),
			record(ctx, tx, t.outcome("task."+t.Status, now)),
			settle(ctx, tx, t, now))
	})
	if err != nil {
		return Task{}, false, err
	}
	return t, news, nil
}

// outcome returns the evidence of a result.
func (t Task) outcome(kind string, at time.Time) Evidence {
	e := t.evidence(kind, at)
	e.Detail["status"] = t.Result.Status
	if t.Result.Error != nil {
		e.Detail["code"], e.Detail["message"] = t.Result.Error.Code, t.Result.Error.Message
	}
	return e
}

// settle applies the consequences of a task's end, in the same transaction.
func settle(ctx context.Context, q querier, t Task, now time.Time) error {
	switch {
	case t.Type == wire.TaskCleanup:
		return cleaned(ctx, q, t, now)
	case t.Type == wire.TaskRotateToken:
		return rotated(ctx, q, t, now)
	}
	return nil
}

// StaleTasks counts a node's open tasks that are overdue and were not swept yet.
func (s *Store) StaleTasks(ctx context.Context, nodeID string, now time.Time) (int, error) {
	return one(ctx, s.db, value[int],
		"SELECT count(*) FROM tasks WHERE status IN ('queued', 'dispatched') AND node_id = ? AND expires_at <= ?", nodeID,
		ms(now))
}

// LostResults counts a node's operations that were handed out and have no result: observations that were claimed
// before the lease's start, and desired states that expired after the given time, whose result may still come. A
// status probe does not count: it is a missing observation.
func (s *Store) LostResults(ctx context.Context, nodeID string, claimedBefore,
	expiredAfter time.Time) (int, error) {
	return one(ctx, s.db, value[int],
		`SELECT (SELECT count(*) FROM tasks WHERE node_id = ?1 AND status = 'dispatched' AND claimed_at > 0 AND claimed_at <= ?2
			AND result = '' AND type IN ('noop', 'probe'))
		+ (SELECT count(*) FROM tasks WHERE node_id = ?1 AND completed_at > ?3 AND status = 'expired' AND claimed_at > 0
			AND result = '' AND type NOT IN ('noop', 'probe', 'status.probe', 'terminal.open'))`,
		nodeID, ms(claimedBefore), ms(expiredAfter))
}

// OpenTasks returns a node's claimed and unfinished tasks, oldest first.
func (s *Store) OpenTasks(ctx context.Context, nodeID string, now time.Time) ([]Task, error) {
	return all(ctx, s.db, taskFields,
		taskColumns+"WHERE status = 'dispatched' AND node_id = ? AND expires_at > ? ORDER BY queued_at", nodeID, ms(now))
}

// LastSettled returns the node's newest task of a proving type (no-op, probe, status probe, terminal open) that
// completed, failed or expired, or ErrNotFound.
func (s *Store) LastSettled(ctx context.Context, nodeID string) (Task, error) {
	return one(ctx, s.db, taskFields, taskColumns+`WHERE node_id = ? AND completed_at > 0
		AND type IN ('noop', 'probe', 'status.probe', 'terminal.open') ORDER BY completed_at DESC LIMIT 1`, nodeID)
}

// ProbeInFlight reports whether a status probe of the allocation is still open.
func (s *Store) ProbeInFlight(ctx context.Context, allocationID string) (bool, error) {
	return one(ctx, s.db, value[bool],
		`SELECT count(*) > 0 FROM tasks WHERE status IN ('queued', 'dispatched') AND type = 'status.probe'
		AND allocation_id = ?`, allocationID)
}
