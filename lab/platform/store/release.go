package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// ErrState is returned when an allocation is not in a state that an action needs.
var ErrState = errors.New("allocation is in another state")

// Release starts the release of an active allocation, or retries a failed release: the clean-up is a desired
// state, and if the node does not reach it in time, the release has failed. With until, the release is temporary,
// see EndRelease; a zero until makes it permanent, even if it was temporary.
func (s *Store) Release(ctx context.Context, cleanup Task, d Decision, until time.Time) (Allocation, error) {
	if until.IsZero() {
		if a, was, err := s.releaseForGood(ctx, cleanup.AllocationID, d); was || err != nil {
			return a, err
		}
	}
	from := []string{StateActive, StateReleaseFailed}
	return s.move(ctx, cleanup.AllocationID, from, StateReleasing, d, func(q querier, a *Allocation) error {
		err := setReleaseUntil(ctx, q, a, until)
		if err != nil {
			return err
		}
		if cleanup.Payload, err = sparing(ctx, q, *a, cleanup.Payload); err != nil {
			return err
		}
		return enqueue(ctx, q, cleanup, false)
	})
}

// sparing marks a clean-up's payload if another active allocation on the node uses the same login: the clean-up must
// not end that login's processes.
func sparing(ctx context.Context, q querier, a Allocation, payload []byte) ([]byte, error) {
	others, err := one(ctx, q, value[int],
		"SELECT count(*) FROM allocations WHERE node_id = ? AND os_user = ? AND id != ? AND state = ?", a.NodeID, a.OSUser,
		a.ID, StateActive)
	if err != nil {
		return nil, err
	}
	var p wire.CleanupPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("read the clean-up of allocation %s: %w", a.ID, err)
	}
	p.KeepProcesses = others > 0
	return json.Marshal(p)
}

// CleanupPayload returns the current payload of a clean-up: since it was queued, another tenant may have come, or may
// have returned.
func (s *Store) CleanupPayload(ctx context.Context, t Task) ([]byte, error) {
	a, err := s.Allocation(ctx, t.AllocationID)
	if errors.Is(err, ErrNotFound) {
		return t.Payload, nil
	}
	if err != nil {
		return nil, err
	}
	return sparing(ctx, s.db, a, t.Payload)
}

// ForceRelease ends a failed release, by decision of an operator. cleaned means that the operator knows the node
// to be clean; otherwise the allocation is Uncleaned, and the node gets the clean-up task again. A second decision
// may set cleaned. In any other state it returns ErrState.
func (s *Store) ForceRelease(ctx context.Context, cleanup Task, cleaned bool, d Decision) (Allocation, error) {
	var after Allocation
	_, err := s.move(ctx, cleanup.AllocationID, []string{StateReleaseFailed, StateReleased}, StateReleased, d,
		func(q querier, a *Allocation) error {
			return errors.Join(
				setReleaseUntil(ctx, q, a, time.Time{}),
				s.askAgain(ctx, q, *a, cleanup, cleaned, d),
				addOperation(ctx, q,
					Operation{NodeID: a.NodeID, Type: "force_release", Status: wire.TaskCompleted, CorrelationID: d.CorrelationID,
						CreatedAt: d.At, ExpiresAt: d.At}),
				record(ctx, q, Evidence{At: d.At, Kind: AllocationReleased, CorrelationID: d.CorrelationID, NodeID: a.NodeID,
					AllocationID: a.ID,
					Detail:       map[string]any{"by": d.By, "reason": d.Reason, "remote": d.Remote, "cleaned": cleaned}}))
		})
	if err != nil {
		return after, err
	}
	return s.Allocation(ctx, cleanup.AllocationID)
}

// askAgain records whether the node is known to be clean, and withdraws clean-up tasks that it has not taken,
// since by then the slot may have another tenant with the same login. If the node is not known to be clean, it
// enqueues a new clean-up.
func (s *Store) askAgain(ctx context.Context, q querier, a Allocation, cleanup Task, cleaned bool, d Decision) error {
	if err := exec(ctx, q, "UPDATE allocations SET uncleaned = ? WHERE id = ?", !cleaned, a.ID); err != nil {
		return err
	}
	open, err := all(ctx, q, taskFields, taskColumns+"WHERE status = ? AND type = ? AND allocation_id = ?",
		wire.TaskQueued, wire.TaskCleanup, a.ID)
	if err != nil {
		return err
	}
	for i := range open {
		if err := expireOne(ctx, q, &open[i], "", d.At); err != nil {
			return err
		}
	}
	if cleaned {
		return nil
	}
	if cleanup.Payload, err = sparing(ctx, q, a, cleanup.Payload); err != nil {
		return err
	}
	return enqueue(ctx, q, cleanup, false)
}

// move is an operator's transition of an allocation from one of the states to another, with its audit row; more
// adds further changes.
func (s *Store) move(ctx context.Context, id string, from []string, to string, d Decision,
	more func(querier, *Allocation) error) (Allocation, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (Allocation, error) {
		a, err := one(ctx, tx, allocationFields, allocationColumns+"WHERE id = ?", id)
		if err != nil {
			return a, err
		}
		if !slices.Contains(from, a.State) || (a.State == StateReleased && !a.Uncleaned) {
			return a, ErrState
		}
		err = errors.Join(
			setState(ctx, tx, &a, to, d.CorrelationID, "", d.At),
			more(tx, &a),
			decided(ctx, tx, d.ofAllocation(a)))
		return a, err
	})
}

func setState(ctx context.Context, q querier, a *Allocation, to, correlationID, why string, at time.Time) error {
	was := a.State
	a.State, a.UpdatedAt = to, at
	if err := exec(ctx, q, "UPDATE allocations SET state = ?, updated_at = ? WHERE id = ?", to, ms(at),
		a.ID); err != nil {
		return err
	}
	detail := map[string]any{"from": was, "to": to}
	if why != "" {
		detail["why"] = why
	}
	return record(ctx, q, Evidence{At: at, Kind: AllocationState, CorrelationID: correlationID, NodeID: a.NodeID,
		AllocationID: a.ID, Detail: detail})
}

// cleaned applies the end of a clean-up: only if it completed in time is the allocation released.
func cleaned(ctx context.Context, q querier, t Task, now time.Time) error {
	a, err := one(ctx, q, allocationFields, allocationColumns+"WHERE id = ?", t.AllocationID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case a.State == StateReleased && a.Uncleaned && t.Result != nil && t.Result.Status == wire.TaskCompleted:
		return nowClean(ctx, q, a, t, now)
	case a.State != StateReleasing || !t.LateAt.IsZero():
		return nil
	}
	if t.Status == wire.TaskCompleted {
		// The clean-up observed the end of the workload.
		return errors.Join(
			exec(ctx, q,
				"UPDATE allocations SET app_status = 'stopped', app_observed_at = ? WHERE id = ? AND app_status != ''", ms(now),
				a.ID),
			setState(ctx, q, &a, StateReleased, t.CorrelationID, "", now))
	}
	return setState(ctx, q, &a, StateReleaseFailed, t.CorrelationID, "the clean-up "+t.Status, now)
}

// nowClean notes that the node has cleaned up after a forced release, however late.
func nowClean(ctx context.Context, q querier, a Allocation, t Task, now time.Time) error {
	return errors.Join(
		exec(ctx, q, "UPDATE allocations SET uncleaned = 0 WHERE id = ?", a.ID),
		setState(ctx, q, &a, StateReleased, t.CorrelationID, "the node has cleaned up", now))
}

// rotated expires the node's previous tokens after a completed rotation, or the new token after a failed one.
// After an expired task it is unknown which of them the node has, so all stay valid until they expire.
func rotated(ctx context.Context, q querier, t Task, now time.Time) error {
	const end = "UPDATE tokens SET expires_at = ?1 WHERE node_id = ?2 AND consumed_at = 0 AND expires_at > ?1 AND "
	query, kind := end+"task_id != ?3", TokenRotated
	switch t.Status {
	case wire.TaskCompleted:
	case wire.TaskFailed:
		query, kind = end+"task_id = ?3", TokenWithdrawn
	default:
		return nil
	}
	return errors.Join(
		exec(ctx, q, query, ms(now), t.NodeID, t.ID),
		record(ctx, q, t.evidence(kind, now)))
}

// SaveRotatedToken stores the token of a rotation task, with its evidence.
func (s *Store) SaveRotatedToken(ctx context.Context, token Token, t Task) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		token.TaskID = t.ID
		if err := addToken(ctx, tx, token); err != nil {
			return err
		}
		e := t.evidence(TokenIssued, token.IssuedAt)
		e.Detail["expires_at"], e.Detail["environment_profile"] = token.ExpiresAt, token.Profile
		return record(ctx, tx, e)
	})
}
