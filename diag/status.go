// Package diag is the ground floor: the closed vocabularies (statuses, failure words, hops, signals, reasons)
// and the values made of them (requests, facts, findings, reports).
//
// It is not a place for I/O: nothing here opens a socket, reads a clock or looks at the environment, and it
// imports only the standard library. Every other package speaks in these types.
package diag

// Status is what is said of a hop. Only StatusPass is green; every other word is printed and counted.
type Status string

const (
	StatusPass         Status = "pass"
	StatusWarn         Status = "warn"
	StatusFail         Status = "fail"
	StatusInconclusive Status = "inconclusive" // tried, and the facts do not decide
	StatusSkipped      Status = "skipped"      // asked not to, or nothing to look at; the reason is in Finding.Because
	StatusNotReached   Status = "not_reached"  // what it needs did not pass
)

// Statuses is the closed list, in the order in which people read it.
var Statuses = [...]Status{StatusPass, StatusWarn, StatusFail, StatusInconclusive, StatusSkipped, StatusNotReached}

// Symbol is the status as one printable column, so that colour never carries meaning alone.
func (s Status) Symbol() string {
	switch s {
	case StatusPass:
		return "✔"
	case StatusWarn:
		return "!"
	case StatusFail:
		return "✘"
	case StatusInconclusive:
		return "?"
	case StatusSkipped:
		return "–"
	case StatusNotReached:
		return "·"
	}
	return " "
}

// Layer separates the three questions of the drift model: can the platform manage the node, is the workload
// alive, can the user reach it.
type Layer string

const (
	LayerManagement Layer = "management"
	LayerRuntime    Layer = "runtime"
	LayerEdge       Layer = "edge"
)

// UserState is the small state family that a user sees in place of operator reasons.
type UserState string

const (
	UserNormal    UserState = "normal"
	UserTemporary UserState = "temporary"
	UserRecovery  UserState = "recovering"
	UserOperator  UserState = "operator_action_required"
	UserSecurity  UserState = "security_action_required"
	UserUnknown   UserState = "unknown" // too little is known of the node to call it anything: that is not normal
)

// Confidence says how a blame is supported. Proven is recomputed on replay, never trusted.
type Confidence string

const (
	Proven   Confidence = "proven"   // a failing and a passing probe differ in one input
	Likely   Confidence = "likely"   // the failure word itself names the cause
	Possible Confidence = "possible" // silence or an unknown failure
)
