package store

import (
	"context"
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

// AllocationStates is the complete list.
var AllocationStates = [...]string{StateRequested, StateActive, StateReleasing, StateReleased, StateReleaseFailed}

// Allocation is a tenant's share of a node.
type Allocation struct {
	ID          string
	NodeID      string
	State       string
	OSUser      string
	WorkflowID  string
	App         App
	Credentials []Credential // as they were reported, each once
	UpdatedAt   time.Time
	// Uncleaned is set if it is unknown whether the node of a released allocation has cleaned up.
	Uncleaned bool
	// ReleaseUntil is set during a temporary release: afterwards the allocation is active again.
	ReleaseUntil time.Time

	RecoveryReason string // as last reported to the tenant
	RecoveryState  string
	RecoverySince  time.Time
}

// App is the workload of an allocation and its last observation. A missed probe does not change Status: it is a
// missing observation, not a dead workload.
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
	app_observed_at, app_probe_failed_at, app_probe_failures, credential, recovery_reason, recovery_state, recovery_since, updated_at, uncleaned,
	release_until FROM allocations `

func allocationFields(a *Allocation) []any {
	return []any{&a.ID, &a.NodeID, &a.State, &a.OSUser, &a.WorkflowID, &a.App.Kind, &a.App.Unit, &a.App.Port,
		&a.App.ProductURL, &a.App.Status, moment{&a.App.ObservedAt}, moment{&a.App.ProbeFailedAt}, &a.App.ProbeFailures,
		jsonText{&a.Credentials}, &a.RecoveryReason, &a.RecoveryState, moment{&a.RecoverySince}, moment{&a.UpdatedAt},
		&a.Uncleaned, moment{&a.ReleaseUntil}}
}

// Allocation returns an allocation, or ErrNotFound.
func (s *Store) Allocation(ctx context.Context, id string) (Allocation, error) {
	return one(ctx, s.db, allocationFields, allocationColumns+"WHERE id = ?", id)
}

// ActiveApps returns the active allocations that have a unit to probe.
func (s *Store) ActiveApps(ctx context.Context) ([]Allocation, error) {
	return all(ctx, s.db, allocationFields, allocationColumns+"WHERE state = ? AND app_unit != '' ORDER BY id",
		StateActive)
}

// AllocationsOn returns a node's allocations.
func (s *Store) AllocationsOn(ctx context.Context, nodeID string) ([]Allocation, error) {
	return all(ctx, s.db, allocationFields, allocationColumns+"WHERE node_id = ? ORDER BY id", nodeID)
}

// Place is the state that determines whether the allocation's slot can be reassigned: a released allocation that
// may not be cleaned up counts as a failed release, and a temporarily released one counts as active, since its
// tenant returns.
func (a Allocation) Place() string {
	switch {
	case a.State == StateReleased && a.Uncleaned:
		return StateReleaseFailed
	case a.State == StateReleased && !a.ReleaseUntil.IsZero():
		return StateActive
	}
	return a.State
}

// PlacesOn returns the Place of each of a node's allocations.
func (s *Store) PlacesOn(ctx context.Context, nodeID string) ([]string, error) {
	found, err := s.AllocationsOn(ctx, nodeID)
	places := make([]string, len(found))
	for i, a := range found {
		places[i] = a.Place()
	}
	return places, err
}

// SeedAllocation creates a unless its id exists.
func (s *Store) SeedAllocation(ctx context.Context, a Allocation) error {
	return exec(ctx, s.db,
		`INSERT INTO allocations (id, node_id, state, os_user, workflow_id, app_kind, app_unit, app_port, app_product_url, updated_at)
		VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`, a.ID, a.NodeID, a.State, a.OSUser, a.WorkflowID,
		a.App.Kind, a.App.Unit, a.App.Port, a.App.ProductURL, ms(a.UpdatedAt))
}

// ObserveApp stores what a completed probe saw.
func (s *Store) ObserveApp(ctx context.Context, id, status string, at time.Time) error {
	return s.touch(ctx, "UPDATE allocations SET app_status = ?, app_observed_at = ?, app_probe_failures = 0 WHERE id = ?",
		status, ms(at), id)
}

// RecordAppMissed notes a probe without an observation; the status does not change.
func (s *Store) RecordAppMissed(ctx context.Context, id string, at time.Time) error {
	return s.touch(ctx,
		"UPDATE allocations SET app_probe_failed_at = ?, app_probe_failures = app_probe_failures + 1 WHERE id = ?", ms(at),
		id)
}
