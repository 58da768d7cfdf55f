package agent

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// checking is a node that serves while it checks its files.
func checking(more ...func(*State)) func(*State) {
	return func(s *State) {
		s.Identity.InFlight = true
		for _, f := range more {
			f(s)
		}
	}
}

// ledger returns a change of the state's ledger.
func ledger(change func(Ledger) Ledger) func(*State) {
	return func(s *State) { s.Ledger = change(s.Ledger) }
}

var (
	quarantined = func(s *State) { s.Ledger.Quarantined = Hold{Since: testWall, Why: "why"} }
	suppressed  = func(s *State) {
		s.Ledger.Suppressed = Hold{Since: testWall, Material: s.Material.operator(), Correlation: "c"}
	}
	unconfirmed = ledger(func(l Ledger) Ledger {
		return l.begin(testWall, diag.RecCertExpired, "a").finish(attemptEnrolled, "")
	})
	rejectedBefore = func(s *State) { s.Rejected = Outcome{Reason: diag.RecIdentityRejected} }
)

// TestStepFindings: what a self-check of the files leads to.
func TestStepFindings(t *testing.T) {
	tokened := func(change func(*Material)) IdentityChecked {
		return material(func(m *Material) {
			m.Token = claims("c", nil)
			if change != nil {
				change(m)
			}
		})
	}
	lost := func(m *Material) { m.Problem, m.Names = Outcome{Reason: diag.RecCertMissing}, nil }
	damaged := func(m *Material) { m.Problem, m.Spare = Outcome{Reason: diag.RecCertKeyMismatch}, "older" }
	badTrust := func(m *Material) {
		m.Trust, m.Spare = Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.FileUnparseable, Detail: "bad"}, "older"
	}
	noTrust := func(m *Material) {
		m.Trust, m.Spare = Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.FileMissing}, "older"
	}
	revokedLoops := func(s *State) {
		for _, l := range []*Loop{&s.Identity, &s.Heartbeat, &s.Wait} {
			l.Failing = diag.RecIdentityRevoked
		}
	}
	const renew = "timer(renew 1h0m0s)"
	const works = "Identity.InFlight=false"
	holds(t, map[string]rule{
		"nothing new": {from: checking(), what: healthy, want: renew, changes: works},
		"nothing new, while stopping": {from: checking(func(s *State) { s.Phase, s.Running = PhaseStopping, busy(1) }),
			what: tokened(nil), changes: "Identity.InFlight=false"},
		"it works again": {from: checking(func(s *State) {
			s.Identity.Failing, s.FellBack, s.Damaged, s.Observed.Cause = diag.RecCertMissing, true, "1", "cert_missing"
		}), what: healthy, want: "log(identity works again); " + renew,
			changes: "Identity.InFlight=false; Identity.Failing=none; Observed.Cause=; " +
				"Damaged=; FellBack=false"},
		"another certificate": {from: checking(func(s *State) { s.Rejections, s.Heartbeat.Failing = 2, diag.RecCertExpired },
			rejectedBefore), what: material(func(m *Material) { m.Serial = "2" }), want: "heartbeat(serving); " + renew,
			changes: "Identity.InFlight=false; Heartbeat.InFlight=true; " +
				"Heartbeat.Armed=false; Material=another; Rejections=0; Rejected=none"},
		"another certificate, heartbeats work": {from: checking(), what: material(func(m *Material) { m.Serial = "2" }),
			want: renew, changes: works + "; Material=another"},
		"another certificate, no heartbeat due": {from: checking(func(s *State) { s.Heartbeat.Armed = false }),
			what: material(func(m *Material) { m.Serial = "2" }), want: "heartbeat(serving); " + renew,
			changes: "Identity.InFlight=false; Heartbeat.InFlight=true; Material=another"},
		"another certificate, a poll can begin": {from: checking(func(s *State) { s.Wait.InFlight = false }),
			what: material(func(m *Material) { m.Serial = "2" }), want: "poll(16); " + renew,
			changes: "Identity.InFlight=false; Wait.InFlight=true; Material=another"},
		"another certificate before the first answer": {from: checking(func(s *State) {
			s.Phase, s.Heartbeat.Failing = PhaseGate, diag.RecCertExpired
		}), what: material(func(m *Material) { m.Serial = "2" }), want: "heartbeat(serving); " + renew,
			changes: works + "; Heartbeat.InFlight=true; Heartbeat.Armed=false; Material=another"},
		"the first credential": {from: checking(func(s *State) { s.Phase, s.Heartbeat.Armed = PhaseIdentity, false }),
			what: healthy, want: "heartbeat(serving); " + renew, changes: "Phase=gate; " + works + "; Heartbeat.InFlight=true"},
		"usable again": {from: checking(func(s *State) { s.Unusable, s.Heartbeat.Armed = true, false }),
			what: healthy, want: "heartbeat(serving); " + renew, changes: works + "; Heartbeat.InFlight=true; Unusable=false"},
		"another bundle": {from: checking(func(s *State) { s.Rejections = 2 }),
			what: material(func(m *Material) { m.Bundle = "b" }), want: renew, changes: works +
				"; Material=another; Rejections=0"},
		"another token lifts a denial": {from: checking(revokedLoops), what: tokened(nil), want: renew,
			changes: "Identity.InFlight=false; Identity.Failing=none; Heartbeat.Failing=none; " +
				"Wait.Failing=none; Material=another"},
		"another token lifts nothing else": {from: checking(func(s *State) { s.Heartbeat.Failing = diag.RecAPIUnreachable }),
			what: tokened(nil), want: renew, changes: works + "; Material=another"},
		"the same token lifts no denial": {from: checking(func(s *State) { s.Heartbeat.Failing = diag.RecIdentityRevoked }),
			what: healthy, want: renew, changes: works},
		"drift": {from: checking(), what: material(func(m *Material) { m.HandedOut = "https://other.test" }),
			want: "record(endpoint_profile_drift identity report: this agent runs with api.test; the last enrollment " +
				"handed out other.test); " + renew,
			changes: works + "; Material=another; Observed.Drift=this agent runs with api.test; the last enrollment handed " +
				"out other.test"},
		"drift that is known": {from: checking(func(s *State) {
			s.Observed.Drift = "this agent runs with api.test; the last enrollment handed out other.test"
		}), what: material(func(m *Material) { m.HandedOut = "https://other.test" }), want: renew,
			changes: works + "; Material=another"},
		"drift that is over": {from: checking(func(s *State) { s.Observed.Drift = "x" }), what: healthy, want: renew,
			changes: works + "; Observed.Drift="},
		"a chain of somebody else": {from: checking(), what: material(func(m *Material) { m.IssuerProblem = "odd" }),
			want:    "record(identity_rejected identity report file_mismatch: odd); " + renew,
			changes: works + "; Material=another; Observed.Issuer=odd"},
		"damaged, for the first time": {from: checking(), what: material(damaged),
			want: "record(cert_key_mismatch identity retry attempt 1 in 200ms of 2s); timer(identity 200ms)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=cert_key_mismatch; " +
				"Identity.Backoff=failing cert_key_mismatch:1; Material=another; Unusable=true; Damaged=1"},
		"damaged, twice": {from: checking(func(s *State) { s.Damaged = "1" }), what: material(damaged),
			want:    "record(cert_key_mismatch identity fall_back: ; generation older takes its place); FallBack",
			changes: "Material=another; Unusable=true; FellBack=true"},
		"damaged otherwise": {from: checking(func(s *State) { s.Damaged = "0" }), what: material(damaged),
			want: "record(cert_key_mismatch identity retry attempt 1 in 200ms of 2s); timer(identity 200ms)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=cert_key_mismatch; " +
				"Identity.Backoff=failing cert_key_mismatch:1; Material=another; Unusable=true; Damaged=1"},
		"damaged after a fall-back": {from: checking(func(s *State) { s.FellBack = true }),
			what: tokened(damaged), want: "record(cert_key_mismatch identity enroll); enroll(recovery)",
			changes: "Material=another; Unusable=true; Ledger.Version=1; Ledger.Attempts=pending; " +
				"Ledger.Counters.Attempts=1"},
		"damaged, no spare": {from: checking(), what: tokened(func(m *Material) { damaged(m); m.Spare = "" }),
			want: "record(cert_key_mismatch identity enroll); enroll(recovery)",
			changes: "Material=another; Unusable=true; Ledger.Version=1; Ledger.Attempts=pending; " +
				"Ledger.Counters.Attempts=1"},
		"damaged trust": {from: checking(), what: material(badTrust),
			want: "record(server_tls_untrusted identity retry attempt 1 in 200ms of 2s file_unparseable: bad); " +
				"timer(identity 200ms)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=server_tls_untrusted; " +
				"Identity.Backoff=failing server_tls_untrusted:1; Material=another; Damaged=1"},
		"removed trust": {from: checking(), what: material(noTrust), want: renew, changes: works + "; Material=another"},
		"damaged trust, and a certificate that has ended": {
			from: checking(func(s *State) { s.SkewAsked, s.Heartbeat.Failing = true, diag.RecCertExpired }),
			what: material(func(m *Material) { badTrust(m); m.NotAfter = testWall.Add(-time.Second) }),
			want: "record(cert_expired identity report mtls_cert_expired: the certificate ended at 2030-01-02 03:04:04Z; " +
				"the time is 2030-01-02 03:04:05Z); record(recovery_token_missing identity retry attempt 1 in 500ms of 5s " +
				"mtls_cert_expired: cert_expired: no token; expected one for node node-1); timer(identity 500ms); " +
				"timer(watch 10s)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=recovery_token_missing; " +
				"Identity.Backoff=failing recovery_token_missing:1; Material=another; Unusable=true; Observed.Cause=cert_expired"},
		"it begins later, by both clocks": {from: checking(func(s *State) { s.SkewKnown, s.SkewWall = true, testWall }),
			what: material(func(m *Material) { m.NotBefore = testWall.Add(time.Hour) }),
			want: "record(cert_not_yet_valid identity retry attempt 1 in 200ms of 2s mtls_cert_not_yet_valid: the certificate " +
				"begins at 2030-01-02 04:04:05Z; the time is 2030-01-02 03:04:05Z); timer(identity 200ms)",
			changes: "Identity.InFlight=false; Identity.Armed=true; Identity.Failing=cert_not_yet_valid; " +
				"Identity.Backoff=failing cert_not_yet_valid:1; Material=another; Unusable=true"},
		"lost, a token": {from: checking(func(s *State) { s.Profile = "lab" }), what: tokened(lost),
			want: "record(cert_missing identity enroll); enroll(recovery lab)",
			changes: "Material=another; Unusable=true; Ledger.Version=1; Ledger.Attempts=pending; " +
				"Ledger.Counters.Attempts=1"},
		"refused by the platform": {from: checking(rejectedBefore), what: tokened(nil),
			want:    "record(identity_rejected identity enroll); enroll(recovery)",
			changes: "Material=another; Ledger.Version=1; Ledger.Attempts=pending; Ledger.Counters.Attempts=1"},
	})
}

// TestStepRefusals: what a refusal of this node's identity, or a server that cannot be verified, leads to. The first
// refusals may be an ingress that is being reloaded: an enrollment needs three, the third an interval after the first.
func TestStepRefusals(t *testing.T) {
	flying := func(more ...func(*State)) func(*State) {
		return func(s *State) {
			s.Heartbeat.InFlight, s.Heartbeat.Armed, s.Heartbeat.Began = true, false, 50*time.Second
			for _, f := range more {
				f(s)
			}
		}
	}
	refusals := func(n int, since time.Duration) func(*State) {
		return func(s *State) { s.Rejections, s.RefusedAt = n, since }
	}
	rejected := HeartbeatDone{Outcome: Outcome{Reason: diag.RecIdentityRejected}}
	const at = time.Minute
	const rejectedWords = "record(identity_rejected heartbeat retry attempt 1 in 200ms of 2s); timer(heartbeat 200ms)"
	const rejectedFirst = "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=identity_rejected; " +
		"Heartbeat.Since=1m0s; Heartbeat.Backoff=failing identity_rejected:1"
	const counted = "; Ledger.Counters.Rejections=1; Counters.HeartbeatFailures=1"
	const check = "Identity.InFlight=true; "
	untrusted := HeartbeatDone{Outcome: Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSUnknownCA}}
	expired := HeartbeatDone{Outcome: Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSExpired}}
	early := HeartbeatDone{Outcome: Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSNotYetValid}}
	distrusted := func(n int, since time.Duration) func(*State) {
		return func(s *State) {
			s.Heartbeat.Failing, s.Heartbeat.Since = diag.RecServerTLSUntrusted, since
			s.Heartbeat.Backoff = Backoff{Attempts: map[diag.RecordReason]int{diag.RecServerTLSUntrusted: n}}
		}
	}
	third := func(word string) string {
		return "record(server_tls_untrusted heartbeat retry attempt 3 in 800ms of 8s " + word + "); timer(heartbeat 800ms)"
	}
	const distrustedThird = "Heartbeat.InFlight=false; Heartbeat.Armed=true; " +
		"Heartbeat.Backoff=failing server_tls_untrusted:3; "
	denied := func(reason diag.RecordReason, code string) HeartbeatDone {
		return HeartbeatDone{Outcome: Outcome{Reason: reason, Status: 403, Code: code, Detail: "no", Correlation: "c"}}
	}
	const revokedWords = "record(identity_revoked heartbeat retry attempt 1 in 500ms of 5s revoked c 403: no); " +
		"timer(heartbeat 500ms); end(node_revoked)"
	const revokedFirst = "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=identity_revoked; " +
		"Heartbeat.Since=1m0s; Heartbeat.Backoff=failing identity_revoked:1"
	const clonedWords = "record(cloned_identity_detected heartbeat retry attempt 1 in 500ms of 5s cloned c 403: no); " +
		"timer(heartbeat 500ms); end(node_cloned)"
	const clonedFirst = "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=cloned_identity_detected; " +
		"Heartbeat.Since=1m0s; Heartbeat.Backoff=failing cloned_identity_detected:1"
	holds(t, map[string]rule{
		"the first": {from: flying(), at: at, what: rejected, want: rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=1; RefusedAt=1m0s" + counted},
		"an expired certificate": {from: flying(), at: at, what: HeartbeatDone{Outcome: Outcome{Reason: diag.RecCertExpired}},
			want: "record(cert_expired heartbeat retry attempt 1 in 200ms of 2s); timer(heartbeat 200ms); CheckIdentity",
			changes: check + "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=cert_expired; " +
				"Heartbeat.Since=1m0s; Heartbeat.Backoff=failing cert_expired:1; Rejections=1; RefusedAt=1m0s" + counted},
		"of the certificate before": {from: flying(func(s *State) { s.EnrolledAt = 50*time.Second + 1 }), at: at,
			what: rejected, want: rejectedWords, changes: rejectedFirst + "; Counters.HeartbeatFailures=1"},
		"of this certificate": {from: flying(func(s *State) { s.EnrolledAt = 50 * time.Second }), at: at, what: rejected,
			want: rejectedWords + "; CheckIdentity", changes: check + rejectedFirst + "; Rejections=1; RefusedAt=1m0s" +
				counted},
		"while the back-off of the identity runs": {from: flying(func(s *State) { s.Identity.Armed = true }), at: at,
			what: rejected, want: rejectedWords, changes: rejectedFirst + "; Rejections=1; RefusedAt=1m0s" + counted},
		"the second": {from: flying(refusals(1, 0)), at: at, what: rejected, want: rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=2" + counted},
		"the third, an interval later": {from: flying(refusals(2, 50*time.Second)), at: at, what: rejected,
			want:    rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=3; Rejected=identity_rejected" + counted},
		"the third, sooner": {from: flying(refusals(2, 50*time.Second+1)), at: at, what: rejected,
			want: rejectedWords + "; CheckIdentity", changes: check + rejectedFirst + "; Rejections=3" + counted},
		"the fourth": {from: flying(refusals(3, 0)), at: at, what: rejected, want: rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=4; Rejected=identity_rejected" + counted},
		"one more, the first reason stays": {from: flying(refusals(3, 0), func(s *State) {
			s.Rejected = Outcome{Reason: diag.RecCertExpired}
		}), at: at, what: rejected, want: rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=4" + counted},
		"of a certificate that was just issued": {from: flying(unconfirmed), at: at, what: rejected,
			want: rejectedWords + "; record(recovery_suppressed identity suppress: the certificate that was just issued is " +
				"rejected, too (identity_rejected): ); save; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=1; RefusedAt=1m0s; Rejected=identity_rejected; " +
				"Ledger.Suppressed=on; Ledger.Counters.Rejections=1; Counters.HeartbeatFailures=1; Kept.Rejections=1; " +
				"Kept.Attempts=1"},
		"of a certificate that was just issued, again": {from: flying(unconfirmed, suppressed), at: at, what: rejected,
			want:    rejectedWords + "; CheckIdentity",
			changes: check + rejectedFirst + "; Rejections=1; RefusedAt=1m0s; Rejected=identity_rejected" + counted},
		"an unknown server": {from: flying(), at: at, what: untrusted,
			want: "record(server_tls_untrusted heartbeat retry attempt 1 in 200ms of 2s tls_unknown_ca); timer(heartbeat 200ms)",
			changes: "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=server_tls_untrusted; " +
				"Heartbeat.Since=1m0s; Heartbeat.Backoff=failing server_tls_untrusted:1; Counters.HeartbeatFailures=1"},
		"for the third time, an interval later": {from: flying(distrusted(2, 50*time.Second)), at: at, what: untrusted,
			want:    third("tls_unknown_ca") + "; CheckIdentity",
			changes: check + distrustedThird + "Rejected=server_tls_untrusted; Counters.HeartbeatFailures=1"},
		"for the third time, sooner": {from: flying(distrusted(2, 50*time.Second+1)), at: at, what: untrusted,
			want: third("tls_unknown_ca"), changes: distrustedThird + "Counters.HeartbeatFailures=1"},
		"for the second time": {from: flying(distrusted(1, 0)), at: at, what: untrusted,
			want: "record(server_tls_untrusted heartbeat retry attempt 2 in 400ms of 4s tls_unknown_ca); timer(heartbeat 400ms)",
			changes: "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Backoff=failing server_tls_untrusted:2; " +
				"Counters.HeartbeatFailures=1"},
		"for the third time, known": {from: flying(distrusted(2, 0), rejectedBefore), at: at, what: untrusted,
			want: third("tls_unknown_ca"), changes: distrustedThird + "Counters.HeartbeatFailures=1"},
		"its certificate has ended": {from: flying(distrusted(2, 0)), at: at, what: expired,
			want: third("tls_expired"), changes: distrustedThird + "Counters.HeartbeatFailures=1"},
		"its certificate has not begun": {from: flying(distrusted(2, 0)), at: at, what: early,
			want: third("tls_not_yet_valid"), changes: distrustedThird + "Counters.HeartbeatFailures=1"},
		"an unknown server of a poll": {from: func(s *State) {
			s.Wait.Backoff = Backoff{Attempts: map[diag.RecordReason]int{diag.RecServerTLSUntrusted: 5}}
			s.Heartbeat.Backoff = s.Wait.Backoff // from before its last success
		}, at: at, what: WaitDone{Outcome: untrusted.Outcome},
			want: "record(server_tls_untrusted task_wait retry attempt 6 in 4s of 40s tls_unknown_ca); timer(task_wait 4s)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Failing=server_tls_untrusted; Wait.Since=1m0s; " +
				"Wait.Backoff=failing server_tls_untrusted:6; Counters.PollFailures=1"},
		"revoked": {from: flying(), at: at, what: denied(diag.RecIdentityRevoked, wire.DenyRevoked),
			want:    revokedWords + "; record(identity_revoked identity stop revoked c 403: no)",
			changes: revokedFirst + "; Observed.Denied=revoked" + counted},
		"revoked, as is known": {from: flying(func(s *State) { s.Observed.Denied = wire.DenyRevoked }), at: at,
			what: denied(diag.RecIdentityRevoked, wire.DenyRevoked), want: revokedWords, changes: revokedFirst + counted},
		"fenced before, revoked now": {from: flying(func(s *State) { s.Observed.Denied = wire.DenyFenced }), at: at,
			what:    denied(diag.RecIdentityRevoked, wire.DenyRevoked),
			want:    revokedWords + "; record(identity_revoked identity stop revoked c 403: no)",
			changes: revokedFirst + "; Observed.Denied=revoked" + counted},
		"cloned": {from: flying(), at: at, what: denied(diag.RecClonedIdentity, wire.DenyCloned),
			want: clonedWords + "; record(cloned_identity_detected identity quarantine cloned c 403: no); save",
			changes: clonedFirst + "; Ledger.Quarantined=on; Ledger.Counters.Rejections=1; Counters.HeartbeatFailures=1; " +
				"Kept.Rejections=1"},
		"cloned, as is known": {from: flying(quarantined), at: at, what: denied(diag.RecClonedIdentity, wire.DenyCloned),
			want: clonedWords, changes: clonedFirst + counted},
	})
	s := servingExactly()
	s, _ = play(s, denied(diag.RecClonedIdentity, wire.DenyCloned))
	if got := s.Ledger.Quarantined; got != (Hold{Since: testWall, Why: "no", Correlation: "c"}) {
		t.Errorf("the quarantine: %+v", got)
	}
}

// TestStepAcceptance: what the platform's acceptance of a heartbeat lifts, and that a response to a request from before
// the newest certificate lifts nothing.
func TestStepAcceptance(t *testing.T) {
	flying := func(more ...func(*State)) func(*State) {
		return func(s *State) {
			s.Heartbeat.InFlight, s.Heartbeat.Armed = true, false
			for _, f := range more {
				f(s)
			}
		}
	}
	const beat = "; Counters.Heartbeats=2"
	const taken = "Heartbeat.InFlight=false; Heartbeat.Armed=true"
	all := func(s *State) {
		s.Rejections, s.Observed.Denied, s.Renew, s.EnrolledAt = 2, "revoked", true, 1
		rejectedBefore(s)
		unconfirmed(s)
		suppressed(s)
	}
	waiting := func(s *State) {
		s.Results, s.Post.Armed = resultsOf("a"), true
		s.Post.Backoff.Attempts = map[diag.RecordReason]int{diag.RecTaskResultPostFailed: 1}
	}
	holds(t, map[string]rule{
		"refusals": {from: flying(func(s *State) { s.Rejections = 2 }), what: HeartbeatDone{}, want: "timer(heartbeat 10s)",
			changes: taken + "; Rejections=0" + beat},
		"a reason to enroll": {from: flying(rejectedBefore), what: HeartbeatDone{},
			want:    "CheckIdentity; timer(heartbeat 10s)",
			changes: "Identity.InFlight=true; " + taken + "; Rejected=none" + beat},
		"a renewal that waited": {from: flying(func(s *State) { s.Renew = true }), what: HeartbeatDone{},
			want:    "CheckIdentity; timer(heartbeat 10s)",
			changes: "Identity.InFlight=true; " + taken + "; Renew=false" + beat},
		"a denial, and results come at once": {from: flying(waiting, func(s *State) { s.Observed.Denied = "revoked" }),
			what: HeartbeatDone{}, want: "post(a completed); timer(heartbeat 10s)",
			changes: taken + "; Post.InFlight=true; Post.Armed=false; Post.Backoff=failing; Posting=a; Observed.Denied=" + beat},
		"no denial, and results wait": {from: flying(waiting), what: HeartbeatDone{}, want: "timer(heartbeat 10s)",
			changes: taken + beat},
		"a quarantine": {from: flying(waiting, quarantined), what: HeartbeatDone{},
			want: "post(a completed); record(cloned_identity_detected identity release: the platform accepts this node " +
				"again); save; timer(heartbeat 10s)",
			changes: taken + "; Post.InFlight=true; Post.Armed=false; Post.Backoff=failing; Posting=a; " +
				"Ledger.Quarantined=off" + beat},
		"a suppression": {from: flying(suppressed), what: HeartbeatDone{}, want: "save; timer(heartbeat 10s)",
			changes: taken + "; Ledger.Suppressed=off" + beat},
		"a certificate is confirmed": {from: flying(unconfirmed), what: HeartbeatDone{}, want: "save; timer(heartbeat 10s)",
			changes: taken + "; Ledger.Attempts=confirmed; Counters.Heartbeats=2; Kept.Attempts=1"},
		"the request is older than the certificate": {from: flying(all), what: HeartbeatDone{}, want: "timer(heartbeat 10s)",
			changes: taken + beat},
		"the request is as old": {from: flying(all, func(s *State) { s.EnrolledAt = 0 }), what: HeartbeatDone{},
			want: "CheckIdentity; save; timer(heartbeat 10s)",
			changes: "Identity.InFlight=true; " + taken + "; Observed.Denied=; Rejections=0; Rejected=none; Renew=false; " +
				"Ledger.Attempts=confirmed; Ledger.Suppressed=off; Counters.Heartbeats=2; Kept.Attempts=1"},
	})
}
