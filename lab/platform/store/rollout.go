package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Kinds of evidence about self-updates of a node's agent. All evidence of one rollout has its correlation id.
const (
	RolloutCreated = "rollout.created"
	// the node reported a rollout that this platform did not know, since it has lost its state
	RolloutAdopted     = "rollout.adopted"
	RolloutAdvanced    = "rollout.advanced"
	RolloutSynthesised = "rollout.activation_synthesised" // the target runs, but no event had reported its start
	RolloutRedispatch  = "rollout.redispatched"           // the node does not know of it: its task is handed out again
	NodeBooted         = "node.booted"
	NodeEventsLost     = "node.events_lost" // the node no longer has them
	// the node's sequence numbers are impossible: nothing of the request was stored
	NodeEventsRefused = "node.events_refused"
)

// Rollout is a self-update of one node.
type Rollout struct {
	wire.Rollout
	NodeID     string
	InstanceID string // of the host that last reported it
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

const rolloutColumns = "SELECT node_id, instance_id, body, created_at, updated_at FROM rollouts "

func rolloutFields(r *Rollout) []any {
	return []any{&r.NodeID, &r.InstanceID, jsonText{&r.Rollout}, moment{&r.CreatedAt}, moment{&r.UpdatedAt}}
}

// Rollout returns a rollout, or ErrNotFound.
func (s *Store) Rollout(ctx context.Context, id string) (Rollout, error) {
	return one(ctx, s.db, rolloutFields, rolloutColumns+"WHERE id = ?", id)
}

// NewestRollout returns a node's newest rollout, or ErrNotFound.
func (s *Store) NewestRollout(ctx context.Context, nodeID string) (Rollout, error) {
	return newestRollout(ctx, s.db, nodeID)
}

func newestRollout(ctx context.Context, q querier, nodeID string) (Rollout, error) {
	return one(ctx, q, rolloutFields,
		rolloutColumns+"WHERE node_id = ? ORDER BY created_at DESC, rowid DESC LIMIT 1", nodeID)
}

// Refusals of a rollout.
var (
	ErrRolloutActive = errors.New("the node has a rollout that is not over")
	ErrOtherNode     = errors.New("the rollout is another node's")
)

// OrderRollout creates a task and its rollout, in one transaction. With ErrRolloutActive it returns the rollout
// that is still active.
func (s *Store) OrderRollout(ctx context.Context, t Task, r wire.Rollout, e Evidence) (Rollout, error) {
	begun := Rollout{Rollout: r, NodeID: t.NodeID, CreatedAt: e.At, UpdatedAt: e.At}
	return inTx(ctx, s, func(tx *sql.Tx) (Rollout, error) {
		newest, err := newestRollout(ctx, tx, t.NodeID)
		switch {
		case err == nil && !wire.RolloutFinal(newest.State):
			return newest, ErrRolloutActive
		case err != nil && !errors.Is(err, ErrNotFound):
			return begun, err
		}
		return begun, errors.Join(
			enqueue(ctx, tx, t, false),
			putRollout(ctx, tx, begun),
			record(ctx, tx, e))
	})
}

// ChangeRollout changes a node's rollout and writes the evidence of that, in one transaction. known is false for
// an unknown rollout; change returns its new state, and no evidence means that nothing changed. A final state
// decides the rollout's operation. ErrOtherNode: the id belongs to another node's rollout, which is not changed.
func (s *Store) ChangeRollout(ctx context.Context, nodeID, id string, now time.Time,
	change func(old Rollout, known bool) (Rollout, []Evidence)) (Rollout, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (r Rollout, err error) {
		old, err := one(ctx, tx, rolloutFields, rolloutColumns+"WHERE id = ?", id)
		known := err == nil
		switch {
		case known && old.NodeID != nodeID:
			return r, ErrOtherNode
		case err != nil && !errors.Is(err, ErrNotFound):
			return r, err
		}
		r, said := change(old, known)
		if len(said) == 0 {
			return r, nil
		}
		r.ID, r.NodeID, r.UpdatedAt = id, nodeID, now
		if r.CreatedAt.IsZero() {
			r.CreatedAt = now
		}
		err = putRollout(ctx, tx, r)
		if err == nil && wire.RolloutFinal(r.State) {
			_, err = tx.ExecContext(ctx, "UPDATE operations SET status = ? WHERE task_id = ? AND node_id = ?",
				operationEnd(r.State), id, nodeID)
		}
		for _, e := range said {
			if err == nil {
				err = record(ctx, tx, e)
			}
		}
		return r, err
	})
}

func putRollout(ctx context.Context, q querier, r Rollout) error {
	return exec(ctx, q,
		`INSERT INTO rollouts (id, node_id, instance_id, state, body, created_at, updated_at) VALUES (?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET instance_id = excluded.instance_id, state = excluded.state, body = excluded.body, updated_at = excluded.updated_at`,
		r.ID, r.NodeID, r.InstanceID, r.State, jsonText{r.Rollout}, ms(r.CreatedAt), ms(r.UpdatedAt))
}

func operationEnd(state string) string {
	if state == wire.RolloutConverged {
		return wire.TaskCompleted
	}
	return wire.TaskFailed
}

// Boot stores a node's newest boot report, with evidence if the running build or the hold differs from the
// previous report.
func (s *Store) Boot(ctx context.Context, nodeID, instanceID string, b wire.BootReport, e Evidence) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		old, err := boot(ctx, tx, nodeID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := exec(ctx, tx, `INSERT INTO boots (node_id, instance_id, report, at) VALUES (?,?,?,?)
			ON CONFLICT (node_id) DO UPDATE SET instance_id = excluded.instance_id, report = excluded.report, at = excluded.at`,
			nodeID, instanceID, jsonText{b}, ms(e.At)); err != nil {
			return err
		}
		if err == nil && old.Running == b.Running && old.Hold == b.Hold {
			return nil
		}
		return record(ctx, tx, e)
	})
}

// BootReport returns a node's newest boot report, or ErrNotFound.
func (s *Store) BootReport(ctx context.Context, nodeID string) (wire.BootReport, error) {
	return boot(ctx, s.db, nodeID)
}

func boot(ctx context.Context, q querier, nodeID string) (wire.BootReport, error) {
	return one(ctx, q, func(b *wire.BootReport) []any { return []any{jsonText{b}} },
		"SELECT report FROM boots WHERE node_id = ?", nodeID)
}

// OpenByCorrelation counts a node's open tasks of a type under a correlation id.
func (s *Store) OpenByCorrelation(ctx context.Context, nodeID, taskType, correlationID string) (int, error) {
	return one(ctx, s.db, value[int],
		`SELECT count(*) FROM tasks WHERE status IN ('queued', 'dispatched') AND node_id = ? AND type = ?
		AND correlation_id = ?`, nodeID, taskType, correlationID)
}

// lost moves a watermark past events that the node reports as lost. The oldest one that it still has is in the request.
func lost(ctx context.Context, q querier, nodeID string, mark uint64, r wire.EventsRequest,
	now time.Time) (uint64, error) {
	switch {
	case r.Oldest <= mark+1:
		return mark, nil
	case len(r.Events) == 0 || r.Oldest > r.Events[0].Seq:
		return mark, ErrSequence
	case r.Oldest-mark > wire.MaxJump:
		return mark, ErrJump
	}
	if err := lostGPU(ctx, q, nodeID, mark, r, now); err != nil {
		return mark, err
	}
	return r.Oldest - 1, record(ctx, q, Evidence{At: now, Kind: NodeEventsLost, NodeID: nodeID,
		Detail: map[string]any{"instance_id": r.NodeInstanceID, "from": mark + 1, "to": r.Oldest - 1}})
}
