package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	gpu "github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/status"
)

// Kinds of evidence about GPUs.
const (
	NodeGPUHealth = "node.gpu_health_changed" // by a policy
	NodeGPUStatus = "node.gpu_status_changed" // what followed from it
)

// GPUNode is what is kept about a node that reports GPUs.
type GPUNode struct {
	NodeID string
	Boot   string // in which its newest event was reported
	Seq    uint64 // of its newest event
	Status status.Node
	Judged GPUJudged // zero: never
}

// GPUJudged is the newest judgement about a node.
type GPUJudged struct {
	Seq       uint64           `json:"seq"` // of the newest event that was judged
	At        time.Time        `json:"at"`
	SampledAt time.Time        `json:"sampled_at,omitzero"` // of the newest sample of a GPU
	Policy    string           `json:"policy"`              // its digest; "" where it could not be asked
	Judgement policy.Judgement `json:"judgement"`
}

// GPUEvent is one event that is judged.
type GPUEvent struct {
	gpu.Event
	ReceivedAt time.Time
}

const gpuNodeColumns = "SELECT node_id, boot_id, seq, status, judged FROM gpu_nodes "

func readGPUNode(row scanner) (GPUNode, error) {
	var n GPUNode
	var seq int64
	err := row.Scan(&n.NodeID, &n.Boot, &seq, jsonText{&n.Status}, jsonText{&n.Judged})
	n.Seq = uint64(max(seq, 0))
	return n, err
}

// GPUNodes returns every node that has reported something about GPUs.
func (s *Store) GPUNodes(ctx context.Context) ([]GPUNode, error) {
	return all(ctx, s.db, readGPUNode, gpuNodeColumns+"WHERE seq > 0 ORDER BY node_id")
}

// GPUNode returns one, or ErrNotFound.
func (s *Store) GPUNode(ctx context.Context, nodeID string) (GPUNode, error) {
	return gpuNode(ctx, s.db, nodeID)
}

func gpuNode(ctx context.Context, q querier, nodeID string) (GPUNode, error) {
	return one(readGPUNode(q.QueryRowContext(ctx, gpuNodeColumns+"WHERE node_id = ?", nodeID)))
}

// GPUDropped returns what in its newest boot a node did not report, or what was lost or could not be read, by reason.
func (s *Store) GPUDropped(ctx context.Context, nodeID string) ([]gpu.Dropped, error) {
	return all(ctx, s.db, func(row scanner) (gpu.Dropped, error) {
		var e gpu.Event
		if err := row.Scan(jsonText{&e}); err != nil || e.Dropped == nil {
			return gpu.Dropped{}, err
		}
		return *e.Dropped, nil
	}, "SELECT detail FROM gpu_events WHERE node_id = ? AND slot >= 'dropped ' AND slot < 'dropped!' ORDER BY slot",
		nodeID)
}

// GPUEvents returns what a node is judged by, the oldest first.
func (s *Store) GPUEvents(ctx context.Context, nodeID string) ([]GPUEvent, error) {
	return all(ctx, s.db, func(row scanner) (GPUEvent, error) {
		var e GPUEvent
		err := row.Scan(moment{&e.ReceivedAt}, jsonText{&e.Event})
		return e, err
	}, "SELECT received_at, detail FROM gpu_events WHERE node_id = ? ORDER BY seq", nodeID)
}

// JudgeGPUs keeps a judgement and what follows from it for the node's status, with the evidence and, where the status
// changes, an audit row: all of it or nothing.
func (s *Store) JudgeGPUs(ctx context.Context, nodeID string, j GPUJudged) (change status.Change, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		was, err := gpuNode(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		var next status.Node
		next, change = was.Status.Report(j.Judgement.Health, j.Judgement.Mode)
		if _, err := tx.ExecContext(ctx, "UPDATE gpu_nodes SET status = ?, judged = ? WHERE node_id = ?", toJSON(next),
			toJSON(j), nodeID); err != nil {
			return err
		}
		detail := map[string]any{"from": change.From, "to": change.To, "health": change.Health, "why": change.Why,
			"policy": j.Judgement.Policy, "policy_sha256": j.Judgement.Digest, "mode": j.Judgement.Mode,
			"decided_by": j.Judgement.Decided}
		if was.Judged.Judgement.Health != change.Health || was.Judged.Judgement.Mode != j.Judgement.Mode {
			err := record(ctx, tx, Evidence{At: j.At, Kind: NodeGPUHealth, NodeID: nodeID, Detail: detail})
			if err != nil {
				return err
			}
		}
		if change.From == change.To {
			return nil
		}
		return changeStatus(ctx, tx, nodeID, change, Evidence{At: j.At, Kind: NodeGPUStatus, NodeID: nodeID, Detail: detail},
			Audit{AuditKey: AuditKey{ActorType: "platform", ActorID: "gpu-policy", Action: NodeGPUStatus,
				Reason: fmt.Sprintf("%s to %s by policy %s: %s", change.From, change.To, j.Judgement.Policy, change.Why)}})
	})
	return change, err
}

// AskStatus carries out what an operator asks for the status of a node, with its evidence and an audit row, which a
// refusal gives, too. It returns the status before.
func (s *Store) AskStatus(ctx context.Context, d Decision,
	ask func(status.Node) (status.Node, status.Change)) (was status.Node, c status.Change, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := node(ctx, tx, d.NodeID); err != nil {
			return err
		}
		n, err := gpuNode(ctx, tx, d.NodeID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		var next status.Node
		was = n.Status
		next, c = ask(was)
		_, err = tx.ExecContext(ctx,
			`INSERT INTO gpu_nodes (node_id, instance_id, boot_id, seq, status) VALUES (?1,'','',0,?2)
			ON CONFLICT (node_id) DO UPDATE SET status = ?2`, d.NodeID, toJSON(next))
		if err != nil {
			return err
		}
		detail := d.detail()
		detail["from"], detail["to"], detail["why"], detail["refused"] = c.From, c.To, c.Why, c.Refused
		return changeStatus(ctx, tx, d.NodeID, c, Evidence{At: d.At, Kind: NodeGPUStatus, NodeID: d.NodeID,
			CorrelationID: d.CorrelationID, Detail: detail}, Audit{
			AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: d.Action, Reason: d.Reason}, Remote: d.Remote})
	})
	return was, c, err
}

// changeStatus makes what was decided on a node's status known: in the read model, as evidence and in the audit.
func changeStatus(ctx context.Context, q querier, nodeID string, c status.Change, e Evidence, a Audit) error {
	if c.From != c.To {
		if _, err := q.ExecContext(ctx, "UPDATE nodes SET status = ? WHERE id = ?", string(c.To), nodeID); err != nil {
			return err
		}
	}
	if err := record(ctx, q, e); err != nil {
		return err
	}
	a.At, a.NodeID, a.CorrelationID = e.At, nodeID, e.CorrelationID
	return decided(ctx, q, a)
}
