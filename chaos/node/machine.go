package node

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Machine makes and undoes changes. Every method must be repeatable after a crash in the middle of it.
type Machine interface {
	// Snapshot records the place's current state: everything that Compare and Undo need. It touches nothing. It returns
	// an error for a change that this machine cannot make, or that would have no effect.
	Snapshot(ctx context.Context, at Location) (json.RawMessage, error)
	// Make makes the change.
	Make(ctx context.Context, at Location) error
	// Compare returns the place's current state. A place that is partly changed, or partly reverted, counts as
	// injected.
	Compare(ctx context.Context, at Location) (Observed, error)
	// Undo restores the place's earlier state.
	Undo(ctx context.Context, at Location) error
	// Notify reloads or restarts a unit after a change to a file that it reads.
	Notify(ctx context.Context, n step.Notify) error
}

// Location is one change of one drill, with the context to make or undo it.
type Location struct {
	Run, Step string
	N         int // of the change in its step
	Change    step.Change
	Note      json.RawMessage // from Snapshot
	Left      time.Duration   // time until the drill's TTL, for the maker
	Undone    bool            // undone just now: the unit was notified, so it cannot still run with the old content
	Undoing   bool            // its undo began earlier, or its making failed: the progress is unknown
	Rebooted  bool            // since it was made
}

// Observed is the observed state of a place.
type Observed struct {
	State PlaceState
	Text  string // what was found, if it is unexpected
}

// PlaceState classifies the state of a place.
type PlaceState int

// The states of a place.
const (
	Before   PlaceState = iota // as before the drill, or as it would be without it
	Injected                   // as the change made it
	Foreign                    // as another process made it
)
