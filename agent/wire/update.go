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

// MaxArtifact bounds a package, in bytes: no agent that is built by this project's rules is larger.
const MaxArtifact = 64 << 20

// Build is one build of the agent. The digest identifies it; the version is for people.
type Build struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // lower-case hex of the program file
}

// SelfUpdatePayload is the signed payload of node.self_update: the build to run, by digest, and optionally new
// task signing keys and a new recovery token. A self-update may change nothing else: an unknown field is refused.
// A task with the digest of the running build replaces only keys or token.
type SelfUpdatePayload struct {
	Version     string `json:"version"`
	SHA256      string `json:"sha256"`
	SoakSeconds int64  `json:"soak_seconds,omitempty"` // how long the probes have to pass; 0: DefaultSoak
	// replaces GPUAAS_TASK_SIGNING_PUBKEYS; must hold the key that signed this task
	Verifiers     string `json:"task_signing_pubkeys,omitempty"`
	RecoveryToken string `json:"recovery_token,omitempty"` // replaces GPUAAS_ENROLLMENT_TOKEN; a secret
}

// DefaultSoak is how long the probes have to pass if the task does not say.
const DefaultSoak = time.Minute

// States of a rollout, in order; the last four are final.
const (
	RolloutPending = "pending" // accepted; nothing was changed
	// the package is on disk next to the running one, its digest is verified, the evidence is written
	RolloutVerified    = "verified"
	RolloutActivating  = "activating"  // the target was started, and the platform has not named it yet
	RolloutSoaking     = "soaking"     // the platform named it: committed, provided that the probes pass
	RolloutConverged   = "converged"   // it is what this node runs
	RolloutFailed      = "failed"      // nothing was ever started
	RolloutReverted    = "reverted"    // the prior build runs again
	RolloutRebootstrap = "rebootstrap" // the prior build is no longer trusted: an operator has to act
)

var rolloutRank = map[string]int{
	RolloutPending: 1, RolloutVerified: 2, RolloutActivating: 3, RolloutSoaking: 4,
	RolloutConverged: 5, RolloutFailed: 5, RolloutReverted: 5, RolloutRebootstrap: 5,
}

// RolloutRank orders states: a rollout never goes back to a lower rank. 0 is not a state.
func RolloutRank(state string) int { return rolloutRank[state] }

// RolloutFinal reports whether a rollout in that state is over.
func RolloutFinal(state string) bool { return rolloutRank[state] == 5 }

// Probes of a soak. All three must pass.
const (
	ProbeHeartbeat = "heartbeat"
	ProbeTaskWait  = "task_wait"
	ProbeNoop      = "noop"
)

// ProbeState is the result of one probe of a soak so far. Both sides keep it, so that a restart of either side
// loses no result and counts none twice.
type ProbeState struct {
	Pass  bool      `json:"pass"`
	Fails int       `json:"fails,omitempty"` // in a row, up to now
	At    time.Time `json:"at"`              // when the newest result changed it
}

// Rollout is one self-update as node and platform report it to each other; its id is the task's. Every event and
// boot report contains all of it, so that either side can learn it from the other.
type Rollout struct {
	ID            string                `json:"id"`
	CorrelationID string                `json:"correlation_id"`
	State         string                `json:"state"`
	Prior         Build                 `json:"prior"`
	Target        Build                 `json:"target"`
	SoakSeconds   int64                 `json:"soak_seconds,omitempty"`
	SoakUntil     time.Time             `json:"soak_until,omitzero"`
	Probes        map[string]ProbeState `json:"probes,omitempty"`
	Attempts      int                   `json:"attempts,omitempty"` // starts of the target that ended in a crash
	VerifierSet   string                `json:"verifier_set,omitempty"`
	Token         string                `json:"token,omitempty"` // unchanged | refreshed
	Result        string                `json:"result,omitempty"`
	RollbackHint  string                `json:"rollback_hint,omitempty"`
}

// BootReport is added to a process's heartbeats until one is answered: the running build, and the content of the
// node's journal.
type BootReport struct {
	Running Build    `json:"running"`
	Package Build    `json:"package"` // what the operator installed; the running build if no other was committed
	Rollout *Rollout `json:"rollout,omitempty"`
	NextSeq uint64   `json:"next_seq"` // of the next event
	Skipped []Build  `json:"skipped,omitempty"`
	Hold    string   `json:"hold,omitempty"` // why this node takes no work until it is bootstrapped again
}

// Snapshot is an unfinished task that the platform has handed out to a node. The task of a self-update has its
// rollout.
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
	// a decision about this node's identity or health; its detail is an entry of the diagnostic record
	EventDecision = "decision"
)

// UpdateEvent is one step of a rollout, with its evidence.
type UpdateEvent struct {
	Key      string            `json:"key"` // one per step, so that repeated reports count once
	Decision string            `json:"decision"`
	Text     string            `json:"text,omitempty"`
	Rollout  *Rollout          `json:"rollout,omitempty"` // after the step
	Facts    map[string]string `json:"facts,omitempty"`
}

// Version identifies a set of verifiers: the key ids, and a digest that changes with any of the keys.
func (v Verifiers) Version() string {
	ids := slices.Sorted(maps.Keys(v))
	h := sha256.New()
	for _, id := range ids {
		h.Write([]byte(id + ":"))
		h.Write(v[id])
	}
	return hex.EncodeToString(h.Sum(nil)[:6]) + " " + strings.Join(ids, ",")
}
