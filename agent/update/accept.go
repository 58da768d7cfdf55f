package update

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Refusal codes.
const (
	CodeInvalid  = "task_invalid"
	CodeBoundary = "update_boundary" // the payload concerns something that no self-update may change
	CodeOverlap  = "verifier_overlap_missing"
	CodeToken    = "recovery_token_invalid"
	CodeSkipped  = "version_skipped"
	CodeBusy     = "update_in_progress"
	CodeOver     = "update_over" // this task has ended already, or a later one was taken
)

// Refusal is why a task is not executed. Nothing was changed.
type Refusal struct {
	Code string
	Why  string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Why }

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Why: fmt.Sprintf(format, args...)}
}

// maxSoak bounds what a task may ask for.
const maxSoak = 24 * time.Hour

// Node describes the node that a task must be for.
type Node struct {
	ID      string
	Profile string // the active environment profile, "" where it is not known
	Keys    wire.Verifiers
}

// Accept checks a task with a verified signature: whether its payload is valid, within the boundary, and possible
// here. It accepts the task of the journal's active rollout again; do not call Begin for that.
func (j Journal) Accept(task wire.Task, node Node, now time.Time) (Accepted, *Refusal) {
	a := Accepted{Task: task, Keys: node.Keys}
	if err := decode(task.Payload, &a.Payload); err != nil {
		return a, err
	}
	p := a.Payload
	digest, err := hex.DecodeString(p.SHA256)
	switch {
	case err != nil || len(digest) != 32 || strings.ToLower(p.SHA256) != p.SHA256:
		return a, refuse(CodeInvalid, "a self-update is pinned to the sha256 of its package, in lower-case hex")
	case p.Version == "" || len(p.Version) > 128:
		return a, refuse(CodeInvalid, "a self-update names its version")
	case p.SoakSeconds < 0 || p.SoakSeconds > int64(maxSoak/time.Second):
		return a, refuse(CodeInvalid, "a soak takes 0 s to %v", maxSoak)
	}
	if err := overlap(p.Verifiers, task.KeyID, node.Keys); err != nil {
		return a, err
	}
	if err := current(p.RecoveryToken, node, now); err != nil {
		return a, err
	}
	if r := j.Rollout; r != nil && r.ID == task.ID {
		if wire.RolloutFinal(r.State) {
			return a, refuse(CodeOver, "this update is over: %s %s", r.State, r.Result)
		}
		return a, nil
	}
	if r := j.Rollout; r != nil && task.QueuedAt.Before(r.Task.QueuedAt) {
		// an old task, delivered again, would downgrade the node
		return a, refuse(CodeOver, "a later order was taken already: %s", r.ID)
	}
	if r := j.Active(); r != nil {
		return a, refuse(CodeBusy, "rollout %s is %s", r.ID, r.State)
	}
	if why := j.Skipped(p.SHA256); why != "" {
		return a, refuse(CodeSkipped, "this build was tried and did not hold: %s", why)
	}
	return a, nil
}

// decode decodes a payload, and rejects fields that a self-update may not have.
func decode(payload []byte, p *wire.SelfUpdatePayload) *Refusal {
	var fields map[string]json.RawMessage
	if err := bounded.Unmarshal(payload, &fields, bounded.Answer()); err != nil {
		return refuse(CodeInvalid, "the payload is not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		row, known := boundaryOfField(name)
		switch {
		case !known:
			return refuse(CodeBoundary, "a self-update has no field %q", name)
		case row.Path != PathSelfUpdate:
			return refuse(CodeBoundary, "a self-update may not touch %q: %s (%s)", name, row.Path, row.Owner)
		}
	}
	if err := bounded.Strict(payload, p, bounded.Answer()); err != nil {
		return refuse(CodeInvalid, "a field of the payload has a wrong type") // the decoder's error would quote values
	}
	return nil
}

// overlap requires the new verifier set to contain the key that signed this task: otherwise the node could not be
// ordered to go back.
func overlap(set, keyID string, now wire.Verifiers) *Refusal {
	if set == "" {
		return nil
	}
	next, err := wire.ParseVerifiers(set)
	switch {
	case err != nil:
		return refuse(CodeInvalid, "the verifier set: %v", err)
	case strings.ContainsAny(set, "\n\r\"'\\ "):
		return refuse(CodeInvalid, "the verifier set does not fit an environment file")
	case !next[keyID].Equal(now[keyID]):
		return refuse(CodeOverlap, "the new verifier set lacks key %s, which signed this task: old and new must overlap",
			keyID)
	}
	return nil
}

// current checks that a recovery token's claims are for this node and this profile, and not expired.
func current(token string, node Node, now time.Time) *Refusal {
	if token == "" {
		return nil
	}
	claims, ok := wire.ParseToken(token)
	switch {
	case !ok:
		return refuse(CodeToken, "the recovery token does not say whom it is for")
	case claims.NodeID != node.ID:
		return refuse(CodeToken, "the recovery token is node %s's", claims.NodeID)
	case node.Profile != "" && claims.Profile != node.Profile:
		return refuse(CodeToken, "the recovery token is for profile %q, this node's is %q", claims.Profile, node.Profile)
	case !now.Before(claims.ExpiresAt):
		return refuse(CodeToken, "the recovery token expired at %s", claims.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}
