// Package diag has the vocabulary that every other package uses: the closed lists (statuses, failures, hops, signals,
// reasons) and the values made of them (requests, facts, findings, reports).
//
// It does no I/O: nothing here opens a socket, reads a clock or reads the environment. It imports only the standard
// library.
//
// More than 25 files: the sections of a fact are apart, by what is measured.
package diag

import (
	"cmp"
	"fmt"
	"time"
)

// Status is a hop's result. Only StatusPass is green; all others are printed and counted.
type Status string

const (
	StatusPass         Status = "pass"
	StatusWarn         Status = "warn"
	StatusFail         Status = "fail"
	StatusInconclusive Status = "inconclusive" // it ran, but the facts do not decide
	// excluded by the caller, or not applicable; the reason is in Finding.Because
	StatusSkipped    Status = "skipped"
	StatusNotReached Status = "not_reached" // a hop that it needs did not pass
)

// Statuses is the closed list, in display order.
var Statuses = [...]Status{StatusPass, StatusWarn, StatusFail, StatusInconclusive, StatusSkipped, StatusNotReached}

// Symbol is the status as one printable character, so that colour never carries meaning alone.
func (s Status) Symbol() string {
	return cmp.Or(map[Status]string{
		StatusPass:         "✔",
		StatusWarn:         "!",
		StatusFail:         "✘",
		StatusInconclusive: "?",
		StatusSkipped:      "–",
		StatusNotReached:   "·",
	}[s], " ")
}

// Layer separates the drift model's three questions: can the platform manage the node, is the workload alive, can the
// user reach it.
type Layer string

const (
	LayerManagement Layer = "management"
	LayerRuntime    Layer = "runtime"
	LayerEdge       Layer = "edge"
)

// UserState is the state that a user sees instead of the operator reason.
type UserState string

const (
	UserNormal    UserState = "normal"
	UserTemporary UserState = "temporary"
	UserRecovery  UserState = "recovering"
	UserOperator  UserState = "operator_action_required"
	UserSecurity  UserState = "security_action_required"
	UserUnknown   UserState = "unknown" // too little is known about the node, so it is not called normal
)

// Confidence is how well a blame is supported. A replay recomputes proof and observation and never trusts the recorded
// ones.
type Confidence string

const (
	// a failing and a passing probe differ in one input, and each was repeated with the same result
	Proven Confidence = "proven"
	// a fact holds the cause itself: a masked unit, a changed host key, an expired certificate
	Observed Confidence = "observed"
	Likely   Confidence = "likely"   // the failure fits the cause, which was not measured itself
	Possible Confidence = "possible" // silence or an unknown failure
)

// Confidences is the closed list, strongest first.
var Confidences = [...]Confidence{Proven, Observed, Likely, Possible}

// The Words methods: how values of the vocabularies read in a sentence. Names in machine-readable output do not change.

// Words is the status for people.
func (s Status) Words() string {
	if s == StatusNotReached {
		return "not reached"
	}
	return string(s)
}

// Words is the state for users and their support.
func (u UserState) Words() string {
	return cmp.Or(map[UserState]string{
		UserNormal:    "normal",
		UserTemporary: "temporary trouble",
		UserRecovery:  "recovering by itself",
		UserOperator:  "operator has to act",
		UserSecurity:  "security has to act",
		UserUnknown:   "unknown, for too little of it was measured",
	}[u], string(u))
}

// Words is how a walk ended, "" for a completed one.
func (e EndedBy) Words() string {
	return map[EndedBy]string{
		EndedDeadline:    "the walk's deadline ended it: this report is partial",
		EndedInterrupted: "interrupted: this report is partial",
		EndedError:       "ended by an error of the tool: this report is partial",
	}[e]
}

// Insecure is the note of every page about a walk whose profile has insecure_http: true; "" for another.
func (p *Plan) Insecure() string {
	if !p.InsecureHTTP {
		return ""
	}
	return "insecure_http: true in the profile: over http:// the token and the cookie can be read on the way"
}

// Words formats a duration in at most six columns: "3 ms", "820 ms", "1.2 s", "12 s", "2m05s".
func (m Millis) Words() string {
	d := time.Duration(m) * time.Millisecond
	switch {
	case m < 1000:
		return fmt.Sprintf("%d ms", m)
	case m < 9950:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
