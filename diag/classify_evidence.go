package diag

import (
	"slices"
	"time"
)

// Evidence is everything that is known about a node and an allocation on it, by source. What is nil, empty or zero was
// not measured: it speaks neither for nor against anything. No name of a scenario is in it.
type Evidence struct {
	Node   *NodeEvidence  // the platform's read model of the node
	App    *AppEvidence   // the platform's read model of the allocation and its workload
	Trust  *TrustEvidence // what the platform signs with, and what its node ingress trusts
	Record *RecordFacts   // the node's own diagnostic record
	BootID string         // of the node's current boot; entries of an earlier one are history
	Probes []Probed       // what hops found, at the node, at the edge and at the workload
	Points []CheckPoint   // of the checklist, as probes measured them just now
	Token  TokenState     // of the node's recovery token, as seen on the node
	// Passed: the evidence is of a walk that passes, so that an entry of the record speaks of its time and not of now.
	Passed bool
	// CertGood: the node's certificate was seen to be in order: dates, key, name, and an issuer that the ingress asks
	// for.
	CertGood bool

	// Denials are refusals of the node's identity.
	Denials []Denial
	// Budgets are a profile's own; they tighten the model's and never weaken them.
	Budgets map[Severity]Budget
}

// NodeEvidence is the read model of a node.
type NodeEvidence struct {
	HeartbeatAge *time.Duration // of the last heartbeat that was taken in, by the platform's own clock; nil: the platform does not say
	ContactAge   *time.Duration // of its last contact with the agent, by any request
	NeverHeard   bool           // the platform says that no heartbeat ever came
	StaleAfter   time.Duration  // policy node.heartbeat_stale_after_seconds, for both ages

	Identity string     // accepted, or the code with which the node's credentials are denied
	Posture  string     // the agent's own, when it sent its last heartbeat: serving | recovering | stopped | quarantined
	Reason   ReasonCode // the platform's own classification
	// Overtaken says why Reason is history: what the platform made it of was measured since, and is otherwise. "": it holds.
	Overtaken string

	CertExpired     *bool // by the platform's clock
	StaleTasks      *int
	LostResults     *int
	Version         string // the agent's
	DesiredVersion  string
	Address         string   // on the platform's books
	Addresses       []string // as the node reports them
	GuestAgent      string   // provider's word: running, stopped, down, unreachable, unknown
	EndpointDrift   string   // where the node reports another endpoint than the profile's: which, in words
	Checklist       []CheckPoint
	RecordNewest    RecordReason // newest trouble of the record's summary in the heartbeat
	EnrollSuccesses int64        // of the agent's counters
	Rejections      int64
}

// AppEvidence is the read model of an allocation.
type AppEvidence struct {
	State, Occupancy string
	Status           string    // of the workload: running | stopped | failed | unhealthy | ...
	ObservedAt       time.Time // of the last completed status probe
	ProbeFailedAt    time.Time // of the last status probe that expired: a missing observation
	CredentialBad    *bool
}

// TrustEvidence is fingerprints.
type TrustEvidence struct{ SigningCA, IngressCA string }

// Probed is what one hop says: a finding, or a plain pass.
type Probed struct {
	Hop     HopID
	Status  Status
	Signal  Signal
	Failure Failure
	Reason  ReasonCode // where the facts know it better than the signal's row
	Text    string
	By      HopID // the hop that explains this one: it is a symptom then, and no evidence of its own
}

// reason is the operator reason that the finding points at.
func (p *Probed) reason() ReasonCode {
	if p.Reason != "" {
		return p.Reason
	}
	return ReasonFor(p.Signal, p.Failure)
}

// failing reports whether the hop found a fault, or something that wants a look.
func (p *Probed) failing() bool { return p.Status == StatusFail || p.Status == StatusWarn }

// Denial is a refusal of the node's identity.
type Denial struct {
	Source string // read model | probe HOP
	Code   string // typed, "" for an untyped 401 or 403
	// Asked says whether the listener ever asked for the node's certificate. One that did not knows nothing of the
	// node, so that its refusal is evidence of a drifted profile, and never of a revoked identity.
	Asked *bool
}

// heard reports whether anything of it is about the node: its own word, or what somebody measured there, at its workload
// or at its route. That the control plane did not answer this operator is not, nor that the platform never heard it.
func (v *view) heard() bool {
	switch {
	case v.Node != nil && !v.Node.NeverHeard, v.App != nil && v.App.observed(), len(v.Denials) > 0, v.record.speaks:
		return true
	}
	return v.point(PointHeartbeat).Status == MarkPass || v.point(PointWait).Status == MarkPass || v.point(PointTask).Status == MarkPass ||
		slices.ContainsFunc(v.Probes, func(p Probed) bool {
			switch p.Hop {
			case HopNodeReadiness, HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeTerminalReachability, HopTerminalStartup,
				HopAppRuntimeLiveness, HopAppUserRoute, HopGPUHealth:
				return p.Status == StatusPass || p.failing() && p.By == ""
			case HopNodeOpsAccess, HopNodeTaskRoundtrip, HopTerminalOpenTask, HopGatewayNodeStream:
				return p.Status == StatusPass // that one fails is the word of others
			}
			return false // the control plane and its edge stand without the node, too
		})
}

// TokenState is how the node's recovery token stands.
type TokenState string

const (
	TokenUnknown TokenState = ""
	TokenCurrent TokenState = "current"
	TokenGone    TokenState = "gone" // missing, expired, consumed, or for another node or profile
)

// Budget is how long a failure may stay unnoticed, and how long its repair may take. 0: no limit of its own.
type Budget struct{ Detect, Repair time.Duration }

// tightened is b, and want where that is tighter.
func (b Budget) tightened(want Budget) Budget {
	tighter := func(have, want time.Duration) time.Duration {
		if want > 0 && (have == 0 || want < have) {
			return want
		}
		return have
	}
	return Budget{tighter(b.Detect, want.Detect), tighter(b.Repair, want.Repair)}
}
