package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The enrollment budget. Three attempts per hour allow one for the fault and two for an operator's mistakes while
// repairing it; six per day leave some for every shift. The budget belongs to the token: a new token comes from an
// operator and starts again. The limit per day for all tokens bounds a loop that keeps rewriting tokens.
const (
	perHour = 3
	perDay  = 6
	allDay  = 12
)

// suppressFor is how long the node requests no further certificate after a fresh one was rejected, unless an
// operator changes something. The control plane is broken in that case, and would reject the next one as well.
const suppressFor = 12 * time.Hour

const (
	maxAttempts = 24
	maxSpent    = 8
)

// Results of an attempt. Pending is written before the attempt is made, so that it counts after a crash.
const (
	attemptPending   = "pending"
	attemptUnreached = "unreached" // no server that could decide was reached: it does not count
	attemptRefused   = "refused"
	attemptEnrolled  = "enrolled"
	attemptConfirmed = "confirmed" // the platform has accepted the new certificate since
)

// Ledger is the state of the recovery that survives restarts. It is saved before the agent acts on it.
type Ledger struct {
	Version  int       `json:"version"`
	Written  uint64    `json:"written,omitempty"`  // number of saves, to find the newer of two copies
	Attempts []Attempt `json:"attempts,omitempty"` // oldest first
	Spent    []string  `json:"spent,omitempty"`    // digests of tokens that the platform will not accept again

	Suppressed  Hold `json:"suppressed,omitzero"`
	Quarantined Hold `json:"quarantined,omitzero"`
	Cordoned    Hold `json:"cordoned,omitzero"`

	Applied  string           `json:"applied,omitempty"` // digest of the last note that was taken from another program
	Counters RecoveryCounters `json:"counters"`
	Notes    []Decision       `json:"notes,omitempty"` // from other programs, to be recorded at the next start
}

// Attempt is one enrollment.
type Attempt struct {
	At     time.Time         `json:"at"`
	Cause  diag.RecordReason `json:"cause"`
	Token  string            `json:"token"` // digest
	Result string            `json:"result"`
	Code   string            `json:"code,omitempty"`
}

// Hold suspends an action of the agent until it is lifted.
type Hold struct {
	Since       time.Time `json:"since"`
	Why         string    `json:"why"`
	Material    string    `json:"material,omitempty"` // fingerprint of the node's material at that time
	Correlation string    `json:"correlation_id,omitempty"`
}

// Active reports whether the hold is in place.
func (h Hold) Active() bool { return !h.Since.IsZero() }

// RecoveryCounters count over the lifetime of the node's state folder.
type RecoveryCounters struct {
	Rejections int64 `json:"identity_rejections"`
	Attempts   int64 `json:"enrollment_attempts"`
	Successes  int64 `json:"enrollment_successes"`
	Failures   int64 `json:"enrollment_failures"`
	Suppressed int64 `json:"enrollment_suppressed"`
}

// begin adds an attempt that is about to be made.
func (l Ledger) begin(now time.Time, cause diag.RecordReason, token string) Ledger {
	l.Version = 1
	l.Attempts = with(l.Attempts, Attempt{At: now, Cause: cause, Token: token, Result: attemptPending})
	l.Attempts = l.Attempts[max(0, len(l.Attempts)-maxAttempts):]
	l.Counters.Attempts++
	return l
}

// finish records the outcome of the last attempt.
func (l Ledger) finish(result, code string) Ledger {
	if n := len(l.Attempts); n > 0 {
		l.Attempts = slices.Clone(l.Attempts)
		l.Attempts[n-1].Result, l.Attempts[n-1].Code = result, code
	}
	return l
}

// spend notes that a token will not be accepted again.
func (l Ledger) spend(token string) Ledger {
	if token == "" || l.isSpent(token) {
		return l
	}
	l.Spent = with(l.Spent, token)
	l.Spent = l.Spent[max(0, len(l.Spent)-maxSpent):]
	return l
}

func (l *Ledger) isSpent(token string) bool { return slices.Contains(l.Spent, token) }

// used reports whether a certificate was already issued for a token.
func (l *Ledger) used(token string) bool {
	return l.isSpent(token) || slices.ContainsFunc(l.Attempts, func(a Attempt) bool {
		return a.Token == token && (a.Result == attemptEnrolled || a.Result == attemptConfirmed)
	})
}

// unconfirmed reports whether the platform has not accepted the newest certificate yet.
func (l *Ledger) unconfirmed() bool {
	n := len(l.Attempts)
	return n > 0 && l.Attempts[n-1].Result == attemptEnrolled
}

// normal adjusts the ledger to this clock: an attempt in the future was made while the clock was wrong, and counts
// as made now.
func (l Ledger) normal(now time.Time) Ledger {
	l.Attempts = slices.Clone(l.Attempts)
	for i := range l.Attempts {
		if l.Attempts[i].At.After(now) {
			l.Attempts[i].At = now
		}
	}
	if l.Suppressed.Since.After(now) {
		l.Suppressed.Since = now
	}
	return l
}

// overspent returns how long the budget forbids another attempt with a token, and why; 0 if it allows one.
func (l *Ledger) overspent(now time.Time, token string) (time.Duration, string) {
	for _, rule := range [...]struct {
		limit  int
		window time.Duration
		all    bool
	}{{perHour, time.Hour, false}, {perDay, 24 * time.Hour, false}, {allDay, 24 * time.Hour, true}} {
		var counted []time.Time
		for _, a := range l.Attempts {
			if a.Result != attemptUnreached && (rule.all || a.Token == token) && now.Sub(a.At) < rule.window {
				counted = append(counted, a.At)
			}
		}
		if n := len(counted); n >= rule.limit {
			return counted[n-rule.limit].Add(rule.window).Sub(now), fmt.Sprintf("%d attempts in %v are enough", n, rule.window)
		}
	}
	return 0, ""
}

// suppresses reports whether a suppression applies to the node's current material.
func (l *Ledger) suppresses(now time.Time, material string) bool {
	return l.Suppressed.Active() && l.Suppressed.Material == material && now.Sub(l.Suppressed.Since) < suppressFor
}
