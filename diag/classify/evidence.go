package classify

import (
	"fmt"
	"github.com/gpuaas/gpuaasctl/diag"
	"slices"
	"time"
)

// Evidence is everything known about a node and an allocation on it, by source. A nil, empty or zero field was not
// measured: it neither supports nor contradicts a reason. It never contains a scenario's name.
type Evidence struct {
	Node   *NodeEvidence       // the platform's read model of the node
	App    *AppEvidence        // the platform's read model of the allocation and its workload
	Trust  *TrustEvidence      // the platform's signing CA, and the CA that its node ingress trusts
	Record []*diag.RecordEntry // the node's diagnostic record, in order of time (see RecordFacts.InTime)
	BootID string              // id of the node's current boot; entries of earlier boots are history
	Probes []Probed            // findings of hops, at the node, the edge and the workload
	Points []diag.CheckPoint   // points of the checklist that this walk's probes measured
	Token  TokenState          // state of the node's recovery token, as seen on the node
	// Passed: the evidence comes from a walk that passed, so entries of the record describe the time at which they were
	// written.
	Passed bool
	// CertGood: the node's certificate was checked and is valid: dates, key, name, and an issuer that the ingress
	// requests.
	CertGood bool

	// Denials are refusals of the node's identity.
	Denials []Denial
	// Budgets are the profile's budgets. They can tighten the model's budgets but not relax them.
	Budgets map[diag.Severity]Budget
	// Blamed is the reason of what the walk blames, if that reason is to be the classification's; "": the most pressing
	// reason is. It is evidence for nothing.
	Blamed diag.ReasonCode
	// RunbookBase is the URL of the profile's runbook; "" means this tool's own explanations.
	RunbookBase string
}

// NodeEvidence is the read model of a node.
type NodeEvidence struct {
	// since the last accepted heartbeat, by the platform's clock; nil: not reported by the platform
	HeartbeatAge *time.Duration
	ContactAge   *time.Duration // since the agent's last request of any kind
	NeverHeard   bool           // the platform reports that it never received a heartbeat
	StaleAfter   time.Duration  // policy node.heartbeat_stale_after_seconds, for both ages

	Identity string          // "accepted", or the error code with which the node's credentials are denied
	Posture  string          // the agent's posture in its last heartbeat: serving | recovering | stopped | quarantined
	Reason   diag.ReasonCode // the platform's own classification
	// Overtaken explains why Reason no longer holds: a later measurement contradicts the platform's input to it. "": it
	// holds.
	Overtaken string

	CertExpired    *bool // by the platform's clock
	StaleTasks     *int
	LostResults    *int
	Version        string // the agent's
	DesiredVersion string
	Address        string   // the node's address according to the platform
	Addresses      []string // as the node reports them
	GuestAgent     string   // as reported by the provider: running, stopped, down, unreachable, unknown
	EndpointDrift  string   // describes an endpoint that the node reports and that differs from the profile's
	Checklist      []diag.CheckPoint
}

// AppEvidence is the read model of an allocation.
type AppEvidence struct {
	State, Occupancy string
	Status           string    // of the workload: running | stopped | failed | unhealthy | ...
	ObservedAt       time.Time // time of the last completed status probe
	ProbeFailedAt    time.Time // time of the last status probe without a result: a missing observation
	CredentialBad    *bool
}

// TrustEvidence is fingerprints.
type TrustEvidence struct{ SigningCA, IngressCA string }

// Probed is the result of one hop: a finding, or a pass without one.
type Probed struct {
	Hop     diag.HopID
	Status  diag.Status
	Signal  diag.Signal
	Failure diag.Failure
	Reason  diag.ReasonCode // set where the facts give a more specific reason than the signal's row
	Text    string
	By      diag.HopID // the hop that explains this one, which is then a symptom and not evidence
}

// reason returns the operator reason of the finding.
func (p *Probed) reason() diag.ReasonCode {
	if p.Reason != "" {
		return p.Reason
	}
	return diag.ReasonFor(p.Signal, p.Failure)
}

// failing reports whether the hop found a fault, or something to investigate.
func (p *Probed) failing() bool { return p.Status == diag.StatusFail || p.Status == diag.StatusWarn }

// Denial is a refusal of the node's identity.
type Denial struct {
	Source string // read model | probe HOP
	Code   string // error code; "" for a 401 or 403 without one
	// Asked reports whether the listener ever requested the node's certificate. A listener that did not cannot know the
	// node, so its refusal is evidence of a drifted profile, never of a revoked identity.
	Asked *bool
}

// nodeObserved reports whether any evidence is about the node itself: its record, its heartbeats, or a measurement of
// it, its workload or its route. A control plane that does not answer this operator, or that has never heard from the
// node, does not count.
func (v *view) nodeObserved() bool {
	switch {
	case v.Node != nil && !v.Node.NeverHeard, v.App != nil && v.App.observed(), len(v.Denials) > 0, v.record.speaks:
		return true
	}
	return v.point(diag.PointHeartbeat).Status == diag.MarkPass || v.point(diag.PointWait).Status == diag.MarkPass ||
		v.point(diag.PointTask).Status == diag.MarkPass ||
		slices.ContainsFunc(v.Probes, func(p Probed) bool {
			switch p.Hop {
			case diag.HopNodeReadiness,
				diag.HopNodeRuntimeAPI,
				diag.HopNodeRecoveryStatus,
				diag.HopNodeTerminalReachability,
				diag.HopTerminalStartup,
				diag.HopAppRuntimeLiveness,
				diag.HopAppUserRoute,
				diag.HopGPUHealth:
				return p.Status == diag.StatusPass || (p.failing() && p.By == "")
			case diag.HopNodeOpsAccess, diag.HopNodeTaskRoundtrip, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream:
				return p.Status == diag.StatusPass // a failure is reported by the platform, not by the node
			}
			return false // the control plane and its edge do not depend on the node
		})
}

// TokenState is the state of the node's recovery token.
type TokenState string

const (
	TokenUnknown TokenState = ""
	TokenCurrent TokenState = "current"
	TokenGone    TokenState = "gone" // missing, expired, consumed, or issued for another node or profile
)

// Budget is how long a failure may stay undetected, and how long its repair may take. 0: no limit.
type Budget struct{ Detect, Repair time.Duration }

// tightened returns the smaller of b and want for each limit.
func (b Budget) tightened(want Budget) Budget {
	tighter := func(have, want time.Duration) time.Duration {
		if want > 0 && (have == 0 || want < have) {
			return want
		}
		return have
	}
	return Budget{tighter(b.Detect, want.Detect), tighter(b.Repair, want.Repair)}
}

// checklist fills in the five points. A measurement of this walk outranks what the platform remembers; among several
// results of one source, the worst counts.
func checklist(e *Evidence) [len(diag.Points)]diag.CheckPoint {
	var list [len(diag.Points)]diag.CheckPoint
	sources := [][]diag.CheckPoint{e.Points, ownPoints(e)}
	if e.Node != nil {
		sources = append(sources, e.Node.Checklist)
	}
	for i, id := range diag.Points {
		list[i] = diag.CheckPoint{ID: id, Status: diag.MarkUnknown, Text: "not measured"}
		for k, source := range sources {
			if p, known := worst(source, id); known {
				list[i] = p
				if k < 2 {
					list[i].Text += contradicted(e, p)
				}
				break
			}
		}
		if n := e.Node; id == diag.PointHeartbeat && n != nil && n.HeartbeatAge == nil && e.recentContact() {
			contact := fmt.Sprintf("last contact %s ago", diag.Age(*n.ContactAge))
			if list[i].Status == diag.MarkUnknown {
				list[i].Text = contact + "; when the last heartbeat came is not known"
			} else {
				list[i].Text += "; " + contact
			}
		}
	}
	return list
}

// contradicted describes the platform's own result for a point if it differs from what was measured.
func contradicted(e *Evidence, p diag.CheckPoint) string {
	if e.Node == nil {
		return ""
	}
	theirs, known := worst(e.Node.Checklist, p.ID)
	switch {
	case !known || theirs.Status == p.Status:
	case p.ID == diag.PointHeartbeat || p.ID == diag.PointIssuer:
		return "; the platform's own checklist says " + string(theirs.Status)
	case p.Status == diag.MarkPass: // tasks and task waits are events: the platform's result is older than the measurement
		return "; the platform remembers that it failed"
	}
	return ""
}

// recentContact reports whether the agent made a request of any kind within the policy's time limit.
func (e *Evidence) recentContact() bool {
	return e.Node != nil && e.Node.ContactAge != nil && e.Node.StaleAfter > 0 && *e.Node.ContactAge <= e.Node.StaleAfter
}

// contactLost reports whether the platform has lost contact with the agent: no heartbeat and no other request within
// the limit.
func (v *view) contactLost() bool {
	return v.point(diag.PointHeartbeat).Status == diag.MarkFail && !v.recentContact()
}

// point is the result of one of the five.
func (v *view) point(id diag.PointID) diag.CheckPoint {
	return v.points[slices.Index(diag.Points[:], id)]
}

// worst returns the worst result for id among points: fail before pass, then the first in order of Text.
func worst(points []diag.CheckPoint, id diag.PointID) (diag.CheckPoint, bool) {
	var out diag.CheckPoint
	for _, p := range points {
		if p.ID != id || (p.Status != diag.MarkPass && p.Status != diag.MarkFail) {
			continue
		}
		if out.ID == "" || (p.Status == diag.MarkFail && out.Status == diag.MarkPass) ||
			(p.Status == out.Status && p.Text < out.Text) {
			out = p
		}
	}
	return out, out.ID != ""
}

// ownPoints returns the points that are computed from numbers: heartbeat age, fingerprints, count of stale tasks.
func ownPoints(e *Evidence) []diag.CheckPoint {
	var out []diag.CheckPoint
	add := func(id diag.PointID, ok bool, format string, args ...any) {
		mark := diag.MarkFail
		if ok {
			mark = diag.MarkPass
		}
		out = append(out, diag.CheckPoint{ID: id, Status: mark, Text: fmt.Sprintf(format, args...)})
	}
	if n := e.Node; n != nil {
		switch {
		case n.HeartbeatAge != nil && n.StaleAfter > 0:
			add(
				diag.PointHeartbeat,
				*n.HeartbeatAge <= n.StaleAfter,
				"last heartbeat %s ago, stale after %s",
				diag.Age(*n.HeartbeatAge),
				n.StaleAfter,
			)
		// a heartbeat counts as contact, so there was none either
		case n.ContactAge != nil && n.StaleAfter > 0 && !e.recentContact():
			add(diag.PointHeartbeat, false, "last contact %s ago, stale after %s", diag.Age(*n.ContactAge), n.StaleAfter)
		case n.NeverHeard:
			add(diag.PointHeartbeat, false, "no heartbeat ever came")
		}
		if n.StaleTasks != nil {
			add(diag.PointBacklog, *n.StaleTasks == 0, "%d open tasks are past their deadline", *n.StaleTasks)
		}
	}
	if t := e.Trust; t != nil && t.SigningCA != "" && t.IngressCA != "" && t.SigningCA != t.IngressCA {
		add(
			diag.PointIssuer,
			false,
			"nodes are signed by %.16s..., the node ingress trusts %.16s...",
			t.SigningCA,
			t.IngressCA,
		)
	}
	return out
}
