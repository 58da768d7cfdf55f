package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// observations are the task types that change nothing on a node: repeating one is harmless, and one that was not
// done is a missing observation. Every other task is a desired state: if it expires, its operation has failed.
var observations = []string{wire.TaskNoop, wire.TaskProbe, wire.TaskStatusProbe}

// Observes reports whether a task is an observation.
func (t Task) Observes() bool { return slices.Contains(observations, t.Type) }

// Reclaim returns every observation that was handed out before a time, and has no result, to the queue, once.
func (s *Store) Reclaim(ctx context.Context, claimedBefore, now time.Time) ([]Task, error) {
	const query = taskColumns +
		`WHERE status = 'dispatched' AND type IN ('noop', 'probe', 'status.probe') AND reclaims = 0 AND claimed_at <= ? AND expires_at > ? ORDER BY claimed_at`
	// without a write lock: there is hardly ever one
	if found, err := all(ctx, s.db, taskFields, query, ms(claimedBefore), ms(now)); err != nil || len(found) == 0 {
		return nil, err
	}
	return inTx(ctx, s, func(tx *sql.Tx) ([]Task, error) {
		tasks, err := all(ctx, tx, taskFields, query, ms(claimedBefore), ms(now))
		if err != nil {
			return nil, err
		}
		for i := range tasks {
			t := &tasks[i]
			e := t.evidence(TaskReclaimed, now)
			e.Detail["claimed_at"] = t.ClaimedAt
			t.Status, t.ClaimedAt, t.Reclaims = wire.TaskQueued, time.Time{}, t.Reclaims+1
			if err := errors.Join(
				exec(ctx, tx, "UPDATE tasks SET status = ?, claimed_at = 0, reclaims = ? WHERE id = ?", t.Status, t.Reclaims,
					t.ID),
				record(ctx, tx, e)); err != nil {
				return tasks, fmt.Errorf("reclaim task %s: %w", t.ID, err)
			}
		}
		return tasks, nil
	})
}

// Expire expires every open task past its time and returns those tasks. For each node that lost more than
// observations it adds an operation, with one correlation id for all.
func (s *Store) Expire(ctx context.Context, now time.Time) ([]Task, error) {
	return s.expire(ctx, now, NewID("sweep-"),
		taskColumns+"WHERE status IN ('queued', 'dispatched') AND expires_at <= ? ORDER BY expires_at", ms(now))
}

// Withdraw expires one unclaimed task; it leaves a claimed one alone.
func (s *Store) Withdraw(ctx context.Context, taskID string, now time.Time) ([]Task, error) {
	return s.expire(ctx, now, "", taskColumns+"WHERE status = 'queued' AND id = ?", taskID)
}

// expire expires the tasks that query returns; sweep is the correlation id of a sweep, or "".
func (s *Store) expire(ctx context.Context, now time.Time, sweep, query string, arg any) ([]Task, error) {
	// without a write lock, as in Reclaim
	if found, err := all(ctx, s.db, taskFields, query, arg); err != nil || len(found) == 0 {
		return nil, err
	}
	return inTx(ctx, s, func(tx *sql.Tx) ([]Task, error) {
		tasks, err := all(ctx, tx, taskFields, query, arg)
		if err != nil {
			return nil, err
		}
		for i := range tasks {
			if err := expireOne(ctx, tx, &tasks[i], sweep, now); err != nil {
				return tasks, fmt.Errorf("expire task %s: %w", tasks[i].ID, err)
			}
		}
		if sweep == "" {
			return tasks, nil
		}
		return tasks, swept(ctx, tx, tasks, sweep, now)
	})
}

func expireOne(ctx context.Context, q querier, t *Task, sweep string, now time.Time) error {
	e := t.evidence(TaskExpired, now)
	e.Detail["was"] = t.Status
	if sweep != "" {
		e.Detail["sweep"] = sweep
	}
	t.Status, t.CompletedAt = wire.TaskExpired, now
	if err := errors.Join(
		exec(ctx, q, "UPDATE tasks SET status = ?, completed_at = ? WHERE id = ?", t.Status, ms(now),
			t.ID),
		record(ctx, q, e)); err != nil {
		return err
	}
	if sweep == "" || t.Observes() {
		return nil
	}
	if err := exec(ctx, q, "UPDATE operations SET status = ? WHERE task_id = ?", wire.TaskFailed,
		t.ID); err != nil {
		return err
	}
	failure := t.evidence(OperationFailed, now)
	failure.Detail["why"], failure.Detail["claimed"] = "its task expired", !t.ClaimedAt.IsZero()
	return errors.Join(
		record(ctx, q, failure),
		settle(ctx, q, *t, now))
}

// swept records the sweep itself, for each node whose operations it ended.
func swept(ctx context.Context, q querier, tasks []Task, sweep string, now time.Time) error {
	ended := map[string][]string{}
	for _, t := range tasks {
		if t.Type != wire.TaskStatusProbe {
			ended[t.NodeID] = append(ended[t.NodeID], t.ID)
		}
	}
	for _, nodeID := range slices.Sorted(maps.Keys(ended)) {
		if err := errors.Join(
			addOperation(ctx, q,
				Operation{NodeID: nodeID, Type: OperationSweep, Status: wire.TaskCompleted, CorrelationID: sweep,
					CreatedAt: now, ExpiresAt: now}),
			record(ctx, q, Evidence{At: now, Kind: TasksSwept, CorrelationID: sweep, NodeID: nodeID,
				Detail: map[string]any{"task_ids": ended[nodeID]}})); err != nil {
			return err
		}
	}
	return nil
}
