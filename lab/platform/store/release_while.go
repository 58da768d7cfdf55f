package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// EndReleaseAction is the action of an audit row about the end of a temporary release.
const EndReleaseAction = "end_release"

// ErrCleaning is returned while the node is cleaning up: the slot is not free until then.
var ErrCleaning = errors.New("the node is cleaning up")

func setReleaseUntil(ctx context.Context, q querier, a *Allocation, until time.Time) error {
	a.ReleaseUntil = until
	return exec(ctx, q, "UPDATE allocations SET release_until = ? WHERE id = ?", ms(until), a.ID)
}

// releaseForGood makes a temporary release permanent if its clean-up is in progress or done. was is false if id
// has no temporary release, or its clean-up failed.
func (s *Store) releaseForGood(ctx context.Context, id string, d Decision) (a Allocation, was bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		if a, err = one(ctx, tx, allocationFields, allocationColumns+"WHERE id = ?", id); err != nil {
			return err
		}
		if was = !a.ReleaseUntil.IsZero() && (a.State == StateReleasing || a.State == StateReleased); !was {
			return nil
		}
		return errors.Join(
			setReleaseUntil(ctx, tx, &a, time.Time{}),
			setState(ctx, tx, &a, a.State, d.CorrelationID, "the release is for good", d.At),
			decided(ctx, tx, d.ofAllocation(a)))
	})
	return a, was, err
}

// ofAllocation returns the audit row of a decision about an allocation.
func (d Decision) ofAllocation(a Allocation) Audit {
	return Audit{AuditKey: AuditKey{ActorType: "operator", ActorID: d.By, AppInstanceID: a.ID,
		Action: "allocation." + d.Action, Reason: d.Reason},
		At: d.At, NodeID: a.NodeID, CorrelationID: d.CorrelationID, Remote: d.Remote}
}

// EndRelease ends a temporary release: the allocation is active again for its tenant. A clean-up that the node has
// not taken is withdrawn; for one that it has taken, EndRelease returns ErrCleaning. Without a temporary release
// it changes nothing.
func (s *Store) EndRelease(ctx context.Context, id string, d Decision) (Allocation, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (Allocation, error) {
		a, err := one(ctx, tx, allocationFields, allocationColumns+"WHERE id = ?", id)
		if err != nil || a.ReleaseUntil.IsZero() {
			return a, err
		}
		const open = "WHERE type = ? AND allocation_id = ? AND status IN (?, ?)"
		tasks, err := all(ctx, tx, taskFields, taskColumns+open, wire.TaskCleanup, id, wire.TaskQueued, wire.TaskDispatched)
		if err != nil {
			return a, err
		}
		if err := setReleaseUntil(ctx, tx, &a, time.Time{}); err != nil {
			return a, err
		}
		// The status that the clean-up observed is outdated.
		const unseen = "UPDATE allocations SET app_status = '', app_observed_at = 0 WHERE id = ? AND app_status = 'stopped'"
		if err := errors.Join(
			exec(ctx, tx, unseen, id),
			setState(ctx, tx, &a, StateActive, d.CorrelationID, "the release was for a while", d.At)); err != nil {
			return a, err
		}
		for i := range tasks {
			if tasks[i].Status == wire.TaskDispatched {
				return a, ErrCleaning
			}
			if err := expireOne(ctx, tx, &tasks[i], "", d.At); err != nil {
				return a, err
			}
		}
		return a, decided(ctx, tx, d.ofAllocation(a))
	})
}

// ReleasesOver returns the allocations whose temporary release is over at now.
func (s *Store) ReleasesOver(ctx context.Context, now time.Time) ([]Allocation, error) {
	return all(ctx, s.db, allocationFields,
		allocationColumns+"WHERE release_until != 0 AND release_until <= ? ORDER BY id", ms(now))
}
