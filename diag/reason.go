package diag

import (
	"slices"
	"time"
)

// ReasonCode is an operator reason of the drift model: what is behind a clicked-on resource, never the text that a
// user sees.
type ReasonCode string

// Severity is the drift model's: P0 a security boundary or a control plane that tenants feel, P1 active impact with a
// known repair, P2 stale observation or routine recovery. The empty severity belongs to ReasonNone alone.
type Severity string

const (
	P0 Severity = "P0"
	P1 Severity = "P1"
	P2 Severity = "P2"
)

// Detect is how long a failure of this severity may stay unnoticed. 0: no limit.
func (s Severity) Detect() time.Duration {
	switch s {
	case P0:
		return time.Minute
	case P1:
		return 5 * time.Minute
	case P2:
		return 30 * time.Minute
	}
	return 0
}

// Repair is how long the repair may take. 0: by itself, or on the next business day.
func (s Severity) Repair() time.Duration {
	switch s {
	case P0:
		return 15 * time.Minute
	case P1:
		return time.Hour
	}
	return 0
}

// Reason is what follows from an operator reason, for the operator and for the user. The rows are in
// catalogue/reasons.yaml.
type Reason struct {
	Code     ReasonCode
	Title    Text
	Severity Severity
	// without refinement by facts; cert_expired without a current token is operator_action_required
	State       UserState
	UserText    Text         // what a user is shown; empty shows nothing
	Unrecovered Text         // what a user is shown in its place where facts show that nothing recovers by itself
	UserActions []UserAction // what a user interface does with it
	Layer       Layer
	Owners      Owners
	NextAction  Text
	// With are the hops that the reason is about: a walk that blames another one names the reason as a fault beside the
	// blame.
	With   []HopID
	Hides  []ReasonCode // reasons that are not shown beside this one: it causes them, or forbids their repair
	Detect time.Duration
	Repair time.Duration // 0: by itself, or on the next business day
	// NeverReenroll: a new enrollment repairs nothing, or hides what happened, while this reason holds.
	NeverReenroll bool
}

// UserAction is what a user interface does for as long as a reason holds, beside showing its text. Without an action,
// the interface keeps its default.
type UserAction string

// The closed list of user actions, as the drift model has them.
const (
	SuppressRetry   UserAction = "suppress_retry"    // retries by users would only meet the same refusal
	HideSelfService UserAction = "hide_self_service" // users can repair nothing here
	Page            UserAction = "page"              // security and operators are paged
	// allocation and app are shown as they were: neither has failed
	KeepAllocationVisible UserAction = "keep_allocation_visible"
	LinkEvidence          UserAction = "link_evidence" // operators get a link to the evidence
)

// UserActions lists every user action.
var UserActions = [...]UserAction{SuppressRetry, HideSelfService, Page, KeepAllocationVisible, LinkEvidence}

// Reasons returns every row, most pressing first. The rows are shared: they are read, never written.
func Reasons() []Reason { return slices.Clone(reasonRows[:]) }

// Shown is what a user is shown where facts refined the reason's state to s, as far as m bears it; "" shows nothing.
func (r Reason) Shown(s UserState, m Seen) string {
	if r.State == UserRecovery && s == UserOperator { // nothing reconnects by itself
		return r.Unrecovered.Say(m)
	}
	return r.UserText.Say(m)
}

// Runbook is where the reason is explained, as SignalRow.Runbook.
func (r *Reason) Runbook(base string) string {
	return runbook(base, "--kind reason "+string(r.Code), "reason-"+string(r.Code))
}

// LookupReason returns the row of code, and whether there is one.
func LookupReason(code ReasonCode) (Reason, bool) {
	for i := range reasonRows {
		if reasonRows[i].Code == code {
			return reasonRows[i], true
		}
	}
	return Reason{}, false
}

// Lack is why a walk decides nothing although no component is to blame: what it lacked to measure.
type Lack string

// LackRow is who supplies what a walk lacked, and how. The rows are in catalogue/lacks.yaml.
type LackRow struct {
	Lack     Lack
	Owners   Owners
	Recovery []Step
}

// LookupLack returns the row of l, and whether there is one.
func LookupLack(l Lack) (LackRow, bool) {
	for _, r := range lackRows {
		if r.Lack == l {
			return r, true
		}
	}
	return LackRow{}, false
}
