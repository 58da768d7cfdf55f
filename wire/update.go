package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// PathArtifact serves a package to nodes by the lower-case hex of its sha256.
const PathArtifact = "/internal/v1/artifacts/{sha256}"

// MaxArtifact bounds a package, in bytes: an agent that is larger was not built by this project's rules.
const MaxArtifact = 64 << 20

// Build is one build of the agent. The digest is its identity, the version is for people.
type Build struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // lower-case hex of the program file
}

// SelfUpdatePayload is the signed payload of node.self_update: what shall run, by digest, and optionally the task
// signing keys and the recovery token that go with it. It is the whole of what a self-update may touch: a field that is
// not here is refused. A task that names the digest that runs already replaces keys or token alone.
type SelfUpdatePayload struct {
	Version     string `json:"version"`
	SHA256      string `json:"sha256"`
	SoakSeconds int64  `json:"soak_seconds,omitempty"` // how long the probes have to hold; 0: DefaultSoak
	// replaces GPUAAS_TASK_SIGNING_PUBKEYS; must hold the key that signed this task
	Verifiers     string `json:"task_signing_pubkeys,omitempty"`
	RecoveryToken string `json:"recovery_token,omitempty"` // replaces GPUAAS_ENROLLMENT_TOKEN; a secret
}

// DefaultSoak is how long a version has to hold where the task does not set it.
const DefaultSoak = time.Minute

// States of a rollout, in order; the last four are final.
const (
	RolloutPending = "pending" // accepted; nothing was changed
	// the package lies beside the running one, its digest is right, the evidence is written
	RolloutVerified    = "verified"
	RolloutActivating  = "activating"  // the target is started, and the platform has not named it yet
	RolloutSoaking     = "soaking"     // the platform named it: committed, as long as the probes hold
	RolloutConverged   = "converged"   // it is what this node runs
	RolloutFailed      = "failed"      // nothing was ever started
	RolloutReverted    = "reverted"    // the prior build runs again
	RolloutRebootstrap = "rebootstrap" // the prior build is not trusted any more: an operator has to act
)

var rolloutRank = map[string]int{
	RolloutPending: 1, RolloutVerified: 2, RolloutActivating: 3, RolloutSoaking: 4,
	RolloutConverged: 5, RolloutFailed: 5, RolloutReverted: 5, RolloutRebootstrap: 5,
}

// RolloutRank orders states: a rollout never goes to a lower one. 0 is not a state.
func RolloutRank(state string) int { return rolloutRank[state] }

// RolloutFinal reports whether a state is the end of a rollout.
func RolloutFinal(state string) bool { return rolloutRank[state] == 5 }

// Probes of a soak. All three have to pass.
const (
	ProbeHeartbeat = "heartbeat"
	ProbeTaskWait  = "task_wait"
	ProbeNoop      = "noop"
)

// ProbeState is what one probe of a soak has shown so far. Both sides keep it, so that a restart of either one loses
// nothing and counts nothing twice.
type ProbeState struct {
	Pass  bool      `json:"pass"`
	Fails int       `json:"fails,omitempty"` // in a row, up to now
	At    time.Time `json:"at"`              // of the newest result that changed it
}

// Rollout is one self-update as node and platform report it to each other; its id is the task's. Each event and each
// boot report holds all of it, so either side can learn it again from the other.
type Rollout struct {
	ID            string                `json:"id"`
	CorrelationID string                `json:"correlation_id"`
	State         string                `json:"state"`
	Prior         Build                 `json:"prior"`
	Target        Build                 `json:"target"`
	SoakSeconds   int64                 `json:"soak_seconds,omitempty"`
	SoakUntil     time.Time             `json:"soak_until,omitzero"`
	Probes        map[string]ProbeState `json:"probes,omitempty"`
	Attempts      int                   `json:"attempts,omitempty"` // starts of the target that it did not survive
	VerifierSet   string                `json:"verifier_set,omitempty"`
	Token         string                `json:"token,omitempty"` // unchanged | refreshed
	Result        string                `json:"result,omitempty"`
	RollbackHint  string                `json:"rollback_hint,omitempty"`
}

// BootReport is what the first heartbeat of a process adds, until one is answered: who runs, and what the node's own
// journal holds.
type BootReport struct {
	Running Build    `json:"running"`
	Package Build    `json:"package"` // what the operator installed; the running one where nothing else was committed
	Rollout *Rollout `json:"rollout,omitempty"`
	NextSeq uint64   `json:"next_seq"` // of the next event
	Skipped []Build  `json:"skipped,omitempty"`
	Hold    string   `json:"hold,omitempty"` // why this node takes no work until it is bootstrapped again
}

// Snapshot is what the platform believes that a node is doing: a task that was handed out and not finished. One that
// updates the agent has its rollout.
type Snapshot struct {
	TaskID        string    `json:"task_id"`
	Type          string    `json:"type"`
	Status        string    `json:"status"`
	CorrelationID string    `json:"correlation_id"`
	ExpiresAt     time.Time `json:"expires_at"`
	Rollout       *Rollout  `json:"rollout,omitempty"`
}

// Kinds of events. The detail of the first two is an UpdateEvent.
const (
	EventSelfUpdate = "self_update"
	EventBoot       = "boot_recovery"
	// a decision on this node's identity or health; its detail is an entry of the diagnostic record
	EventDecision = "decision"
)

// UpdateEvent is one step of a rollout, with the evidence of why.
type UpdateEvent struct {
	Key      string            `json:"key"` // one per step, so that repeated reports count once
	Decision string            `json:"decision"`
	Text     string            `json:"text,omitempty"`
	Rollout  *Rollout          `json:"rollout,omitempty"` // after the step
	Facts    map[string]string `json:"facts,omitempty"`
}

// Version names a set of verifiers: the key ids, and a digest that changes with any of the keys.
func (v Verifiers) Version() string {
	ids := slices.Sorted(maps.Keys(v))
	h := sha256.New()
	for _, id := range ids {
		h.Write([]byte(id + ":"))
		h.Write(v[id])
	}
	return hex.EncodeToString(h.Sum(nil)[:6]) + " " + strings.Join(ids, ",")
}
