package node

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Machine is what changes are made to. Every method may be called again after a crash in the middle of it.
type Machine interface {
	// Look notes how the place looks, all that Compare and Undo need to know of it. It touches nothing. A change that
	// this machine cannot make, or that would have no effect, is an error.
	Look(ctx context.Context, at Spot) (json.RawMessage, error)
	// Make makes the change.
	Make(ctx context.Context, at Spot) error
	// Compare returns how the place looks now. A place that is half made, or half reverted, counts as injected.
	Compare(ctx context.Context, at Spot) (Found, error)
	// Undo brings the place back from injected to before.
	Undo(ctx context.Context, at Spot) error
	// Tell reloads or restarts a unit after a change of a file that it reads.
	Tell(ctx context.Context, n step.Notify) error
}

// Spot is one change of one drill.
type Spot struct {
	Run, Step string
	N         int // of the change in its step
	Change    step.Change
	Note      json.RawMessage // from Look
	Left      time.Duration   // until the drill's TTL, for who makes it
	Undone    bool            // just now: a unit was notified, so it cannot still run with what it read
	Undoing   bool            // its undo was begun before, or its making failed: how far that came is unknown
	Rebooted  bool            // since it was made
}

// Found is how a place looks.
type Found struct {
	Look Look
	Text string // what was found, when it is not what a reader expects
}

// Look compares a place with what is known of it.
type Look int

// The looks.
const (
	Before   Look = iota // as it was, or as it would be without the drill
	Injected             // as the change made it
	Foreign              // as another process made it
)
