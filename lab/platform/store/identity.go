package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Decisions about a node's identity.
const (
	Fence      = "fence"      // a single host if one is named, else the node
	Reactivate = "reactivate" // accept the node's credentials again
	Revoke     = "revoke"
	Retire     = "retire" // the node id is no longer in use; its host may become another node
)

// identities maps each decision to the node's identity after it.
var identities = map[string]string{Fence: wire.DenyFenced, Reactivate: "", Revoke: wire.DenyRevoked,
	Retire: wire.DenyRetired}

// Refusals of a decision.
var (
	ErrInstance = errors.New("no such host used the node's identity")
	ErrInUse    = errors.New("the node has allocations that are not released")
	ErrStanding = errors.New("the node's identity is accepted already")
)

// Decision is an operator's decision about a node's identity, with its reason.
type Decision struct {
	NodeID     string
	Action     string
	InstanceID string // for Fence and Reactivate: a single host rather than the node
	// for Reactivate: existing certificates and tokens become invalid, so that only a bundle issued afterwards is
	// accepted
	NewIdentity   bool
	Forced        bool // for a reenrollment: although the ingress does not trust the signing CA
	By            string
	Reason        string
	CorrelationID string
	Remote        string
	At            time.Time
}

func (d Decision) detail() map[string]any {
	detail := map[string]any{"action": d.Action, "by": d.By, "reason": d.Reason, "remote": d.Remote}
	if d.InstanceID != "" {
		detail["node_instance_id"] = d.InstanceID
	}
	if d.NewIdentity {
		detail["new_identity"] = true
	}
	return detail
}

// Decide executes a decision, with its operation, its evidence and its audit row, and returns the changed node.
func (s *Store) Decide(ctx context.Context, d Decision) (Node, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (Node, error) {
		if err := decide(ctx, tx, d); err != nil {
			return Node{}, err
		}
		if err := addOperation(ctx, tx,
			Operation{NodeID: d.NodeID, Type: d.Action, Status: wire.TaskCompleted, CorrelationID: d.CorrelationID,
				CreatedAt: d.At, ExpiresAt: d.At}); err != nil {
			return Node{}, err
		}
		return node(ctx, tx, d.NodeID)
	})
}

// decide is Decide without the operation, for decisions that are part of a larger one.
func decide(ctx context.Context, q querier, d Decision) error {
	n, err := node(ctx, q, d.NodeID)
	if err != nil {
		return err
	}
	switch {
	case d.Action == Fence && d.InstanceID != "":
		err = fence(ctx, q, d)
	case d.Action == Reactivate && d.InstanceID != "":
		err = setFenced(ctx, q, d, 0)
	case d.Action == Reactivate:
		err = reactivate(ctx, q, n, d)
	default:
		err = deny(ctx, q, d)
	}
	if err != nil {
		return err
	}
	return errors.Join(
		record(ctx, q, Evidence{At: d.At, Kind: NodeIdentity, CorrelationID: d.CorrelationID, NodeID: d.NodeID,
			Detail: d.detail()}),
		decided(ctx, q, Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: "node." + d.Action,
			Reason: d.Reason},
			At: d.At, NodeID: d.NodeID, CorrelationID: d.CorrelationID, Remote: d.Remote}))
}

// fence locks one host out. The node's identity does not change: whether another host may continue is a separate
// decision. The node is no longer recorded as running on the fenced host.
func fence(ctx context.Context, q querier, d Decision) error {
	return errors.Join(setFenced(ctx, q, d, ms(d.At)),
		exec(ctx, q, "UPDATE nodes SET instance_id = '', boot_id = '' WHERE id = ? AND instance_id = ?", d.NodeID,
			d.InstanceID))
}

// setFenced sets the fencing time of the decision's host, in Unix milliseconds or 0 for none.
func setFenced(ctx context.Context, q querier, d Decision, at int64) error {
	return hit(ctx, q, ErrInstance, "UPDATE instances SET fenced_at = ? WHERE node_id = ? AND instance_id = ?", at,
		d.NodeID, d.InstanceID)
}

// reactivate accepts the node's credentials again. Fenced hosts stay fenced.
func reactivate(ctx context.Context, q querier, n Node, d Decision) error {
	if n.Identity == "" && !d.NewIdentity {
		return ErrStanding
	}
	var err error
	if d.NewIdentity {
		err = errors.Join(
			exec(ctx, q, "UPDATE certs SET superseded_at = ? WHERE node_id = ? AND superseded_at = 0", ms(d.At), d.NodeID),
			endTokens(ctx, q, d.NodeID, "", d.At)) // a copy may hold one
	}
	return errors.Join(err, exec(ctx, q,
		"UPDATE nodes SET identity = '', identity_at = ?, last_denied_at = 0, last_denial = '' WHERE id = ?", ms(d.At),
		d.NodeID))
}

// deny locks the node out, and invalidates its unused tokens.
func deny(ctx context.Context, q querier, d Decision) error {
	if d.Action == Retire {
		used, err := one(ctx, q, value[bool],
			"SELECT count(*) > 0 FROM allocations WHERE node_id = ? AND (state NOT IN (?, ?) OR release_until != 0)", d.NodeID,
			StateReleased, StateRequested)
		switch {
		case err != nil:
			return err
		case used:
			return ErrInUse
		}
	}
	return errors.Join(
		exec(ctx, q, "UPDATE nodes SET identity = ?, identity_at = ? WHERE id = ?", identities[d.Action],
			ms(d.At), d.NodeID),
		endTokens(ctx, q, d.NodeID, "", d.At))
}

// doubt is the reason to lock a node out: two sources that are not the same host.
type doubt struct {
	nodeID, correlationID, seenBy string // seenBy: the part of the platform
	now, other                    Source
}

// markCloned locks out a node that two hosts use, until an operator has decided which one is genuine.
func markCloned(ctx context.Context, q querier, d doubt) error {
	if err := exec(ctx, q, "UPDATE nodes SET identity = ?, identity_at = ? WHERE id = ?", wire.DenyCloned,
		ms(d.now.At), d.nodeID); err != nil {
		return err
	}
	e := Evidence{At: d.now.At, Kind: NodeCloned, CorrelationID: d.correlationID, NodeID: d.nodeID, Detail: map[string]any{
		"sources": []map[string]any{d.now.detail(), d.other.detail()}, "seen_by": d.seenBy,
	}}
	return errors.Join(
		record(ctx, q, e),
		decided(ctx, q, Audit{AuditKey: AuditKey{ActorType: "platform", ActorID: d.seenBy, Action: "node.quarantine",
			Reason: wire.DenyCloned},
			At: d.now.At, NodeID: d.nodeID, CorrelationID: d.correlationID, Remote: d.now.Remote}))
}

func (v Source) detail() map[string]any {
	return map[string]any{"node_instance_id": v.InstanceID, "boot_id": v.BootID, "cert_serial": v.Serial,
		"generation": v.Generation, "remote": v.Remote, "received_at": v.At.UTC(), "node_time": v.NodeTime.UTC()}
}

// ForcedReason is the prefix of the audited reason of a bundle that was issued against the platform's own advice.
const ForcedReason = "forced, cert_untrusted_by_ingress: "

// Reenroll stores a new token for a node with the operation, evidence and audit of its issue. With reactivate, it
// also accepts the identity of a retired or fenced node again; a cloned or revoked node must be settled first.
func (s *Store) Reenroll(ctx context.Context, t Token, d Decision, reactivate bool) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		n, err := node(ctx, tx, t.NodeID)
		if err != nil {
			return err
		}
		switch back := reactivate && (n.Identity == wire.DenyRetired || n.Identity == wire.DenyFenced); {
		case n.Identity != "" && !back:
			return fmt.Errorf("%w: %s", ErrNodeDenied, n.Identity)
		case n.Identity != "":
			d.Action = Reactivate
			if err := decide(ctx, tx, d); err != nil {
				return err
			}
		}
		if err := errors.Join(
			addToken(ctx, tx, t),
			addOperation(ctx, tx,
				Operation{NodeID: t.NodeID, Type: "reenroll", Status: "issued", CorrelationID: d.CorrelationID,
					CreatedAt: d.At, ExpiresAt: t.ExpiresAt})); err != nil {
			return err
		}
		detail := map[string]any{"expires_at": t.ExpiresAt, "environment_profile": t.Profile, "by": d.By, "reason": d.Reason,
			"remote": d.Remote}
		if d.Forced {
			detail["forced"] = string(diag.ReasonCertUntrustedByIngress)
			d.Reason = ForcedReason + d.Reason
		}
		return errors.Join(
			record(ctx, tx, Evidence{At: d.At, Kind: NodeReenroll, CorrelationID: d.CorrelationID, NodeID: t.NodeID,
				Detail: detail}),
			decided(ctx, tx, Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: "node.reenroll",
				Reason: d.Reason},
				At: d.At, NodeID: t.NodeID, CorrelationID: d.CorrelationID, Remote: d.Remote}))
	})
}
