package store

import (
	"context"
	"database/sql"
	"time"
)

// Recovery is a classified state as it is reported.
type Recovery struct {
	Reason        string
	State         string
	CorrelationID string
	Detail        map[string]any
	At            time.Time
}

// SetNodeRecovery stores a node's reason, with evidence if it changed, and returns whether it did.
func (s *Store) SetNodeRecovery(ctx context.Context, nodeID string, r Recovery) (bool, error) {
	const read = "SELECT recovery_reason, recovery_state FROM nodes WHERE id = ?"
	const write = "UPDATE nodes SET recovery_reason = ?, recovery_state = ?, recovery_since = ? WHERE id = ?"
	return s.setRecovery(ctx, read, write, nodeID, r, Evidence{Kind: NodeRecovery, NodeID: nodeID})
}

// SetAllocationRecovery stores what one tenant is shown, with separate evidence if it changed.
func (s *Store) SetAllocationRecovery(ctx context.Context, nodeID, allocationID string, r Recovery) (bool, error) {
	const read = "SELECT recovery_reason, recovery_state FROM allocations WHERE id = ?"
	const write = "UPDATE allocations SET recovery_reason = ?, recovery_state = ?, recovery_since = ? WHERE id = ?"
	return s.setRecovery(ctx, read, write, allocationID, r,
		Evidence{Kind: AllocationRecovery, NodeID: nodeID, AllocationID: allocationID})
}

// setRecovery reads first without a write lock: a sweep calls it for every node and allocation, and hardly any has
// changed.
func (s *Store) setRecovery(ctx context.Context, read, write, id string, r Recovery,
	e Evidence) (changed bool, err error) {
	var was string
	differs := func(q querier) (bool, error) {
		var state string
		err := q.QueryRowContext(ctx, read, id).Scan(&was, &state)
		return was != r.Reason || state != r.State, err
	}
	if other, err := differs(s.db); err != nil || !other {
		return false, err
	}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		if changed, err = differs(tx); err != nil || !changed {
			return err
		}
		if err := exec(ctx, tx, write, r.Reason, r.State, ms(r.At), id); err != nil {
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

// RecoveryTrail returns the newest n records of what a tenant was shown, newest first.
func (s *Store) RecoveryTrail(ctx context.Context, allocationID string, n int) ([]Evidence, error) {
	return all(ctx, s.db, evidenceFields, evidenceColumns+"WHERE allocation_id = ? AND kind = '"+AllocationRecovery+"'"+
		newestFirst, allocationID, n)
}

// maxCredentials bounds the credentials of one allocation: beyond it, those without a report for the longest time
// are deleted.
const maxCredentials = 16

// Credential is the state of one of an application's credentials: since when it holds, and how often it was
// reported.
type Credential struct {
	ID          string    `json:"id"`
	Healthy     bool      `json:"healthy"`
	Reason      string    `json:"reason,omitempty"` // why it does not work
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
	Count       int64     `json:"count"`
}

// Credential returns the credential that represents the state of all of the application's: the one that has failed
// the longest, otherwise the one reported last; nil if none was reported.
func (a Allocation) Credential() *Credential {
	var c *Credential
	for i := range a.Credentials {
		next := &a.Credentials[i]
		switch {
		case c == nil, c.Healthy && !next.Healthy:
			c = next
		case c.Healthy && next.LastSeenAt.After(c.LastSeenAt), !c.Healthy && !next.Healthy &&
			next.FirstSeenAt.Before(c.FirstSeenAt):
			c = next
		}
	}
	return c
}

// ReportCredential stores one report at c.LastSeenAt, and writes evidence if the credential began or ceased to
// work. A credential without a report for QuietAfter is no longer in use, and is deleted with the next report
// about another one.
func (s *Store) ReportCredential(ctx context.Context, allocationID, correlationID string,
	c Credential) (Allocation, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (Allocation, error) {
		a, err := one(ctx, tx, allocationFields, allocationColumns+"WHERE id = ?", allocationID)
		if err != nil {
			return a, err
		}
		changed := true
		c.FirstSeenAt, c.Count = c.LastSeenAt, 1
		list := []Credential{}
		for _, old := range a.Credentials { // the newest report first
			switch {
			case old.ID != c.ID:
				if c.LastSeenAt.Sub(old.LastSeenAt) < QuietAfter {
					list = append(list, old)
				}
			case old.Healthy == c.Healthy:
				changed, c.FirstSeenAt, c.Count = false, old.FirstSeenAt, old.Count+1
			}
		}
		list = append([]Credential{c}, list...)
		a.Credentials = list[:min(len(list), maxCredentials)]
		if err := exec(ctx, tx, "UPDATE allocations SET credential = ? WHERE id = ?", jsonText{a.Credentials},
			a.ID); err != nil || !changed {
			return a, err
		}
		return a, record(ctx, tx, Evidence{At: c.LastSeenAt, Kind: CredentialReported, CorrelationID: correlationID,
			NodeID: a.NodeID, AllocationID: a.ID,
			Detail: map[string]any{"credential_id": c.ID, "healthy": c.Healthy, "reason": c.Reason}})
	})
}
