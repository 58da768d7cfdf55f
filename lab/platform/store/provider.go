package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// ProviderStatus is the action of an audit row about the provider's status of a node's machine.
const ProviderStatus = "provider_status"

// GuestAgent returns the provider's status of the guest agent at now, and its time: after a temporary status the
// previous one holds again.
func (n *Node) GuestAgent(now time.Time) (status string, at time.Time) {
	if n.GuestAgentUntil.IsZero() || now.Before(n.GuestAgentUntil) {
		return n.GuestAgentStatus, n.GuestAgentAt
	}
	return n.GuestAgentWas, n.GuestAgentWasAt
}

// SetGuestAgent stores the provider's status of the guest agent of d's node at d.At, with its evidence and its audit
// row. It holds until until, or, if that is zero, until it is replaced. It returns ErrNotFound for an unknown node.
func (s *Store) SetGuestAgent(ctx context.Context, d Decision, status string, until time.Time) error {
	return s.saidOfGuestAgent(ctx, d, func(n *Node) {
		if until.IsZero() {
			n.GuestAgentWas, n.GuestAgentWasAt = "", time.Time{}
			// otherwise the earlier previous status is kept
		} else if n.GuestAgentUntil.IsZero() || !d.At.Before(n.GuestAgentUntil) {
			n.GuestAgentWas, n.GuestAgentWasAt = n.GuestAgent(d.At)
		}
		n.GuestAgentStatus, n.GuestAgentAt, n.GuestAgentUntil = status, d.At, until
	})
}

// EndGuestAgent ends a temporary status and restores the previous one. Without a temporary status it changes nothing.
func (s *Store) EndGuestAgent(ctx context.Context, d Decision) error {
	return s.saidOfGuestAgent(ctx, d, func(n *Node) {
		if !n.GuestAgentUntil.IsZero() {
			n.GuestAgentStatus, n.GuestAgentAt = n.GuestAgentWas, n.GuestAgentWasAt
			n.GuestAgentWas, n.GuestAgentWasAt, n.GuestAgentUntil = "", time.Time{}, time.Time{}
		}
	})
}

// saidOfGuestAgent makes one change of the provider's status, with its evidence and its audit row.
func (s *Store) saidOfGuestAgent(ctx context.Context, d Decision, change func(*Node)) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		n, err := node(ctx, tx, d.NodeID)
		if err != nil {
			return err
		}
		was, _ := n.GuestAgent(d.At)
		change(&n)
		if err := exec(ctx, tx,
			`UPDATE nodes SET guest_agent_status = ?, guest_agent_at = ?, guest_agent_was = ?, guest_agent_was_at = ?,
			guest_agent_until = ? WHERE id = ?`, n.GuestAgentStatus, ms(n.GuestAgentAt), n.GuestAgentWas, ms(n.GuestAgentWasAt),
			ms(n.GuestAgentUntil), d.NodeID); err != nil {
			return err
		}
		detail := map[string]any{"guest_agent": n.GuestAgentStatus, "was": was, "reason": d.Reason, "by": d.By}
		return errors.Join(
			record(ctx, tx, Evidence{At: d.At, Kind: NodeProvider, CorrelationID: d.CorrelationID, NodeID: d.NodeID,
				Detail: detail}),
			decided(ctx, tx, Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: "node." + d.Action,
				Reason: d.Reason},
				At: d.At, NodeID: d.NodeID, CorrelationID: d.CorrelationID, Remote: d.Remote}))
	})
}
