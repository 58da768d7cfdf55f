package agent

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestStepClock: whose clock decides about the certificate's dates.
func TestStepClock(t *testing.T) {
	ended := material(func(m *Material) {
		m.NotBefore, m.NotAfter = testWall.Add(-25*time.Hour), testWall.Add(-time.Hour)
	})
	asked := func(s *State) { s.SkewAsked = true }
	doubted := func(s *State) { s.Material, s.DatesDoubtful = ended.Material, true }
	knows := func(skew time.Duration) func(*State) {
		return func(s *State) { s.Skew, s.SkewKnown, s.SkewWall = skew, true, testWall }
	}
	failing := func(s *State) { s.Heartbeat.Failing = diag.RecAPIUnreachable }
	const known = "; Skew=-2h0m0s; SkewWall=0s; SkewKnown=true"
	const missing = "record(recovery_token_missing identity retry attempt 1 in 500ms of 5s mtls_cert_expired: " +
		"cert_expired: no token; expected one for node node-1); timer(identity 500ms); timer(watch 10s)"
	const retried = "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=recovery_token_missing; " +
		"Identity.Backoff=failing recovery_token_missing:1; "
	const expired = "the certificate ended at 2030-01-02 02:04:05Z; the time is 2030-01-02 03:04:05Z"
	const reported = "record(cert_expired identity report mtls_cert_expired: " + expired + "); "
	const ends = "record(cert_expiring identity report: the certificate ends at 2030-01-02 02:04:05Z; it is not " +
		"renewed: " +
		"no token; expected one for node node-1)"
	holds(t, map[string]rule{
		"by this clock alone": {from: checking(failing), what: ended, want: "AskClock",
			changes: "Material=another; SkewAsked=true"},
		"by this clock, and nobody else says": {from: checking(failing, asked), what: ended, want: reported + missing,
			changes: retried + "Material=another; Unusable=true; Observed.Cause=cert_expired"},
		"by both clocks": {from: checking(failing, knows(0)), what: ended, want: reported + missing,
			changes: retried + "Material=another; Unusable=true; Observed.Cause=cert_expired"},
		"by this clock, and heartbeats are accepted": {from: checking(asked), what: ended, want: reported + missing,
			changes: retried + "Material=another; Unusable=true; Observed.Cause=cert_expired"},
		"by the platform's clock, and its heartbeats are accepted": {from: checking(knows(48 * time.Hour)), what: healthy,
			want: "record(clock_skew identity report clock_skew: the certificate ended at 2030-01-03 03:04:05Z; the time is " +
				"2030-01-04 03:04:05Z; yet its heartbeats are accepted); timer(renew 1h0m0s)",
			changes: "Identity.InFlight=false; Skewed=true"},
		"by the platform's clock, and its heartbeats are accepted, known": {
			from: checking(knows(48*time.Hour), func(s *State) { s.Skewed = true }), what: healthy,
			want: "timer(renew 1h0m0s)", changes: "Identity.InFlight=false"},
		"by the platform's clock, and a heartbeat failed": {from: checking(knows(48*time.Hour), failing), what: healthy,
			want: "record(cert_expired identity report mtls_cert_expired: the certificate ended at 2030-01-03 03:04:05Z; the " +
				"time is 2030-01-04 03:04:05Z); " + missing,
			changes: retried + "Unusable=true; Observed.Cause=cert_expired"},
		"by the platform's clock, and no heartbeat was good": {
			from: checking(knows(48*time.Hour), func(s *State) { s.Heartbeat.Backoff.Good = false }), what: healthy,
			want: "record(cert_expired identity report mtls_cert_expired: the certificate ended at 2030-01-03 03:04:05Z; the " +
				"time is 2030-01-04 03:04:05Z); " + missing,
			changes: retried + "Unusable=true; Observed.Cause=cert_expired"},
		"the platform's clock disagrees": {
			from: checking(failing, asked, func(s *State) { s.Material = ended.Material }),
			what: ClockAsked{Outcome{Dated: true, Skew: -2 * time.Hour}},
			want: "record(clock_skew identity report clock_skew: the certificate is good from 2030-01-01 02:04:05Z to " +
				"2030-01-02 02:04:05Z; this clock says 2030-01-02 03:04:05Z, the platform's 2030-01-02 01:04:05Z); " +
				"timer(renew 1h0m0s); " + ends,
			changes: "Identity.InFlight=false; Observed.Ending=1" + known + "; Skewed=true"},
		"the platform's own certificate has ended, too": {
			from: checking(failing, asked, func(s *State) { s.Material = ended.Material }),
			what: ClockAsked{Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSExpired}},
			want: "record(clock_skew identity report clock_skew: the platform's certificate and this node's own are both " +
				"outside their dates by this clock: " + expired + "); timer(renew 1s); " + ends,
			changes: "Identity.InFlight=false; Observed.Ending=1; DatesDoubtful=true; Skewed=true"},
		"the platform's own certificate has not begun": {
			from: checking(failing, asked, func(s *State) { s.Material = ended.Material }),
			what: ClockAsked{Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSNotYetValid}},
			want: "record(clock_skew identity report clock_skew: the platform's certificate and this node's own are both " +
				"outside their dates by this clock: " + expired + "); timer(renew 1s); " + ends,
			changes: "Identity.InFlight=false; Observed.Ending=1; DatesDoubtful=true; Skewed=true"},
		"the platform's own certificate is not in doubt any more": {from: checking(failing, asked, doubted),
			what: ClockAsked{Outcome{Dated: true}}, want: reported + missing,
			changes: retried + "Unusable=true; Observed.Cause=cert_expired; SkewWall=0s; SkewKnown=true; DatesDoubtful=false"},
		"doubted dates, and a clock that is known": {from: checking(failing, asked, doubted, knows(0)), what: ended,
			want: reported + missing, changes: retried + "Unusable=true; Observed.Cause=cert_expired"},
		"asked while stopping": {from: checking(failing, func(s *State) { s.Phase, s.Running = PhaseStopping, busy(1) }),
			what:    ClockAsked{Outcome{Dated: true, Skew: time.Hour}},
			changes: "Identity.InFlight=false"},
		"it begins later by this clock": {from: checking(), what: material(func(m *Material) {
			m.NotBefore, m.NotAfter = testWall.Add(time.Second), testWall.Add(30*time.Hour)
		}),
			want: "record(clock_skew identity report clock_skew: the certificate begins at 2030-01-02 03:04:06Z and was " +
				"issued " +
				"already; this clock says 2030-01-02 03:04:05Z); timer(renew 1h0m0s)",
			changes: "Identity.InFlight=false; Material=another; Skewed=true"},
	})
}

// TestClocksFollowASetting: the platform's time stays what it was when this node's clock is set afterwards.
func TestClocksFollowASetting(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{0: time.Hour, 20 * time.Minute: 40 * time.Minute,
		-time.Hour: 2 * time.Hour} {
		s := servingExactly()
		s.Skew, s.SkewKnown, s.SkewAt, s.SkewWall = time.Hour, true, time.Minute, testWall.Add(time.Minute)
		turn := turn{s: s, ev: Event{At: 3 * time.Minute, Wall: testWall.Add(3*time.Minute + set)}}
		if c := turn.clocks(); c.Skew != want || !c.Known || !c.Own.Equal(turn.ev.Wall) {
			t.Errorf("set by %v: %+v, want a skew of %v", set, c, want)
		}
		turn.s.SkewKnown, turn.s.Skew = false, 0
		if c := turn.clocks(); c.Skew != 0 || c.Known {
			t.Errorf("unknown: %+v", c)
		}
	}
}

// TestStepRenewal: when the next certificate is requested. Of 24 hours, the last eight.
func TestStepRenewal(t *testing.T) {
	left := func(d time.Duration, token TokenFacts) IdentityChecked {
		return material(func(m *Material) {
			m.NotBefore, m.NotAfter, m.Token = testWall.Add(d-24*time.Hour), testWall.Add(d), token
		})
	}
	good := claims("c", nil)
	const eight = 8 * time.Hour
	const renews = "record(cert_expiring identity renew: the certificate ends at 2030-01-02 11:04:05Z); enroll(recovery)"
	const attempt = "; Ledger.Version=1; Ledger.Attempts=pending; Ledger.Counters.Attempts=1"
	const checked = "Identity.InFlight=false; Material=another"
	cannot := func(why string) string {
		return "timer(renew 1h0m0s); record(cert_expiring identity report: the certificate ends at 2030-01-02 11:04:05Z; " +
			"it is not renewed: " + why + ")"
	}
	known := func(s *State) { s.Observed.Ending = "1" }
	holds(t, map[string]rule{
		"an hour before its time": {from: checking(), what: left(eight+time.Hour, good), want: "timer(renew 1h0m0s)",
			changes: checked},
		"a day before its time": {from: checking(), what: left(eight+15*time.Hour, good), want: "timer(renew 1h0m0s)",
			changes: checked},
		"a second before its time": {from: checking(), what: left(eight+time.Second, good), want: "timer(renew 1s)",
			changes: checked},
		"a moment before its time": {from: checking(), what: left(eight+1, good), want: "timer(renew 1ns)",
			changes: checked},
		"in time": {from: checking(), what: left(eight, good), want: "timer(renew 1h0m0s); " + renews,
			changes: "Material=another" + attempt},
		"shortly before the end": {from: checking(), what: left(time.Minute, TokenFacts{}),
			want: "timer(renew 1m1s); record(cert_expiring identity report: the certificate ends at 2030-01-02 03:05:05Z; it " +
				"is not renewed: no token; expected one for node node-1)",
			changes: checked + "; Observed.Ending=1"},
		"no token": {from: checking(), what: left(eight, TokenFacts{}), want: cannot("no token; expected one for node " +
			"node-1"),
			changes: checked + "; Observed.Ending=1"},
		"no token, as is known": {from: checking(known), what: left(eight, TokenFacts{}), want: "timer(renew 1h0m0s)",
			changes: checked},
		"no token, a renewal waits": {from: checking(known, func(s *State) { s.Renew = true }), what: left(eight,
			TokenFacts{}),
			want: "timer(renew 1h0m0s)", changes: checked + "; Renew=false"},
		"quarantined": {from: checking(quarantined), what: left(eight, good), want: "timer(renew 1h0m0s)", changes: checked},
		"revoked, the same token": {from: checking(func(s *State) {
			s.Material.Token, s.Wait.Failing = good, diag.RecIdentityRevoked
		}), what: left(eight, good), want: "timer(renew 1h0m0s)", changes: checked},
		"a token that was used": {from: checking(ledger(func(l Ledger) Ledger {
			return l.begin(testWall, diag.RecCertMissing, "c").finish(attemptConfirmed, "")
		})), what: left(eight, good), want: cannot("the token was used already"), changes: checked + "; Observed.Ending=1"},
		"a token that is spent": {from: checking(ledger(func(l Ledger) Ledger { return l.spend("c") })),
			what:    left(eight, good),
			want:    cannot("the platform takes this token no more; expected a new one for node node-1"),
			changes: checked + "; Observed.Ending=1"},
		"a suppression": {from: checking(func(s *State) {
			s.Material.Token = good
			suppressed(s)
		}), what: left(eight, good),
			want: cannot("a certificate that was just issued was rejected at 2030-01-02 03:04:05Z; expected an operator's " +
				"change"),
			changes: checked + "; Observed.Ending=1"},
		"a budget that is spent": {from: checking(ledger(func(l Ledger) Ledger {
			for range perHour {
				l = l.begin(testWall, diag.RecCertMissing, "c").finish(attemptRefused, "")
			}
			return l
		})), what: left(eight, good), want: cannot("3 attempts in 1h0m0s are enough"), changes: checked +
			"; Observed.Ending=1"},
		"before the first answer": {from: checking(func(s *State) { s.Phase = PhaseGate }), what: left(eight, good),
			want:    "timer(renew 1h0m0s); record(cert_expiring identity report: the certificate ends at 2030-01-02 11:04:05Z)",
			changes: checked + "; Observed.Ending=1; Renew=true"},
		"while heartbeats fail": {from: checking(func(s *State) { s.Heartbeat.Failing = diag.RecAPIUnreachable }),
			what:    left(eight, good),
			want:    "timer(renew 1h0m0s); record(cert_expiring identity report: the certificate ends at 2030-01-02 11:04:05Z)",
			changes: checked + "; Observed.Ending=1; Renew=true"},
	})
}

// TestStepRecovery: a credential that cannot be used is replaced if that is allowed; otherwise the cause is recorded
// once, and why nothing is done about it.
func TestStepRecovery(t *testing.T) {
	lost := func(token TokenFacts, more ...func(*Material)) IdentityChecked {
		return material(func(m *Material) {
			m.Problem, m.Token = Outcome{Reason: diag.RecCertMissing, Failure: diag.FileMissing}, token
			for _, f := range more {
				f(m)
			}
		})
	}
	good := claims("c", nil)
	never := func(m *Material) { m.Never = true }
	apart := func(m *Material) { m.Apart = true }
	const attempt = "Material=another; Unusable=true; Ledger.Version=1; Ledger.Attempts=pending; " +
		"Ledger.Counters.Attempts=1"
	const enrolls = "record(cert_missing identity enroll file_missing); "
	const reports = "record(cert_missing identity report file_missing); "
	const retried = "Identity.InFlight=false; Identity.Armed=true; "
	const noToken = "record(recovery_token_missing identity retry attempt 1 in 500ms of 5s file_missing: cert_missing: " +
		"no " +
		"token; expected one for node node-1); timer(identity 500ms); timer(watch 10s)"
	untrusted := func(s *State) {
		s.Rejected = Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSUnknownCA}
	}
	used := func(n int, at time.Duration) func(*State) {
		return ledger(func(l Ledger) Ledger {
			for range n {
				l = l.begin(testWall.Add(at), diag.RecCertMissing, "c").finish(attemptRefused, "")
			}
			return l
		})
	}
	withToken := func(s *State) { s.Material.Token = good }
	holds(t, map[string]rule{
		"by the recovery path": {from: checking(), what: lost(good), want: enrolls + "enroll(recovery)", changes: attempt},
		"the first one, by the runtime's path": {from: checking(), what: lost(TokenFacts{Digest: "o"}, never),
			want: enrolls + "enroll(runtime)", changes: attempt},
		"the back-off's timer is off": {from: checking(func(s *State) { s.Identity.Armed = true }), what: lost(good),
			want: enrolls + "enroll(recovery)", changes: "Identity.Armed=false; " + attempt},
		"a detour": {from: checking(func(s *State) { s.Detour = true }), what: lost(good, apart),
			want: enrolls + "enroll(runtime)", changes: attempt},
		"no other path for a detour": {from: checking(func(s *State) { s.Detour = true }), what: lost(good),
			want: enrolls + "enroll(recovery)", changes: attempt},
		"no detour over a server that is not trusted": {from: checking(untrusted, func(s *State) { s.Detour = true }),
			what:    material(func(m *Material) { m.Token, m.Apart = good, true }),
			want:    "record(server_tls_untrusted identity enroll tls_unknown_ca); enroll(recovery)",
			changes: "Material=another; Ledger.Version=1; Ledger.Attempts=pending; Ledger.Counters.Attempts=1"},
		"a server that is not trusted, and no other path": {from: checking(untrusted),
			what: material(func(m *Material) { m.Token = good }),
			want: "record(server_tls_untrusted identity report tls_unknown_ca); record(recovery_enrollment_blocked identity " +
				"retry attempt 1 in 500ms of 5s tls_unknown_ca: server_tls_untrusted: the server cannot be verified, and no " +
				"recovery trust path is configured beside the runtime's); timer(identity 500ms); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_enrollment_blocked; " +
				"Identity.Backoff=failing recovery_enrollment_blocked:1; Material=another; Observed.Cause=server_tls_untrusted"},
		"no token": {from: checking(), what: lost(TokenFacts{}), want: reports + noToken,
			changes: retried + "Identity.Failing=recovery_token_missing; Identity.Backoff=failing recovery_token_missing:1; " +
				"Material=another; Unusable=true; Observed.Cause=cert_missing"},
		"a server that is not trusted, and no token": {from: checking(untrusted), what: healthy,
			want: "record(server_tls_untrusted identity report tls_unknown_ca); record(recovery_token_missing identity retry " +
				"attempt 1 in 500ms of 5s tls_unknown_ca: server_tls_untrusted: no token; expected one for node node-1); " +
				"timer(identity 500ms); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_token_missing; " +
				"Identity.Backoff=failing recovery_token_missing:1; Observed.Cause=server_tls_untrusted"},
		"another path, and no detour": {from: checking(), what: lost(good, apart), want: enrolls + "enroll(recovery)",
			changes: attempt},
		"no token, as is known": {from: checking(func(s *State) { s.Observed.Cause = "cert_missing" }),
			what: lost(TokenFacts{}),
			want: noToken, changes: retried + "Identity.Failing=recovery_token_missing; " +
				"Identity.Backoff=failing recovery_token_missing:1; Material=another; Unusable=true"},
		"another cause": {from: checking(func(s *State) { s.Observed.Cause = "cert_expired" }), what: lost(TokenFacts{}),
			want: reports + noToken, changes: retried + "Identity.Failing=recovery_token_missing; " +
				"Identity.Backoff=failing recovery_token_missing:1; Material=another; Unusable=true; Observed.Cause=cert_missing"},
		"quarantined": {from: checking(quarantined), what: lost(good), want: "timer(identity 1h0m0s)",
			changes: retried + "Material=another; Unusable=true"},
		"revoked": {from: checking(withToken, func(s *State) { s.Heartbeat.Failing = diag.RecIdentityRevoked }),
			what: lost(good), want: "timer(identity 1h0m0s)", changes: retried + "Material=another; Unusable=true"},
		"suppressed": {from: checking(withToken, suppressed), what: lost(good),
			want: reports + "record(recovery_suppressed identity retry attempt 1 in 500ms of 5s file_missing c: cert_missing: " +
				"a " +
				"certificate that was just issued was rejected at 2030-01-02 03:04:05Z; expected an operator's change); " +
				"timer(identity 500ms); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_suppressed; Identity.Backoff=failing recovery_suppressed:1; " +
				"Material=another; Unusable=true; Observed.Cause=cert_missing; Ledger.Counters.Suppressed=1"},
		"the budget of an hour": {from: checking(used(3, -59*time.Minute)), what: lost(good),
			want: reports + "record(recovery_suppressed identity retry attempt 1 in 1m0.5s of 5s file_missing: cert_missing: " +
				"3 " +
				"attempts in 1h0m0s are enough); timer(identity 1m0.5s); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_suppressed; Identity.Backoff=failing recovery_suppressed:1; " +
				"Material=another; Unusable=true; Observed.Cause=cert_missing; Ledger.Counters.Suppressed=1"},
		"the hour is over in a moment": {from: checking(used(3, 1-time.Hour)), what: lost(good),
			want: reports + "record(recovery_suppressed identity retry attempt 1 in 500.000001ms of 5s file_missing: " +
				"cert_missing: 3 attempts in 1h0m0s are enough); timer(identity 500.000001ms); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_suppressed; Identity.Backoff=failing recovery_suppressed:1; " +
				"Material=another; Unusable=true; Observed.Cause=cert_missing; Ledger.Counters.Suppressed=1"},
		"the hour is over": {from: checking(used(3, -time.Hour)), what: lost(good), want: enrolls + "enroll(recovery)",
			changes: "Material=another; Unusable=true; Ledger.Attempts=refused,refused,refused,pending; " +
				"Ledger.Counters.Attempts=4"},
		"a spent token": {from: checking(ledger(func(l Ledger) Ledger { return l.spend("c") })), what: lost(good),
			want: reports + "record(recovery_enrollment_blocked identity retry attempt 1 in 500ms of 5s file_missing: " +
				"cert_missing: the platform takes this token no more; expected a new one for node node-1); " +
				"timer(identity 500ms); timer(watch 10s)",
			changes: retried + "Identity.Failing=recovery_enrollment_blocked; " +
				"Identity.Backoff=failing recovery_enrollment_blocked:1; Material=another; Unusable=true; " +
				"Observed.Cause=cert_missing"},
		"the profile as configured": {from: checking(func(s *State) { s.Profile = "lab" }),
			what: lost(good, func(m *Material) { m.Profile = "prod" }), want: enrolls + "enroll(recovery lab)",
			changes: attempt},
		"the profile of the last enrollment": {from: checking(), what: lost(good, func(m *Material) { m.Profile = "lab" }),
			want: enrolls + "enroll(recovery lab)", changes: attempt},
		"a fall-back that worked": {from: checking(func(s *State) { s.FellBack = true }), what: FellBack{},
			want: "CheckIdentity"},
		"a fall-back that failed": {from: checking(func(s *State) { s.FellBack = true }),
			what: FellBack{Outcome{Reason: diag.RecDiskFull}},
			want: "record(disk_full identity retry attempt 1 in 50ms of 500ms); timer(identity 50ms)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=disk_full; " +
				"Identity.Backoff=failing disk_full:1; FellBack=false"},
		"a fall-back while stopping": {from: checking(func(s *State) { s.Phase, s.Running = PhaseStopping, busy(1) }),
			what: FellBack{}, changes: "Identity.InFlight=false"},
	})
}

// TestStepEnrolled: what the outcome of an attempt changes, in the state and in the ledger.
func TestStepEnrolled(t *testing.T) {
	pending := func(more ...func(*State)) func(*State) {
		return func(s *State) {
			s.Ledger = s.Ledger.begin(testWall, diag.RecCertMissing, "c")
			s.Kept = s.Ledger.Counters
			s.Identity.InFlight = true
			for _, f := range more {
				f(s)
			}
		}
	}
	stopping := func(s *State) { s.Phase, s.Running = PhaseStopping, busy(1) }
	slow := func(reason string, words string) string {
		return "save; metrics(serving); record(" + reason + " identity retry attempt 1 in 500ms of 5s" + words +
			"); timer(identity 500ms); timer(watch 10s)"
	}
	failing := func(reason string) string {
		return "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=" + reason + "; Identity.Since=1m0s; " +
			"Identity.Backoff=failing " + reason + ":1; "
	}
	const failed = "Ledger.Counters.Failures=1; Kept.Failures=1"
	blocked := func(code string) EnrollDone {
		return EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryEnrollmentBlocked, Sent: true, Status: 403, Code: code}}
	}
	rules := map[string]rule{
		"a certificate": {from: pending(rejectedBefore, func(s *State) { s.Rejections, s.Detour = 2, true }),
			at:   time.Minute,
			what: EnrollDone{Outcome: Outcome{Detail: "generation 2", Correlation: "x", Status: 200, Sent: true}},
			want: "save; metrics(recovering); record(recovery_enrolled identity enrolled x: generation 2); CheckIdentity",
			changes: "Rejections=0; Rejected=none; EnrolledAt=1m0s; Detour=false; Ledger.Attempts=enrolled; " +
				"Ledger.Counters.Successes=1; Kept.Successes=1"},
		"a certificate in the room of the reserve": {from: pending(), at: time.Minute,
			what: EnrollDone{Outcome: Outcome{Sent: true}, Room: true},
			want: "save; metrics(serving); record(disk_full identity report disk_full: the disk is full; the enrollment was " +
				"kept in the room of the reserve); record(recovery_enrolled identity enrolled); CheckIdentity",
			changes: "EnrolledAt=1m0s; Ledger.Attempts=enrolled; Ledger.Counters.Successes=1; Kept.Successes=1"},
		"a certificate while stopping": {from: pending(stopping), at: time.Minute,
			what: EnrollDone{Outcome: Outcome{Sent: true}},
			want: "save; metrics(serving); record(recovery_enrolled identity enrolled)",
			changes: "Identity.InFlight=false; EnrolledAt=1m0s; Ledger.Attempts=enrolled; Ledger.Counters.Successes=1; " +
				"Kept.Successes=1"},
		"a failure while stopping": {from: pending(stopping), what: blocked("other"), want: "save; metrics(serving)",
			changes: "Identity.InFlight=false; Ledger.Attempts=refused; " + failed},
		"nobody was reached": {from: pending(func(s *State) { s.SkewAsked = true }), at: time.Minute,
			what: EnrollDone{Outcome: refused}, want: slow("api_unreachable", " tcp_refused"),
			changes: failing("api_unreachable") + "Detour=true; Ledger.Attempts=unreached; Ledger.Counters.Failures=1; " +
				"SkewAsked=false; Kept.Failures=1"},
		"nobody was reached on the detour, the time is known": {
			from: pending(func(s *State) { s.Detour, s.SkewKnown = true, true }), at: time.Minute,
			what: EnrollDone{Outcome: refused}, want: slow("api_unreachable", " tcp_refused"),
			changes: failing("api_unreachable") + "Detour=false; Ledger.Attempts=unreached; Ledger.Counters.Failures=1; " +
				"SkewAsked=true; Kept.Failures=1"},
		"an attempt that the ledger has lost": {from: checking(), at: time.Minute, what: blocked(wire.DenyTokenConsumed),
			want:    slow("recovery_enrollment_blocked", " token_consumed 403"),
			changes: failing("recovery_enrollment_blocked") + failed},
		"nobody could decide": {from: pending(), at: time.Minute,
			what:    EnrollDone{Outcome: Outcome{Reason: diag.RecAPIUnreachable, Sent: true, Status: 500}},
			want:    slow("api_unreachable", " 500"),
			changes: failing("api_unreachable") + "Detour=true; Ledger.Attempts=unreached; " + failed},
		"a limiter": {from: pending(), at: time.Minute,
			what: EnrollDone{Outcome: Outcome{Reason: diag.RecEdgeRateLimited, Failure: diag.HTTPRateLimited, Sent: true,
				Status: 429}}, want: slow("edge_rate_limited", " http_rate_limited 429"),
			changes: failing("edge_rate_limited") + "Detour=true; Ledger.Attempts=unreached; " + failed},
		"somebody decided": {from: pending(), at: time.Minute,
			what:    EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryEnrollmentBlocked, Sent: true, Status: 499}},
			want:    slow("recovery_enrollment_blocked", " 499"),
			changes: failing("recovery_enrollment_blocked") + "Ledger.Attempts=refused; " + failed},
		"the time": {from: pending(), at: time.Minute, what: EnrollDone{Outcome: Outcome{Reason: diag.RecAPIUnreachable,
			Sent: true, Status: 400, Dated: true, Skew: time.Second}}, want: slow("api_unreachable", " 400"),
			changes: failing("api_unreachable") + "Ledger.Attempts=refused; Ledger.Counters.Failures=1; Skew=1s; SkewAt=1m0s; " +
				"SkewWall=1m0s; SkewKnown=true; Kept.Failures=1"},
		"cloned": {from: pending(), at: time.Minute,
			what: EnrollDone{Outcome: Outcome{Reason: diag.RecClonedIdentity, Sent: true, Status: 403, Code: wire.DenyCloned}},
			want: "save; metrics(serving); end(node_cloned); record(cloned_identity_detected identity quarantine cloned 403); " +
				"save; record(cloned_identity_detected identity retry attempt 1 in 500ms of 5s cloned 403); " +
				"timer(identity 500ms); timer(watch 10s)",
			changes: failing("cloned_identity_detected") + "Ledger.Attempts=refused; Ledger.Quarantined=on; " + failed},
		"revoked": {from: pending(), at: time.Minute,
			what: EnrollDone{Outcome: Outcome{Reason: diag.RecIdentityRevoked, Sent: true, Status: 403, Code: wire.DenyFenced}},
			want: "save; metrics(serving); end(node_fenced); record(identity_revoked identity stop fenced 403); " +
				"record(identity_revoked identity retry attempt 1 in 500ms of 5s fenced 403); timer(identity 500ms); " +
				"timer(watch 10s)",
			changes: failing("identity_revoked") + "Observed.Denied=fenced; Ledger.Attempts=refused; " + failed},
	}
	for _, code := range []string{wire.DenyTokenConsumed, wire.DenyTokenExpired, wire.DenyNotNodeBound,
		wire.DenyProfileMismatch} {
		rules["the token is refused: "+code] = rule{from: pending(), at: time.Minute, what: blocked(code),
			want:    slow("recovery_enrollment_blocked", " "+code+" 403"),
			changes: failing("recovery_enrollment_blocked") + "Ledger.Attempts=refused; Ledger.Spent=c; " + failed}
	}
	holds(t, rules)
}
