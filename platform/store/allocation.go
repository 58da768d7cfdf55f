package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// States of an allocation.
const (
	StateRequested     = "requested"
	StateActive        = "active"
	StateReleasing     = "releasing"
	StateReleased      = "released"
	StateReleaseFailed = "release_failed"
)

// AllocationStates is the closed list.
var AllocationStates = [...]string{StateRequested, StateActive, StateReleasing, StateReleased, StateReleaseFailed}

// Allocation is a tenant's share of a node.
type Allocation struct {
	ID         string
	NodeID     string
	State      string
	OSUser     string
	WorkflowID string
	App        App
	UpdatedAt  time.Time
}

// App is the workload of an allocation and its last observation. A missed probe keeps Status: it is a missing
// observation, not a dead workload.
type App struct {
	Kind          string
	Unit          string
	Port          int
	ProductURL    string
	Status        string // "" never observed
	ObservedAt    time.Time
	ProbeFailedAt time.Time
	ProbeFailures int // in a row
}

const allocationColumns = `SELECT id, node_id, state, os_user, workflow_id, app_kind, app_unit, app_port, app_product_url, app_status,
	app_observed_at, app_probe_failed_at, app_probe_failures, updated_at FROM allocations `

func readAllocation(row scanner) (Allocation, error) {
	var a Allocation
	err := row.Scan(&a.ID, &a.NodeID, &a.State, &a.OSUser, &a.WorkflowID, &a.App.Kind, &a.App.Unit, &a.App.Port, &a.App.ProductURL, &a.App.Status,
		moment{&a.App.ObservedAt}, moment{&a.App.ProbeFailedAt}, &a.App.ProbeFailures, moment{&a.UpdatedAt})
	return a, err
}

// Allocation returns an allocation, or ErrNotFound.
func (s *Store) Allocation(ctx context.Context, id string) (Allocation, error) {
	return one(readAllocation(s.db.QueryRowContext(ctx, allocationColumns+"WHERE id = ?", id)))
}

// ActiveApps returns the active allocations that have a unit to look at.
func (s *Store) ActiveApps(ctx context.Context) ([]Allocation, error) {
	return all(ctx, s.db, readAllocation, allocationColumns+"WHERE state = ? AND app_unit != '' ORDER BY id", StateActive)
}

// AllocationStatesOn returns the states of a node's allocations.
func (s *Store) AllocationStatesOn(ctx context.Context, nodeID string) ([]string, error) {
	return all(ctx, s.db, func(row scanner) (state string, err error) { return state, row.Scan(&state) },
		"SELECT state FROM allocations WHERE node_id = ? ORDER BY id", nodeID)
}

// SeedAllocation creates a when there is none of its id.
func (s *Store) SeedAllocation(ctx context.Context, a Allocation) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO allocations (id, node_id, state, os_user, workflow_id, app_kind, app_unit, app_port, app_product_url, updated_at)
		VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`, a.ID, a.NodeID, a.State, a.OSUser, a.WorkflowID, a.App.Kind, a.App.Unit, a.App.Port,
		a.App.ProductURL, ms(a.UpdatedAt))
	return err
}

// ErrState is returned when an allocation is not in the state that an action needs.
var ErrState = errors.New("allocation is in another state")

// ForceRelease moves an allocation whose release failed to released, with the audit of it. Any other state gives
// ErrState.
func (s *Store) ForceRelease(ctx context.Context, id string, e Evidence) (Allocation, error) {
	var a Allocation
	err := s.tx(ctx, func(tx *sql.Tx) error {
		var err error
		if a, err = one(readAllocation(tx.QueryRowContext(ctx, allocationColumns+"WHERE id = ?", id))); err != nil {
			return err
		}
		if a.State != StateReleaseFailed {
			return ErrState
		}
		a.State, a.UpdatedAt = StateReleased, e.At
		if _, err := tx.ExecContext(ctx, "UPDATE allocations SET state = ?, updated_at = ? WHERE id = ?", a.State, ms(e.At), id); err != nil {
			return err
		}
		e.NodeID, e.AllocationID = a.NodeID, a.ID
		if err := addOperation(ctx, tx, Operation{NodeID: a.NodeID, Type: "force_release", Status: "completed", CorrelationID: e.CorrelationID,
			CreatedAt: e.At, ExpiresAt: e.At}); err != nil {
			return err
		}
		return record(ctx, tx, e)
	})
	return a, err
}

// ObserveApp stores what a completed probe saw.
func (s *Store) ObserveApp(ctx context.Context, id, status string, at time.Time) error {
	return s.touch(ctx, "UPDATE allocations SET app_status = ?, app_observed_at = ?, app_probe_failures = 0 WHERE id = ?", status, ms(at), id)
}

// MissApp notes a probe that gave no observation; the status stays.
func (s *Store) MissApp(ctx context.Context, id string, at time.Time) error {
	return s.touch(ctx, "UPDATE allocations SET app_probe_failed_at = ?, app_probe_failures = app_probe_failures + 1 WHERE id = ?", ms(at), id)
}
