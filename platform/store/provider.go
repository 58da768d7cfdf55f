package store

import (
	"context"
	"database/sql"
)

// ProviderStatus is the action of an audit row about what a provider says of a node's machine.
const ProviderStatus = "provider_status"

// SetGuestAgent notes what the provider says of the guest agent of d's node at d.At, with its evidence and its audit
// row. It is ErrNotFound for an unknown node.
func (s *Store) SetGuestAgent(ctx context.Context, d Decision, status string) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		n, err := node(ctx, tx, d.NodeID)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE nodes SET guest_agent_status = ?, guest_agent_at = ? WHERE id = ?", status, ms(d.At), d.NodeID); err != nil {
			return err
		}
		detail := map[string]any{"guest_agent": status, "was": n.GuestAgentStatus, "reason": d.Reason, "by": d.By}
		if err := record(ctx, tx, Evidence{At: d.At, Kind: NodeProvider, CorrelationID: d.CorrelationID, NodeID: d.NodeID, Detail: detail}); err != nil {
			return err
		}
		return decided(ctx, tx, Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, Action: "node." + d.Action, Reason: d.Reason},
			At: d.At, NodeID: d.NodeID, CorrelationID: d.CorrelationID, Remote: d.Remote})
	})
}
