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

// GPUNode is the stored state of a node that reports GPUs.
type GPUNode struct {
	NodeID string
	Boot   string // boot of its newest event
	Seq    uint64 // of its newest event
	Status status.Node
	Judged GPUJudged // zero: never
	Due    Notice    // the newest change that the coordinator has not accepted; zero: none
}

// Notice is a change of a node's status for the coordinator, which places work.
type Notice struct {
	At            time.Time     `json:"at"`
	Asked         string        `json:"asked"` // as in status.Change: "report" means a policy's own change
	From          status.Status `json:"from"`
	To            status.Status `json:"to"`
	By            string        `json:"by"`
	Reason        string        `json:"reason"`
	CorrelationID string        `json:"correlation_id,omitempty"`
}

// GPUJudged is the newest judgement about a node.
type GPUJudged struct {
	Seq       uint64           `json:"seq"` // of the newest event that was judged
	At        time.Time        `json:"at"`
	SampledAt time.Time        `json:"sampled_at,omitzero"` // of the newest sample of a GPU
	Policy    string           `json:"policy"`              // the policy's digest; "" if it could not be applied
	Judgement policy.Judgement `json:"judgement"`
}

// GPUEvent is one event to be judged.
type GPUEvent struct {
	gpu.Event
	ReceivedAt time.Time
}

const gpuNodeColumns = "SELECT node_id, boot_id, seq, status, judged, due FROM gpu_nodes "

func gpuNodeFields(n *GPUNode) []any {
	return []any{&n.NodeID, &n.Boot, &n.Seq, jsonText{&n.Status}, jsonText{&n.Judged}, jsonText{&n.Due}}
}

// GPUNodes returns every node that has reported something about GPUs.
func (s *Store) GPUNodes(ctx context.Context) ([]GPUNode, error) {
	return all(ctx, s.db, gpuNodeFields, gpuNodeColumns+"WHERE seq > 0 ORDER BY node_id")
}

// GPUNode returns a node's state, or ErrNotFound.
func (s *Store) GPUNode(ctx context.Context, nodeID string) (GPUNode, error) {
	return gpuNode(ctx, s.db, nodeID)
}

func gpuNode(ctx context.Context, q querier, nodeID string) (GPUNode, error) {
	return one(ctx, q, gpuNodeFields, gpuNodeColumns+"WHERE node_id = ?", nodeID)
}

// GPUDropped returns counts of what a node, during its newest boot, did not report, lost or could not read, by
// reason.
func (s *Store) GPUDropped(ctx context.Context, nodeID string) ([]gpu.Dropped, error) {
	return all(ctx, s.db, func(d *gpu.Dropped) []any { return []any{jsonText{&gpu.Event{Dropped: d}}} },
		"SELECT detail FROM gpu_events WHERE node_id = ? AND slot >= 'dropped ' AND slot < 'dropped!' ORDER BY slot", nodeID)
}

// GPUEvents returns the events by which a node is judged, oldest first.
func (s *Store) GPUEvents(ctx context.Context, nodeID string) ([]GPUEvent, error) {
	return all(ctx, s.db, func(e *GPUEvent) []any { return []any{moment{&e.ReceivedAt}, jsonText{&e.Event}} },
		"SELECT received_at, detail FROM gpu_events WHERE node_id = ? ORDER BY seq", nodeID)
}

// actorPolicy is the actor of status changes by a judgement.
const actorPolicy = "gpu-policy"

// JudgeGPUs stores a judgement and its consequences for the node's status with the evidence and, if the status
// changes, an audit row and a notice for the coordinator, in one transaction.
func (s *Store) JudgeGPUs(ctx context.Context, nodeID string, j GPUJudged) (change status.Change, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		was, err := gpuNode(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		var next status.Node
		next, change = was.Status.Report(j.Judgement.Health, j.Judgement.Mode)
		if err := exec(ctx, tx, "UPDATE gpu_nodes SET status = ?, judged = ? WHERE node_id = ?", jsonText{next},
			jsonText{j}, nodeID); err != nil {
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
		reason := fmt.Sprintf("%s to %s by policy %s: %s", change.From, change.To, j.Judgement.Policy, change.Why)
		err = setDue(ctx, tx, nodeID, Notice{At: j.At, Asked: change.Asked, From: change.From, To: change.To,
			By: actorPolicy, Reason: reason})
		if err != nil {
			return err
		}
		return changeStatus(ctx, tx, nodeID, change, Evidence{At: j.At, Kind: NodeGPUStatus, NodeID: nodeID, Detail: detail},
			Audit{AuditKey: AuditKey{ActorType: "platform", ActorID: actorPolicy, Action: NodeGPUStatus, Reason: reason}})
	})
	return change, err
}

// AskStatus applies an operator's request to the status of a node, with evidence, a notice for the coordinator and
// an audit row; a refusal has an audit row as well. It returns the previous state, and the change.
func (s *Store) AskStatus(ctx context.Context, d Decision,
	ask func(status.Node) (status.Node, status.Change)) (was GPUNode, c status.Change, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		was, c, err = askStatus(ctx, tx, d, ask)
		if err != nil || c.Refused {
			return err
		}
		return setDue(ctx, tx, d.NodeID, NoticeOf(d, c))
	})
	return was, c, err
}

// RevertStatus reverts an AskStatus that the coordinator did not accept: ask makes the node's status. The
// previous notice is due again or, if there was none, a notice of the reversal, unless a newer one is due.
func (s *Store) RevertStatus(ctx context.Context, d Decision, failed Notice, was GPUNode,
	ask func(status.Node) (status.Node, status.Change)) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		_, c, err := askStatus(ctx, tx, d, ask)
		if err != nil {
			return err
		}
		due := was.Due
		if due == (Notice{}) {
			due = NoticeOf(d, c)
		}
		return replaceDue(ctx, tx, d.NodeID, failed, due)
	})
}

func askStatus(ctx context.Context, tx querier, d Decision,
	ask func(status.Node) (status.Node, status.Change)) (was GPUNode, c status.Change, err error) {
	if _, err := node(ctx, tx, d.NodeID); err != nil {
		return was, c, err
	}
	was, err = gpuNode(ctx, tx, d.NodeID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return was, c, err
	}
	next, c := ask(was.Status)
	err = exec(ctx, tx,
		`INSERT INTO gpu_nodes (node_id, instance_id, boot_id, seq, status) VALUES (?1,'','',0,?2)
		ON CONFLICT (node_id) DO UPDATE SET status = ?2`, d.NodeID, jsonText{next})
	detail := d.detail()
	detail["from"], detail["to"], detail["why"], detail["refused"] = c.From, c.To, c.Why, c.Refused
	return was, c, errors.Join(err, changeStatus(ctx, tx, d.NodeID, c,
		Evidence{At: d.At, Kind: NodeGPUStatus, NodeID: d.NodeID, CorrelationID: d.CorrelationID, Detail: detail},
		Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: d.Action, Reason: d.Reason},
			Remote: d.Remote}))
}

// NoticeOf returns the notice of an operator's decision.
func NoticeOf(d Decision, c status.Change) Notice {
	return Notice{At: d.At, Asked: c.Asked, From: c.From, To: c.To, By: d.By, Reason: d.Reason,
		CorrelationID: d.CorrelationID}
}

// NodesWithNotice returns the nodes with a due notice for the coordinator.
func (s *Store) NodesWithNotice(ctx context.Context) ([]GPUNode, error) {
	return all(ctx, s.db, gpuNodeFields, gpuNodeColumns+"WHERE due <> '' ORDER BY node_id")
}

// NoticeAccepted notes that the coordinator accepted a notice. A newer notice stays due.
func (s *Store) NoticeAccepted(ctx context.Context, nodeID string, taken Notice) error {
	return replaceDue(ctx, s.db, nodeID, taken, Notice{})
}

func setDue(ctx context.Context, q querier, nodeID string, n Notice) error {
	return exec(ctx, q, "UPDATE gpu_nodes SET due = ? WHERE node_id = ?", dueText(n), nodeID)
}

func replaceDue(ctx context.Context, q querier, nodeID string, from, to Notice) error {
	return exec(ctx, q, "UPDATE gpu_nodes SET due = ? WHERE node_id = ? AND due = ?", dueText(to), nodeID,
		dueText(from))
}

func dueText(n Notice) string {
	if n == (Notice{}) {
		return ""
	}
	n.At = n.At.UTC().Round(0) // as it is read again
	return toJSON(n)
}

// GPUPolicy is a policy that was accepted.
type GPUPolicy struct {
	Path, Digest string
	Text         []byte
}

// SaveGPUPolicy stores the last accepted policy, for a platform that starts with an invalid file.
func (s *Store) SaveGPUPolicy(ctx context.Context, p GPUPolicy) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			exec(ctx, tx, "DELETE FROM gpu_policy"),
			exec(ctx, tx, "INSERT INTO gpu_policy (path, digest, text) VALUES (?,?,?)", p.Path, p.Digest, p.Text))
	})
}

// GPUPolicy returns the last accepted policy, or ErrNotFound.
func (s *Store) GPUPolicy(ctx context.Context) (GPUPolicy, error) {
	return one(ctx, s.db, func(p *GPUPolicy) []any { return []any{&p.Path, &p.Digest, &p.Text} },
		"SELECT path, digest, text FROM gpu_policy")
}

// changeStatus records a decision about a node's status in the read model, as evidence and in the audit.
func changeStatus(ctx context.Context, q querier, nodeID string, c status.Change, e Evidence, a Audit) error {
	var err error
	if c.From != c.To {
		err = exec(ctx, q, "UPDATE nodes SET status = ? WHERE id = ?", string(c.To), nodeID)
	}
	a.At, a.NodeID, a.CorrelationID = e.At, nodeID, e.CorrelationID
	return errors.Join(err, record(ctx, q, e), decided(ctx, q, a))
}
