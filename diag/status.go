// Package diag is the ground floor: the closed vocabularies (statuses, failure words, hops, signals, reasons)
// and the values made of them (requests, facts, findings, reports).
//
// It is not a place for I/O: nothing here opens a socket, reads a clock or reads the environment, and it
// imports only the standard library. Every other package uses these types.
//
// More than 25 files: the sections of a fact are apart, by what is measured.
package diag

import (
	"cmp"
	"fmt"
	"time"
)

// Status is a hop's result. Only StatusPass is green; every other word is printed and counted.
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
	return cmp.Or(map[Status]string{
		StatusPass:         "✔",
		StatusWarn:         "!",
		StatusFail:         "✘",
		StatusInconclusive: "?",
		StatusSkipped:      "–",
		StatusNotReached:   "·",
	}[s], " ")
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

// Confidence reports how a blame is supported. Proof and observation are recomputed on replay, never trusted.
type Confidence string

const (
	// a failing and a passing probe differ in one input, each asked again and always alike
	Proven   Confidence = "proven"
	Observed Confidence = "observed" // a fact holds the cause itself: a masked unit, another host key, a past date
	Likely   Confidence = "likely"   // the failure word fits the cause, and a measurement of the cause is missing
	Possible Confidence = "possible" // silence or an unknown failure
)

// Confidences is the closed list, the strongest first.
var Confidences = [...]Confidence{Proven, Observed, Likely, Possible}

// This file owns the voice: how words of the vocabularies read in a sentence. Names for machines stay as they are.

// Words is the status for people.
func (s Status) Words() string {
	if s == StatusNotReached {
		return "not reached"
	}
	return string(s)
}

// Words is the state as users' support reads it.
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

// Words is how an end of a walk reads, "" for the ordinary one.
func (e EndedBy) Words() string {
	switch e {
	case EndedDeadline:
		return "the walk's deadline ended it: this report is partial"
	case EndedInterrupted:
		return "interrupted: this report is partial"
	case EndedError:
		return "ended by an error of the tool: this report is partial"
	}
	return ""
}

// Words is a duration in at most six columns: "3 ms", "820 ms", "1.2 s", "12 s", "2m05s".
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
