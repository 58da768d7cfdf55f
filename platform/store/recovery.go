package store

import (
	"context"
	"database/sql"
	"time"
)

// Recovery is a classified state as it is made known.
type Recovery struct {
	Reason        string
	State         string
	CorrelationID string
	Detail        map[string]any
	At            time.Time
}

// SetNodeRecovery keeps a node's reason, with its evidence when it changed; the answer says whether it did.
func (s *Store) SetNodeRecovery(ctx context.Context, nodeID string, r Recovery) (bool, error) {
	return s.setRecovery(ctx, "nodes", nodeID, r, Evidence{Kind: NodeRecovery, NodeID: nodeID})
}

// SetAllocationRecovery keeps what one tenant is told, with evidence of its own when it changed.
func (s *Store) SetAllocationRecovery(ctx context.Context, nodeID, allocationID string, r Recovery) (bool, error) {
	return s.setRecovery(ctx, "allocations", allocationID, r, Evidence{Kind: AllocationRecovery, NodeID: nodeID, AllocationID: allocationID})
}

func (s *Store) setRecovery(ctx context.Context, table, id string, r Recovery, e Evidence) (changed bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		var was, wasState string
		if err := tx.QueryRowContext(ctx, "SELECT recovery_reason, recovery_state FROM "+table+" WHERE id = ?", id).Scan(&was, &wasState); err != nil {
			return err
		}
		if was == r.Reason && wasState == r.State {
			return nil
		}
		changed = true
		if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET recovery_reason = ?, recovery_state = ?, recovery_since = ? WHERE id = ?",
			r.Reason, r.State, ms(r.At), id); err != nil {
			return err
		}
		e.At, e.CorrelationID = r.At, r.CorrelationID
		e.Detail = map[string]any{"reason": r.Reason, "state": r.State, "was": was}
		for k, v := range r.Detail {
			e.Detail[k] = v
		}
		return record(ctx, tx, e)
	})
	return changed, err
}

// RecoveryTrail returns the newest n records of what a tenant was told, newest first.
func (s *Store) RecoveryTrail(ctx context.Context, allocationID string, n int) ([]Evidence, error) {
	return all(ctx, s.db, readEvidence, evidenceColumns+"WHERE allocation_id = ? AND kind = ? ORDER BY at DESC, id DESC LIMIT ?", allocationID, AllocationRecovery, n)
}

// Credential is how an application's credential fares: since when it is as it is, and how often that was reported.
type Credential struct {
	ID          string    `json:"id"`
	Healthy     bool      `json:"healthy"`
	Reason      string    `json:"reason,omitempty"` // why it does not work
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
	Count       int64     `json:"count"`
}

// ReportCredential takes one report in at c.LastSeenAt; evidence is written when the credential began or ceased to work.
func (s *Store) ReportCredential(ctx context.Context, allocationID, correlationID string, c Credential) (Allocation, error) {
	var a Allocation
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if a, err = one(readAllocation(tx.QueryRowContext(ctx, allocationColumns+"WHERE id = ?", allocationID))); err != nil {
			return err
		}
		changed := a.Credential == nil || a.Credential.Healthy != c.Healthy || a.Credential.ID != c.ID
		c.FirstSeenAt, c.Count = c.LastSeenAt, 1
		if !changed {
			c.FirstSeenAt, c.Count = a.Credential.FirstSeenAt, a.Credential.Count+1
		}
		a.Credential = &c
		if _, err := tx.ExecContext(ctx, "UPDATE allocations SET credential = ? WHERE id = ?", toJSON(c), a.ID); err != nil || !changed {
			return err
		}
		return record(ctx, tx, Evidence{At: c.LastSeenAt, Kind: CredentialReported, CorrelationID: correlationID, NodeID: a.NodeID, AllocationID: a.ID,
			Detail: map[string]any{"credential_id": c.ID, "healthy": c.Healthy, "reason": c.Reason}})
	})
	return a, err
}
