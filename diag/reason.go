package diag

import (
	"slices"
	"time"
)

// ReasonCode is an operator reason of the drift model: the cause behind a failing resource, never the text that a user
// sees.
type ReasonCode string

// Severity is the drift model's severity. P0: a security boundary, or a control-plane failure that tenants notice; P1:
// active impact with a known repair; P2: stale observation or routine recovery. Only ReasonNone has the empty severity.
type Severity string

const (
	P0 Severity = "P0"
	P1 Severity = "P1"
	P2 Severity = "P2"
)

// Reason is what an operator reason means for operators and users. The rows are in catalogue/reasons.yaml.
type Reason struct {
	Code     ReasonCode
	Title    Text
	Severity Severity
	// before the facts refine it; cert_expired without a current token is operator_action_required
	State       UserState
	UserText    Text         // what a user is shown; empty shows nothing
	Unrecovered Text         // shown instead of UserText if facts show that nothing recovers by itself
	UserActions []UserAction // what a user interface does with it
	Layer       Layer
	Owners      Owners
	NextAction  Text
	// With are the hops that the reason is about. If a walk blames another hop, the reason is reported as a separate
	// fault.
	With   []HopID
	Hides  []ReasonCode // reasons that are not shown together with this one: it causes them, or forbids their repair
	Detect time.Duration
	Repair time.Duration // 0: it repairs itself, or on the next business day
	// NeverReenroll: while this reason holds, a new enrollment repairs nothing or hides what happened.
	NeverReenroll bool
}

// UserAction is what a user interface does while a reason holds, besides showing its text. Without an action, the
// interface keeps its default.
type UserAction string

// The closed list of user actions, from the drift model.
const (
	SuppressRetry   UserAction = "suppress_retry"    // a user's retry would get the same refusal
	HideSelfService UserAction = "hide_self_service" // users can repair nothing here
	Page            UserAction = "page"              // security and operators are paged
	// keep showing allocation and app as before: neither has failed
	KeepAllocationVisible UserAction = "keep_allocation_visible"
	LinkEvidence          UserAction = "link_evidence" // operators get a link to the evidence
)

// UserActions lists every user action.
var UserActions = [...]UserAction{SuppressRetry, HideSelfService, Page, KeepAllocationVisible, LinkEvidence}

// Reasons returns every row, most pressing first. Callers must not modify the rows, which are shared.
func Reasons() []Reason { return slices.Clone(reasonRows[:]) }

// Runbook returns where the reason is explained, in the same way as SignalRow.Runbook.
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

// Lack is why a walk decided nothing although no component is to blame: what it could not measure.
type Lack string

// LackRow is who can supply what a walk lacked, and how. The rows are in catalogue/lacks.yaml.
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
