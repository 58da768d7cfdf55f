package diag

import (
	"fmt"
	"slices"
	"time"
)

// Evidence is everything that is known about a node and an allocation on it, by source. What is nil, empty or zero was
// not measured: it neither supports nor contradicts a reason. No name of a scenario is in it.
type Evidence struct {
	Node   *NodeEvidence  // the platform's read model of the node
	App    *AppEvidence   // the platform's read model of the allocation and its workload
	Trust  *TrustEvidence // what the platform signs with, and what its node ingress trusts
	Record []*RecordEntry // the node's own diagnostic record, in time (see RecordFacts.InTime)
	BootID string         // of the node's current boot; entries of an earlier one are history
	Probes []Probed       // what hops found, at the node, at the edge and at the workload
	Points []CheckPoint   // of the checklist, as probes measured them just now
	Token  TokenState     // of the node's recovery token, as seen on the node
	// Passed: the evidence is of a walk that passes, so that an entry of the record describes its own time.
	Passed bool
	// CertGood: the node's certificate was seen to be in order: dates, key, name, and an issuer that the ingress asks
	// for.
	CertGood bool

	// Denials are refusals of the node's identity.
	Denials []Denial
	// Budgets are a profile's own; they tighten the model's and never weaken them.
	Budgets map[Severity]Budget
	// RunbookBase is the URL of the profile's runbook, "" for this tool's own explanation.
	RunbookBase string
}

// NodeEvidence is the read model of a node.
type NodeEvidence struct {
	// since the last accepted heartbeat, by the platform's own clock; nil: the platform does not report it
	HeartbeatAge *time.Duration
	ContactAge   *time.Duration // of its last contact with the agent, by any request
	NeverHeard   bool           // the platform reports that no heartbeat ever came
	StaleAfter   time.Duration  // policy node.heartbeat_stale_after_seconds, for both ages

	Identity string     // accepted, or the code with which the node's credentials are denied
	Posture  string     // the agent's own, when it sent its last heartbeat: serving | recovering | stopped | quarantined
	Reason   ReasonCode // the platform's own classification
	// Overtaken is why Reason is history: a later measurement contradicts what the platform derived it from. "": it
	// holds.
	Overtaken string

	CertExpired     *bool // by the platform's clock
	StaleTasks      *int
	LostResults     *int
	Version         string // the agent's
	DesiredVersion  string
	Address         string   // that the platform has for the node
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

// Probed is the result of one hop: a finding, or a plain pass.
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

// failing reports whether the hop found a fault, or something to investigate.
func (p *Probed) failing() bool { return p.Status == StatusFail || p.Status == StatusWarn }

// Denial is a refusal of the node's identity.
type Denial struct {
	Source string // read model | probe HOP
	Code   string // typed, "" for an untyped 401 or 403
	// Asked reports whether the listener ever asked for the node's certificate. One that did not knows nothing of the
	// node, so that its refusal is evidence of a drifted profile, and never of a revoked identity.
	Asked *bool
}

// heard reports whether anything of it is about the node: its own word, or what was measured there, at its
// workload or at its route. That the control plane did not answer this operator is not, nor that the platform never
// heard it.
func (v *view) heard() bool {
	switch {
	case v.Node != nil && !v.Node.NeverHeard, v.App != nil && v.App.observed(), len(v.Denials) > 0, v.record.speaks:
		return true
	}
	return v.point(PointHeartbeat).Status == MarkPass || v.point(PointWait).Status == MarkPass ||
		v.point(PointTask).Status == MarkPass ||
		slices.ContainsFunc(v.Probes, func(p Probed) bool {
			switch p.Hop {
			case HopNodeReadiness, HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeTerminalReachability, HopTerminalStartup,
				HopAppRuntimeLiveness, HopAppUserRoute, HopGPUHealth:
				return p.Status == StatusPass || (p.failing() && p.By == "")
			case HopNodeOpsAccess, HopNodeTaskRoundtrip, HopTerminalOpenTask, HopGatewayNodeStream:
				return p.Status == StatusPass // that one fails is the word of others
			}
			return false // the control plane and its edge do not depend on the node
		})
}

// TokenState is the state of the node's recovery token.
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

// CheckPoint is one of the five points of evidence that make a node healthy.
type CheckPoint struct {
	ID     PointID `json:"id"`
	Status Mark    `json:"status"`
	Text   string  `json:"text,omitempty"`
}

// PointID names a point, as the platform's read model does.
type PointID string

// Mark is the result of a point. What was not measured is unknown, and unknown is not a pass.
type Mark string

const (
	PointHeartbeat PointID = "heartbeat_current"
	PointIssuer    PointID = "cert_issuer_trusted_by_ingress"
	PointWait      PointID = "task_wait_succeeds"
	PointTask      PointID = "task_completes"
	PointBacklog   PointID = "no_expired_tasks_current"

	MarkPass    Mark = "pass"
	MarkFail    Mark = "fail"
	MarkUnknown Mark = "unknown"
)

// Points lists the five, in the drift model's order.
var Points = [...]PointID{PointHeartbeat, PointIssuer, PointWait, PointTask, PointBacklog}

// checklist fills in the five points. What a probe measured just now counts for more than what the platform remembers;
// of several words of one source the worst counts.
func checklist(e *Evidence) [len(Points)]CheckPoint {
	var list [len(Points)]CheckPoint
	sources := [][]CheckPoint{e.Points, ownPoints(e)}
	if e.Node != nil {
		sources = append(sources, e.Node.Checklist)
	}
	for i, id := range Points {
		list[i] = CheckPoint{ID: id, Status: MarkUnknown, Text: "not measured"}
		for k, source := range sources {
			if p, known := worst(source, id); known {
				list[i] = p
				if k < 2 {
					list[i].Text += contradicted(e, p)
				}
				break
			}
		}
		if n := e.Node; id == PointHeartbeat && n != nil && n.HeartbeatAge == nil && e.heardLately() {
			contact := fmt.Sprintf("last contact %s ago", Age(*n.ContactAge))
			if list[i].Status == MarkUnknown {
				list[i].Text = contact + "; when the last heartbeat came is not known"
			} else {
				list[i].Text += "; " + contact
			}
		}
	}
	return list
}

// contradicted names the platform's own word on a point where it is another than what was measured.
func contradicted(e *Evidence, p CheckPoint) string {
	if e.Node == nil {
		return ""
	}
	theirs, known := worst(e.Node.Checklist, p.ID)
	switch {
	case !known || theirs.Status == p.Status:
	case p.ID == PointHeartbeat || p.ID == PointIssuer:
		return "; the platform's own checklist says " + string(theirs.Status)
	case p.Status == MarkPass: // a task and a task wait are events: what the platform remembers came first
		return "; the platform remembers that it failed"
	}
	return ""
}

// heardLately reports whether the platform had contact with the agent, by any request, within the policy.
func (e *Evidence) heardLately() bool {
	return e.Node != nil && e.Node.ContactAge != nil && e.Node.StaleAfter > 0 && *e.Node.ContactAge <= e.Node.StaleAfter
}

// unheard reports whether the platform no longer hears from the agent: no heartbeat, nor any other request.
func (v *view) unheard() bool { return v.point(PointHeartbeat).Status == MarkFail && !v.heardLately() }

// point is the result of one of the five.
func (v *view) point(id PointID) CheckPoint { return v.points[slices.Index(Points[:], id)] }

// worst is the word of points on id: a fail before a pass, and of equals the first by text.
func worst(points []CheckPoint, id PointID) (CheckPoint, bool) {
	var out CheckPoint
	for _, p := range points {
		if p.ID != id || (p.Status != MarkPass && p.Status != MarkFail) {
			continue
		}
		if out.ID == "" || (p.Status == MarkFail && out.Status == MarkPass) || (p.Status == out.Status && p.Text < out.Text) {
			out = p
		}
	}
	return out, out.ID != ""
}

// ownPoints are those that follow from numbers: the age of the heartbeat, the fingerprints, the count of stale tasks.
func ownPoints(e *Evidence) []CheckPoint {
	var out []CheckPoint
	add := func(id PointID, ok bool, format string, args ...any) {
		mark := MarkFail
		if ok {
			mark = MarkPass
		}
		out = append(out, CheckPoint{id, mark, fmt.Sprintf(format, args...)})
	}
	if n := e.Node; n != nil {
		switch {
		case n.HeartbeatAge != nil && n.StaleAfter > 0:
			add(PointHeartbeat, *n.HeartbeatAge <= n.StaleAfter, "last heartbeat %s ago, stale after %s", Age(*n.HeartbeatAge),
				n.StaleAfter)
		case n.ContactAge != nil && n.StaleAfter > 0 && !e.heardLately(): // a heartbeat would be a contact
			add(PointHeartbeat, false, "last contact %s ago, stale after %s", Age(*n.ContactAge), n.StaleAfter)
		case n.NeverHeard:
			add(PointHeartbeat, false, "no heartbeat ever came")
		}
		if n.StaleTasks != nil {
			add(PointBacklog, *n.StaleTasks == 0, "%d open tasks are past their time", *n.StaleTasks)
		}
	}
	if t := e.Trust; t != nil && t.SigningCA != "" && t.IngressCA != "" && t.SigningCA != t.IngressCA {
		add(PointIssuer, false, "nodes are signed by %.16s..., the node ingress trusts %.16s...", t.SigningCA, t.IngressCA)
	}
	return out
}

// Age writes how long ago something was, in whole seconds; a time ahead of the clock was now.
func Age(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
