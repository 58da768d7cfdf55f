package store

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Operation is a request of an operator or the gateway to a node. An operation with a task has that task's status.
type Operation struct {
	ID            string
	NodeID        string
	Type          string
	TaskID        string
	Status        string
	CorrelationID string
	CreatedAt     time.Time
	ExpiresAt     time.Time
}

// OperationSweep is the type of a sweep of stale tasks. It is housekeeping, never a node's latest operation.
const OperationSweep = "stale_task_sweep"

func addOperation(ctx context.Context, q querier, o Operation) error {
	return exec(ctx, q,
		`INSERT INTO operations (id, node_id, type, task_id, status, correlation_id, created_at, expires_at)
		VALUES (?,?,?,?,?,?,?,?)`, NewID("op-"), o.NodeID, o.Type, o.TaskID, o.Status, o.CorrelationID, ms(o.CreatedAt),
		ms(o.ExpiresAt))
}

// operationColumns: an operation that was decided has its own status, any other its task's.
const operationColumns = `SELECT o.id, o.node_id, o.type, o.task_id, CASE WHEN o.status != '' THEN o.status ELSE coalesce(t.status, '') END,
	o.correlation_id, o.created_at, o.expires_at FROM operations o LEFT JOIN tasks t ON t.id = o.task_id `

// latestOf is how many of a node's newest operations or sessions are searched for one that still counts; if none
// does, older ones are history.
const latestOf = 256

// LatestOperation returns a node's newest operation that has not expired, since an expired one is history. It
// returns ErrNotFound if none of its newest latestOf qualifies.
func (s *Store) LatestOperation(ctx context.Context, nodeID string, now time.Time) (Operation, error) {
	return one(ctx, s.db, operationFields, operationColumns+
		`WHERE o.rowid IN (SELECT rowid FROM operations WHERE node_id = ?1 ORDER BY created_at DESC, rowid DESC LIMIT ?5)
		AND o.type != ?4 AND (o.status != '' OR t.status != ?2) AND NOT (coalesce(t.status, '') IN ('queued', 'dispatched') AND o.expires_at <= ?3)
		ORDER BY o.created_at DESC, o.rowid DESC LIMIT 1`, nodeID, wire.TaskExpired, ms(now), OperationSweep, latestOf)
}

func operationFields(o *Operation) []any {
	return []any{&o.ID, &o.NodeID, &o.Type, &o.TaskID, &o.Status, &o.CorrelationID, moment{&o.CreatedAt},
		moment{&o.ExpiresAt}}
}

// Operations returns a node's newest n operations, newest first.
func (s *Store) Operations(ctx context.Context, nodeID string, n int) ([]Operation, error) {
	return all(ctx, s.db, operationFields, operationColumns+
		"WHERE o.node_id = ? ORDER BY o.created_at DESC, o.rowid DESC LIMIT ?", nodeID, n)
}
