package agent

import (
	"cmp"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Longer than 300 lines: the identity's decisions are one state machine, and each refusal depends on
// the others.

// The agent requests another certificate on a listener's refusal only after this many failures, at least a
// heartbeat interval apart from first to last. A shorter series may be an ingress that is being reloaded.
const (
	rejectedTries  = 3 // refusals of the identity without a success between them
	untrustedTries = 3 // heartbeats in a row whose server could not be verified
)

// checkIdentity starts a self-check of the files on disk, unless one is in progress.
func (t *turn) checkIdentity() {
	l := &t.s.Identity
	if t.stopping() || t.s.Phase == PhaseExited || l.InFlight {
		return
	}
	l.InFlight, l.Armed = true, false
	t.do(CheckIdentity{})
}

// filesChanged starts a self-check at once if a file was replaced.
func (t *turn) filesChanged() {
	if t.s.Files != "" && t.ev.Files != "" && t.s.Files != t.ev.Files {
		t.checkIdentity()
	}
}

func (t *turn) clocks() Clocks {
	c := Clocks{Own: t.ev.Wall, Skew: t.s.Skew, Known: t.s.SkewKnown}
	if c.Known { // correct the skew for a clock that was set since the measurement
		c.Skew -= t.ev.Wall.Round(0).Sub(t.s.SkewWall) - (t.ev.At - t.s.SkewAt)
	}
	return c
}

// profile returns the active environment profile, "" if none was ever set.
func (t *turn) profile() string {
	return cmp.Or(t.s.Profile, t.s.Material.Profile)
}

func (t *turn) identityChecked(w IdentityChecked) {
	t.s.Identity.InFlight = false
	if t.stopping() {
		return
	}
	s, old := &t.s, t.s.Material
	s.Material, s.Files = w.Material, w.Material.Files
	if old.Token.Digest != s.Material.Token.Digest { // an operator's response to a denial
		for _, l := range [...]*Loop{&s.Identity, &s.Heartbeat, &s.Wait} {
			if l.Failing == diag.RecIdentityRevoked {
				l.Failing = ""
			}
		}
	}
	if old.Serial != s.Material.Serial || old.Bundle != s.Material.Bundle || s.Unusable || s.Phase == PhaseIdentity {
		s.Fresh, s.Rejections, s.Rejected = true, 0, Outcome{} // the refusal concerned the previous files
	}
	t.observe()
	t.decideIdentity()
}

// observe records harmless oddities, once each.
func (t *turn) observe() {
	m, said := t.s.Material, &t.s.Observed
	note := func(last *string, now string, d Decision) {
		if now != "" && now != *last {
			d.About, d.What, d.Detail = "identity", "report", now
			t.do(Record{d})
		}
		*last = now
	}
	note(&said.Drift, m.drifted(t.s.APIURL), Decision{Reason: diag.RecEndpointProfileDrift})
	note(&said.Issuer, m.IssuerProblem, Decision{Reason: diag.RecIdentityRejected, Failure: diag.FileMismatch})
}

// decideIdentity judges the findings of the last self-check and repairs what it may.
func (t *turn) decideIdentity() {
	s, l := &t.s, &t.s.Identity
	o, sure := s.Material.judge(s.NodeID, t.clocks())
	if !sure && !s.SkewAsked { // expired by this clock only
		s.SkewAsked, l.InFlight = true, true
		t.do(AskClock{})
		return
	}
	if o.Reason == diag.RecClockSkew || (o.Reason == diag.RecCertExpired && !sure && s.DatesDoubtful) {
		t.skewed(o)
		o = Outcome{}
	}
	if o.Reason == diag.RecCertExpired && s.Material.dated(t.ev.Wall) == "" && s.Heartbeat.Failing == "" &&
		s.Heartbeat.Backoff.Good {
		o.Detail += "; yet its heartbeats are accepted"
		t.skewed(o) // it is another listener's time, and not the platform's
		o = Outcome{}
	}
	damaged := s.Material.Problem
	if damaged.OK() && o.OK() && s.Material.Trust.Failure != diag.FileMissing { // removed trust is not restored
		damaged = s.Material.Trust
	}
	s.Unusable = !o.OK()
	switch {
	case !damaged.OK() && s.Material.Spare != "" && !s.FellBack:
		t.fallBack(damaged)
	case o.Reason == diag.RecCertNotYetValid:
		t.retry(l, TimerIdentity, o, "")
	case !o.OK():
		t.recover(o)
	case !s.Rejected.OK():
		t.recover(s.Rejected)
	default:
		s.FellBack, s.Damaged, s.Observed.Cause = false, "", ""
		t.recovered(l, TimerIdentity)
		if s.Fresh {
			s.Fresh = false
			t.resume()
		}
		t.renewal()
	}
}

// clockAsked continues the self-check with the platform's time, or without it if the request failed. If the
// server's certificate is outside its dates as well, the clock is the suspect.
func (t *turn) clockAsked(o Outcome) {
	t.s.Identity.InFlight = false
	if t.stopping() {
		return
	}
	t.s.DatesDoubtful = o.Failure == diag.TLSExpired || o.Failure == diag.TLSNotYetValid
	t.learnClock(o)
	t.decideIdentity()
}

// skewed records once that dates cannot be trusted.
func (t *turn) skewed(o Outcome) {
	if t.s.Skewed {
		return
	}
	t.s.Skewed = true
	o.Reason, o.Failure = diag.RecClockSkew, diag.ClockSkew
	if t.s.DatesDoubtful {
		o.Detail = "the platform's certificate and this node's own are both outside their dates by this clock: " + o.Detail
	}
	t.do(Record{decision(o, "identity", "report", nil)})
}

// fallBack activates an older generation if the damage is still there at the second self-check: an operator may be
// in the middle of replacing two files.
func (t *turn) fallBack(o Outcome) {
	l := &t.s.Identity
	if t.s.Damaged != t.s.Files {
		t.s.Damaged = t.s.Files
		t.retry(l, TimerIdentity, o, "")
		return
	}
	t.s.FellBack, l.InFlight = true, true
	o.Detail += "; generation " + t.s.Material.Spare + " takes its place"
	t.do(Record{decision(o, "identity", "fall_back", nil)})
	t.do(FallBack{})
}

func (t *turn) fellBack(o Outcome) {
	t.s.Identity.InFlight = false
	if t.stopping() {
		return
	}
	if !o.OK() { // if no generation can be activated, a new one could not be either: spend no token on it
		t.s.FellBack = false
		t.retry(&t.s.Identity, TimerIdentity, o, "")
		return
	}
	t.checkIdentity()
}

// resume starts what a usable credential allows, and lets a heartbeat in back-off retry at once.
func (t *turn) resume() {
	switch t.s.Phase {
	case PhaseIdentity:
		t.s.Phase = PhaseGate
		t.heartbeat()
	case PhaseGate, PhaseServing:
		if t.s.Heartbeat.Failing != "" || !t.s.Heartbeat.Armed {
			t.heartbeat()
		}
		t.wait()
	}
}

// rejected handles a loop's failure that concerns this node's identity or its trust, once the back-off is set. A
// request that began under the previous certificate does not count.
func (t *turn) rejected(o Outcome, began time.Duration) {
	s := &t.s
	if began < s.EnrolledAt {
		return
	}
	switch o.Reason {
	case diag.RecIdentityRejected, diag.RecCertExpired:
		s.Ledger.Counters.Rejections++
		if s.Rejections++; s.Rejections == 1 {
			s.RefusedAt = t.ev.At
		}
		fresh := s.Ledger.unconfirmed()
		if fresh {
			t.suppress(o)
		}
		lasting := s.Rejections >= rejectedTries && t.ev.At-s.RefusedAt >= s.Interval
		if (fresh || lasting) && s.Rejected.OK() {
			s.Rejected = o
		}
		if !s.Identity.Armed {
			t.checkIdentity()
		}
	case diag.RecIdentityRevoked:
		s.Ledger.Counters.Rejections++
		t.stopped(o)
	case diag.RecClonedIdentity:
		s.Ledger.Counters.Rejections++
		t.quarantine(o)
	case diag.RecServerTLSUntrusted:
		if o.Failure != diag.TLSExpired && o.Failure != diag.TLSNotYetValid && // a clock's fault, or the server's own
			s.Heartbeat.Failing == o.Reason && t.ev.At-s.Heartbeat.Since >= s.Interval &&
			s.Heartbeat.Backoff.Attempts[o.Reason] >= untrustedTries && s.Rejected.OK() {
			s.Rejected = o
			t.checkIdentity()
		}
	}
}

// accepted handles the platform's acceptance of this node's identity. Only heartbeats show it: they are short, and
// continue in every posture.
func (t *turn) accepted(began time.Duration) {
	s := &t.s
	if began < s.EnrolledAt {
		return
	}
	if !s.Rejected.OK() || s.Renew {
		s.Rejected, s.Renew = Outcome{}, false
		t.checkIdentity()
	}
	if s.denied() { // results waited for this
		s.Post.Armed, s.Post.Backoff = false, Backoff{}
		t.post()
	}
	s.Rejections, s.Observed.Denied = 0, ""
	changed := s.Ledger.Quarantined.Active() || s.Ledger.Suppressed.Active() || s.Ledger.unconfirmed()
	if s.Ledger.Quarantined.Active() {
		t.do(Record{Decision{Reason: diag.RecClonedIdentity, About: "identity", What: "release",
			Detail: "the platform accepts this node again"}})
	}
	if s.Ledger.unconfirmed() {
		s.Ledger = s.Ledger.finish(attemptConfirmed, "")
	}
	s.Ledger.Quarantined, s.Ledger.Suppressed = Hold{}, Hold{}
	if changed {
		t.save()
	}
}

// stopped ends all terminals, and records once that the node has stopped polling. It ends terminals each time,
// since one may have been starting the first time. No hold is needed: the rare heartbeat shows when the identity
// is restored.
func (t *turn) stopped(o Outcome) {
	t.do(EndSessions{wire.EndOfIdentity(o.Code)})
	if t.s.Observed.Denied == o.Code {
		return
	}
	t.s.Observed.Denied = o.Code
	t.do(Record{decision(o, "identity", "stop", nil)})
}

// quarantine ends all terminals and stops all new work; running tasks continue. A node must never decide by itself
// that it is the genuine one of two.
func (t *turn) quarantine(o Outcome) {
	t.do(EndSessions{wire.EndNodeCloned})
	if t.s.Ledger.Quarantined.Active() {
		return
	}
	t.s.Ledger.Quarantined = Hold{Since: t.ev.Wall, Why: o.Detail, Correlation: o.Correlation}
	t.do(Record{decision(o, "identity", "quarantine", nil)})
	t.save()
}

// suppress ends automatic recovery: a certificate that was just issued is rejected like the previous one.
func (t *turn) suppress(o Outcome) {
	s := &t.s
	if s.Ledger.suppresses(t.clocks().Platform(), s.Material.operator()) {
		return
	}
	s.Ledger.Suppressed = Hold{Since: t.clocks().Platform(), Why: string(o.Reason), Material: s.Material.operator(),
		Correlation: o.Correlation}
	o.Detail = "the certificate that was just issued is rejected, too (" + string(o.Reason) + "): " + o.Detail
	o.Reason = diag.RecRecoverySuppressed
	t.do(Record{decision(o, "identity", "suppress", nil)})
	t.save()
}

// renewal requests the next certificate in the last third of this one's lifetime if a token allows it; otherwise
// it logs once that the expiry is near.
func (t *turn) renewal() {
	s, m := &t.s, t.s.Material
	now := t.clocks().Platform()
	if now.After(m.NotAfter) { // the clock is in doubt: see decideIdentity
		now = t.ev.Wall
	}
	if wait := m.renewAt().Sub(now); wait > 0 {
		t.do(SetTimer{TimerRenew, min(wait, maxTimer)})
		return
	}
	t.do(SetTimer{TimerRenew, min(max(m.NotAfter.Sub(now), 0)+time.Second, maxTimer)})
	if s.Ledger.Quarantined.Active() || s.revoked() {
		return
	}
	o := Outcome{Reason: diag.RecCertExpiring, Detail: "the certificate ends at " + formatTime(m.NotAfter)}
	no := t.mayEnroll()
	if no.OK() && s.Ledger.used(m.Token.Digest) {
		no.Detail = "the token was used already"
	}
	if no.Detail == "" && s.Phase == PhaseServing && s.Heartbeat.Failing == "" {
		t.enroll(o, "renew")
		return
	}
	s.Renew = no.Detail == ""
	if s.Observed.Ending != m.Serial {
		s.Observed.Ending = m.Serial
		if no.Detail != "" {
			o.Detail += "; it is not renewed: " + no.Detail
		}
		t.do(Record{decision(o, "identity", "report", nil)})
	}
}

// maxTimer bounds timers, since a clock may be set while they run.
const maxTimer = time.Hour

// mayEnroll returns why an enrollment is not allowed now, no reason if it is.
func (t *turn) mayEnroll() Outcome {
	s, token := &t.s, t.s.Material.Token
	if o := token.refusal(t.clocks(), s.NodeID, t.profile(), s.Material.Never); !o.OK() {
		return o
	}
	if s.Ledger.isSpent(token.Digest) {
		return Outcome{Reason: diag.RecRecoveryEnrollmentBlocked,
			Detail: "the platform takes this token no more; expected a new one for node " + s.NodeID}
	}
	if s.Ledger.suppresses(t.clocks().Platform(), s.Material.operator()) {
		return Outcome{Reason: diag.RecRecoverySuppressed, Correlation: s.Ledger.Suppressed.Correlation,
			Detail: "a certificate that was just issued was rejected at " + formatTime(s.Ledger.Suppressed.Since) +
				"; expected an operator's change"}
	}
	if wait, why := s.Ledger.overspent(t.clocks().Platform(), token.Digest); wait > 0 {
		return Outcome{Reason: diag.RecRecoverySuppressed, RetryAfter: wait, Detail: why}
	}
	return Outcome{}
}

// recover enrolls again if that is allowed, and otherwise waits for an operator to change something.
func (t *turn) recover(cause Outcome) {
	s, l := &t.s, &t.s.Identity
	if s.Ledger.Quarantined.Active() || s.revoked() {
		// This node can no longer decide. The rare heartbeat shows whether the denial was lifted.
		l.Armed = true
		t.do(SetTimer{TimerIdentity, maxTimer})
		return
	}
	no := t.mayEnroll()
	if no.OK() && cause.Reason == diag.RecServerTLSUntrusted && !s.Material.Apart {
		no = Outcome{Reason: diag.RecRecoveryEnrollmentBlocked, Failure: cause.Failure,
			Detail: "the server cannot be verified, and no recovery trust path is configured beside the runtime's"}
	}
	if no.OK() {
		t.enroll(cause, "enroll")
		return
	}
	if s.Observed.Cause != string(cause.Reason) { // the cause once in its own words, then why it is not repaired
		s.Observed.Cause = string(cause.Reason)
		t.do(Record{decision(cause, "identity", "report", nil)})
	}
	if no.Reason == diag.RecRecoverySuppressed {
		s.Ledger.Counters.Suppressed++
	}
	if no.Failure == diag.OK {
		no.Failure = cause.Failure
	}
	no.Detail = string(cause.Reason) + ": " + no.Detail
	t.retry(l, TimerIdentity, no, "")
	t.do(SetTimer{TimerWatch, t.s.Interval}) // use a new token as soon as it is on the disk
}

// enroll makes one attempt. The runtime saves the ledger before the attempt begins.
func (t *turn) enroll(cause Outcome, what string) {
	s := &t.s
	s.Ledger = s.Ledger.begin(t.clocks().Platform(), cause.Reason, s.Material.Token.Digest)
	s.Identity.InFlight, s.Identity.Armed = true, false
	recovery := !s.Material.Never && !(s.Detour && s.Material.Apart && cause.Reason != diag.RecServerTLSUntrusted)
	t.do(Record{decision(cause, "identity", what, nil)})
	t.do(Enroll{Ledger: s.Ledger, Recovery: recovery, Profile: t.profile()})
}

func (t *turn) enrollDone(w EnrollDone) {
	s, l, o := &t.s, &t.s.Identity, w.Outcome
	l.InFlight = false
	t.learnClock(o)
	t.settle(w)
	t.save()
	t.do(t.metrics())
	if w.Room {
		t.do(Record{Decision{Reason: diag.RecDiskFull, About: "identity", What: "report", Failure: diag.DiskFull,
			Detail: "the disk is full; the enrollment was kept in the room of the reserve"}})
	}
	switch {
	case o.OK():
		t.do(Record{Decision{Reason: diag.RecRecoveryEnrolled, About: "identity", What: "enrolled", Detail: o.Detail,
			Correlation: o.Correlation}})
		s.Rejections, s.Rejected, s.Detour, s.EnrolledAt = 0, Outcome{}, false, t.ev.At
		t.checkIdentity()
	case t.stopping():
	default:
		switch o.Reason {
		case diag.RecClonedIdentity:
			t.quarantine(o)
		case diag.RecIdentityRevoked:
			t.stopped(o)
		}
		o.Slow = true
		t.retry(l, TimerIdentity, o, "")
		t.do(SetTimer{TimerWatch, s.Interval})
	}
}

// settle stores the outcome of an attempt in the ledger.
func (t *turn) settle(w EnrollDone) {
	s, o := &t.s, w.Outcome
	token := ""
	if n := len(s.Ledger.Attempts); n > 0 {
		token = s.Ledger.Attempts[n-1].Token
	}
	undecided := !o.Sent || o.Status >= 500 || o.Failure == diag.HTTPRateLimited
	result, code, count := attemptRefused, o.Code, &s.Ledger.Counters.Failures
	switch {
	case o.OK():
		result, code, count = attemptEnrolled, "", &s.Ledger.Counters.Successes
	case undecided:
		result, code = attemptUnreached, string(o.Failure)
		s.Detour = !s.Detour
		s.SkewAsked = s.SkewKnown // the next listener that is reached provides the time
	}
	*count++
	s.Ledger = s.Ledger.finish(result, code)
	switch o.Code {
	case wire.DenyTokenConsumed, wire.DenyTokenExpired, wire.DenyNotNodeBound, wire.DenyProfileMismatch:
		s.Ledger = s.Ledger.spend(token)
	}
}

// learnClock takes the platform's time from any response that carries it. If that changes the meaning of the
// dates, they are checked again.
func (t *turn) learnClock(o Outcome) {
	if o.Dated {
		t.s.Skew, t.s.SkewKnown, t.s.SkewAt, t.s.SkewWall = o.Skew, true, t.ev.At, t.ev.Wall.Round(0)
	}
}

// save keeps the ledger.
func (t *turn) save() {
	t.s.Kept = t.s.Ledger.Counters
	t.do(SaveLedger{Ledger: t.s.Ledger})
}

// saveCounts stores counters only. No decision depends on them, so they are not saved at each refusal.
func (t *turn) saveCounts() {
	if t.s.Kept != t.s.Ledger.Counters {
		t.s.Kept = t.s.Ledger.Counters
		t.do(SaveLedger{Ledger: t.s.Ledger, Counts: true})
	}
}

func (t *turn) metrics() WriteMetrics {
	return WriteMetrics{Posture: t.s.Posture(), Counters: t.s.counters()}
}

// takeCordon executes a task that changes only the agent's own state.
func (t *turn) takeCordon(task *wire.Task) {
	var p wire.CordonPayload
	if err := payload(task, &p); err != nil {
		t.queue(resultFor(task, failed(t.ev.Wall, task, CodeTaskInvalid, err.Error())))
		return
	}
	d := Decision{Reason: diag.RecNodeCordoned, About: "task", What: "release", Detail: p.Reason,
		Correlation: task.CorrelationID, TaskID: task.ID}
	t.s.Ledger.Cordoned = Hold{}
	if !p.Lift {
		t.s.Ledger.Cordoned = Hold{Since: t.ev.Wall, Why: p.Reason, Correlation: task.CorrelationID}
		d.What = "stop"
	}
	t.do(Record{d})
	t.save()
	t.queue(resultFor(task, wire.TaskResult{Status: wire.TaskCompleted, StartedAt: t.ev.Wall, FinishedAt: t.ev.Wall}))
}
