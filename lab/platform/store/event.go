package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	gpu "github.com/gpuaas/gpuaasctl/gpu/report"
)

// Watermark returns the highest sequence number of a node's instance up to which every event from 1 on is stored.
func (s *Store) Watermark(ctx context.Context, nodeID, instanceID string) (uint64, error) {
	return watermark(ctx, s.db, nodeID, instanceID)
}

func watermark(ctx context.Context, q querier, nodeID, instanceID string) (uint64, error) {
	mark, err := one(ctx, q, value[uint64], "SELECT seq FROM watermarks WHERE node_id = ? AND instance_id = ?", nodeID,
		instanceID)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return mark, err
}

// Refusals of events.
var (
	ErrSequence = fmt.Errorf("a sequence number is between 1 and %d, and the oldest event is in the request", wire.MaxSeq)
	// ErrJump: so many events cannot be lost, so that the number is wrong.
	ErrJump = fmt.Errorf("the sequence numbers of one request are at most %d above the watermark", wire.MaxJump)
)

// AddEvents stores a node's events, each once, and returns the watermark. The events are durable when it returns.
func (s *Store) AddEvents(ctx context.Context, nodeID string, r wire.EventsRequest, now time.Time) (uint64, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (uint64, error) {
		mark, err := watermark(ctx, tx, nodeID, r.NodeInstanceID)
		if err != nil {
			return mark, err
		}
		if mark, err = lost(ctx, tx, nodeID, mark, r, now); err != nil {
			return mark, err
		}
		for _, e := range r.Events {
			switch {
			case e.Seq == 0 || e.Seq > wire.MaxSeq:
				return mark, ErrSequence
			case e.Seq > mark && e.Seq-mark > wire.MaxJump:
				return mark, ErrJump
			}
			if e.Seq <= mark { // confirmed, and possibly deleted since
				continue
			}
			if err := addEvent(ctx, tx, nodeID, r.NodeInstanceID, e, now); err != nil {
				return mark, err
			}
		}
		if mark, err = advance(ctx, tx, nodeID, r.NodeInstanceID, mark); err != nil {
			return mark, err
		}
		return mark, exec(ctx, tx, `INSERT INTO watermarks (node_id, instance_id, seq, told_at) VALUES (?,?,?,?)
			ON CONFLICT (node_id, instance_id) DO UPDATE SET seq = excluded.seq, told_at = excluded.told_at`, nodeID,
			r.NodeInstanceID, int64(mark), ms(now))
	})
}

// addEvent stores one event and, the first time, its evidence.
func addEvent(ctx context.Context, q querier, nodeID, instanceID string, e wire.Event, now time.Time) error {
	res, err := q.ExecContext(ctx,
		`INSERT INTO events (node_id, instance_id, seq, at, kind, correlation_id, detail) VALUES (?,?,?,?,?,?,?)
		ON CONFLICT DO NOTHING`, nodeID, instanceID, int64(e.Seq), ms(e.At), e.Kind, e.CorrelationID, string(e.Detail))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if gpu.IsWireKind(e.Kind) {
		if err := keepGPU(ctx, q, nodeID, instanceID, e.Seq, e.Detail, now); err != nil {
			return err
		}
	}
	if e.CorrelationID == "" {
		return nil
	}
	detail := map[string]any{"kind": e.Kind, "seq": e.Seq, "at": e.At.UTC()}
	var value any // 1e400 is valid JSON that nothing reads
	if json.Unmarshal(e.Detail, &value) == nil {
		detail["detail"] = json.RawMessage(e.Detail)
	}
	return record(ctx, q, Evidence{At: now, Kind: NodeEvent, CorrelationID: e.CorrelationID, NodeID: nodeID,
		Detail: detail})
}

// advance moves the watermark past all consecutive stored events.
func advance(ctx context.Context, q querier, nodeID, instanceID string, mark uint64) (uint64, error) {
	next, err := all(ctx, q, value[uint64],
		"SELECT seq FROM events WHERE node_id = ? AND instance_id = ? AND seq > ? ORDER BY seq", nodeID, instanceID,
		int64(mark))
	if err != nil {
		return 0, err
	}
	for _, n := range next {
		if n != mark+1 {
			break
		}
		mark++
	}
	return mark, nil
}
