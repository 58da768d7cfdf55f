package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// refusals are outcomes of heartbeats and polls in the property test.
var refusals = []diag.RecordReason{
	diag.RecAPIUnreachable, diag.RecCertExpired, diag.RecIdentityRejected, diag.RecIdentityRevoked, diag.RecClonedIdentity,
	diag.RecEndpointProfileDrift, diag.RecServerTLSUntrusted, diag.RecEdgeRateLimited, diag.RecTaskPollFailed,
}

// claims returns a token as a node sees it.
func claims(digest string, change func(*wire.TokenClaims)) TokenFacts {
	f := TokenFacts{Digest: digest, Typed: true, Claims: wire.TokenClaims{NodeID: testNode, Profile: "lab",
		IssuedAt: testWall.Add(-time.Minute), ExpiresAt: testWall.Add(23 * time.Hour)}}
	if change != nil {
		change(&f.Claims)
	}
	return f
}

// lookAtDisk changes the state of the world's disk, or leaves it.
func (w *world) lookAtDisk() What {
	at := testWall.Add(w.at)
	if len(w.limited) > 0 { // a good certificate, and a current token: nothing forbids an enrollment
		w.material = Material{Names: []string{testNode}, NotBefore: testWall.Add(-time.Hour),
			NotAfter: testWall.Add(30 * 24 * time.Hour), Serial: "1", Token: claims("a", nil)}
		w.material.Token.Claims.ExpiresAt = at.Add(time.Hour)
		return IdentityChecked{w.material}
	}
	m := Material{Files: fmt.Sprint(w.at), Names: []string{testNode}, NotBefore: testWall.Add(-time.Hour),
		NotAfter: testWall.Add(30 * 24 * time.Hour), Serial: rapid.SampledFrom([]string{"1", "2"}).Draw(w.t, "serial"),
		Apart: rapid.Bool().Draw(w.t, "apart")}
	switch rapid.IntRange(0, 5).Draw(w.t, "disk") {
	case 0:
		m.Problem, m.Never = Outcome{Reason: diag.RecCertMissing}, rapid.Bool().Draw(w.t, "never")
	case 1:
		m.Problem, m.Spare = Outcome{Reason: diag.RecCertKeyMismatch},
			rapid.SampledFrom([]string{"", "older"}).Draw(w.t, "spare")
	case 2:
		m.NotAfter = at.Add(-time.Minute)
	case 3:
		m.NotAfter = at.Add(10 * time.Minute)
	}
	switch rapid.IntRange(0, 6).Draw(w.t, "token") {
	case 0, 1, 2:
		m.Token = claims(rapid.SampledFrom([]string{"a", "b"}).Draw(w.t, "digest"), nil)
		m.Token.Claims.ExpiresAt = at.Add(time.Hour)
	case 3:
		m.Token = claims("old", func(c *wire.TokenClaims) { c.ExpiresAt = at.Add(-time.Second) })
	case 4:
		m.Token = claims("other", func(c *wire.TokenClaims) { c.NodeID = "node-2" })
	case 5:
		m.Token = TokenFacts{Digest: "opaque"}
	}
	w.material = m
	return IdentityChecked{m}
}

// enrolls checks that everything that the world knows permits the enrollment.
func (w *world) enrolls(e Enroll) {
	m, now := w.material, testWall.Add(w.at)
	if o := m.Token.refusal(Clocks{Own: now}, testNode, "", m.Never); !o.OK() {
		w.t.Fatalf("enrolls without a current token: %+v", o)
	}
	before := e.Ledger
	before.Attempts = before.Attempts[:len(before.Attempts)-1]
	if last := e.Ledger.Attempts[len(before.Attempts)]; last.Result != attemptPending || last.Token != m.Token.Digest {
		w.t.Fatalf("the attempt is not written down: %+v", last)
	}
	if wait, why := before.overspent(now, m.Token.Digest); wait > 0 {
		w.t.Fatalf("over the budget: %s", why)
	}
	w.counts(m.Token.Digest, now)
	switch l := w.state.Ledger; {
	case l.suppresses(now, m.operator()):
		w.t.Fatal("enrolls though it is suppressed")
	case l.isSpent(m.Token.Digest):
		w.t.Fatal("enrolls with a token that is spent")
	case l.Quarantined.Active(), w.state.revoked():
		w.t.Fatal("enrolls though the platform said no")
	}
}

// counts checks each attempt against the budget, independently of the ledger.
func (w *world) counts(token string, now time.Time) {
	if w.asked == nil {
		w.asked = map[string][]time.Time{}
	}
	w.asked[token] = append(w.asked[token], now)
	for window, limit := range map[time.Duration]int{time.Hour: perHour, 24 * time.Hour: perDay} {
		n := 0
		for _, at := range w.asked[token] {
			if now.Sub(at) < window {
				n++
			}
		}
		if n > limit {
			w.t.Fatalf("%d attempts in %v", n, window)
		}
	}
}

// crash ends the process, and starts the next one with the content of the disk.
func (w *world) crash() {
	w.state = newState()
	w.state.Ledger = w.saved.normal(testWall.Add(w.at))
	clear(w.pending)
	clear(w.timers)
	w.sessions = 0
	clear(w.ceilings)
	clear(w.attempts)
	w.event(Started{})
}

// TestBudgetHoldsAcrossCrashes: no crash at any moment leads to an attempt beyond the budget, a second one in
// flight, or one that a suppression, a quarantine or a spent token forbids.
func TestBudgetHoldsAcrossCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.idle = true
		w.event(Started{})
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 8).Draw(t, "crash") == 0 {
				w.crash()
			}
			w.progress()
		}
	})
}

func (w *world) finishEnroll() What {
	token := w.material.Token.Digest
	o := w.outcome(diag.RecAPIUnreachable, diag.RecRecoveryTokenExpired, diag.RecRecoveryEnrollmentBlocked,
		diag.RecIdentityRevoked, diag.RecClonedIdentity)
	o.Sent = o.OK() || rapid.Bool().Draw(w.t, "sent")
	if o.Reason == diag.RecRecoveryEnrollmentBlocked {
		o.Code = wire.DenyTokenConsumed
	}
	if list := w.asked[token]; !o.Sent && len(list) > 0 {
		w.asked[token] = list[:len(list)-1]
	}
	return EnrollDone{Outcome: o}
}

// play runs a state machine through events and returns the last one's effects as words.
func play(s State, what ...What) (State, string) {
	var effects []Effect
	for _, w := range what {
		s, effects = Step(s, Event{Wall: testWall, What: w})
	}
	return s, words(effects)
}

func servingState(m IdentityChecked) State {
	s, _ := play(newState(), Started{}, m, HeartbeatDone{})
	return s
}

// TestDenialTokenPosture is the table of the recovery policy: the platform's response, the token on the node, and
// the node's reaction.
func TestDenialTokenPosture(t *testing.T) {
	tokens := map[string]TokenFacts{
		"none": {}, "opaque": {Digest: "o"}, "current": claims("c", nil),
		"expired":           claims("x", func(c *wire.TokenClaims) { c.ExpiresAt = testWall.Add(-time.Second) }),
		"another node's":    claims("n", func(c *wire.TokenClaims) { c.NodeID = "node-2" }),
		"another profile's": claims("p", func(c *wire.TokenClaims) { c.Profile = "prod" }),
	}
	without := map[string]diag.RecordReason{
		"none": diag.RecRecoveryTokenMissing, "opaque": diag.RecRecoveryTokenMissing, "expired": diag.RecRecoveryTokenExpired,
		"another node's": diag.RecRecoveryEnrollmentBlocked, "another profile's": diag.RecRecoveryEnrollmentBlocked,
	}
	for _, tc := range []struct {
		denial  diag.RecordReason
		enrolls bool
		posture string
	}{
		{diag.RecCertExpired, true, wire.PostureRecovering},
		{diag.RecIdentityRejected, true, wire.PostureRecovering},
		{diag.RecIdentityRevoked, false, wire.PostureStopped},
		{diag.RecClonedIdentity, false, wire.PostureQuarantined},
		{diag.RecEndpointProfileDrift, false, wire.PostureServing},
		{diag.RecEdgeRateLimited, false, wire.PostureServing},
		{diag.RecAPIUnreachable, false, wire.PostureServing},
	} {
		for name, token := range tokens {
			t.Run(string(tc.denial)+", token "+name, func(t *testing.T) {
				look := material(func(m *Material) { m.Token, m.Profile = token, "lab" })
				s := servingState(look)
				var all strings.Builder
				for range rejectedTries + 2 {
					s = fire(s, &all, TimerFired{TimerHeartbeat})
					s = fire(s, &all, HeartbeatDone{Outcome: Outcome{Reason: tc.denial}})
					if s.Identity.InFlight && !strings.Contains(all.String(), "Enroll") {
						s = fire(s, &all, look)
					}
				}
				enrolled := strings.Contains(all.String(), " Enroll")
				if enrolled != (tc.enrolls && name == "current") || s.Posture() != tc.posture {
					t.Errorf("enrolled %v, posture %s:\n%s", enrolled, s.Posture(), &all)
				}
				if want := without[name]; tc.enrolls && want != "" &&
					!strings.Contains(all.String(), "record("+string(want)+" identity retry)") {
					t.Errorf("no %s:\n%s", want, &all)
				}
				if tc.posture == wire.PostureStopped || tc.posture == wire.PostureQuarantined {
					if _, effects := play(s, WaitDone{}, TimerFired{TimerWait}); strings.Contains(effects, "WaitTask") {
						t.Errorf("polls: %s", effects)
					}
				}
			})
		}
	}
}

// fire makes one step and notes its words. At least ten seconds pass between two steps with effects.
func fire(s State, all *strings.Builder, what What) State {
	s, effects := Step(s, Event{At: time.Duration(all.Len()) * time.Second, Wall: testWall, What: what})
	all.WriteString(words(effects) + "\n")
	return s
}

func TestLocalSelfCheck(t *testing.T) {
	expired := func(m *Material) { m.NotAfter = testWall.Add(-time.Hour) }
	for name, tc := range map[string]struct {
		change func(*Material)
		clock  Outcome // outcome of asking for the time
		want   string
	}{
		"lost, never enrolled, opaque token": {func(m *Material) {
			m.Problem, m.Never, m.Token = Outcome{Reason: diag.RecCertMissing}, true, TokenFacts{Digest: "o"}
		}, Outcome{}, "record(cert_missing identity enroll) Enroll"},
		"lost, opaque token": {func(m *Material) {
			m.Problem, m.Token = Outcome{Reason: diag.RecCertMissing}, TokenFacts{Digest: "o"}
		}, Outcome{},
			"record(cert_missing identity report) record(recovery_token_missing identity retry) timer(identity) timer(watch)"},
		"lost, current token": {func(m *Material) {
			m.Problem, m.Token = Outcome{Reason: diag.RecCertMissing}, claims("c", nil)
		}, Outcome{},
			"record(cert_missing identity enroll) Enroll"},
		"lost, old token": {func(m *Material) {
			m.Problem = Outcome{Reason: diag.RecCertMissing}
			m.Token = claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = testWall })
		}, Outcome{},
			"record(cert_missing identity report) record(recovery_token_expired identity retry) timer(identity) timer(watch)"},
		"another node's certificate, no token": {func(m *Material) { m.Names = []string{"node-2"} }, Outcome{},
			"record(identity_rejected identity report) record(recovery_token_missing identity retry) timer(identity) " +
				"timer(watch)"},
		"bound by an alternative name": {func(m *Material) { m.Names = []string{"x", testNode} }, Outcome{},
			"SendHeartbeat timer(renew)"},
		"expired, the platform's clock agrees": {expired, Outcome{Dated: true},
			"record(cert_expired identity report) record(recovery_token_missing identity retry) timer(identity) timer(watch)"},
		"expired, the platform's clock does not": {expired, Outcome{Dated: true, Skew: -2 * time.Hour},
			"record(clock_skew identity report) SendHeartbeat timer(renew)"},
		"expired, and so seems the platform": {expired, Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSExpired},
			"record(clock_skew identity report) SendHeartbeat timer(renew) record(cert_expiring identity report)"},
		"expired, the time is unknown, current token": {func(m *Material) { expired(m); m.Token = claims("c", nil) },
			refused, "record(cert_expired identity enroll) Enroll"},
		"not valid yet": {func(m *Material) { m.NotBefore = testWall.Add(time.Hour) }, Outcome{},
			"record(clock_skew identity report) SendHeartbeat timer(renew)"},
		"an endpoint of another profile": {func(m *Material) { m.HandedOut = "https://other.test" }, Outcome{},
			"record(endpoint_profile_drift identity report) SendHeartbeat timer(renew)"},
		"a chain of somebody else": {func(m *Material) { m.IssuerProblem = "odd" }, Outcome{},
			"record(identity_rejected identity report) SendHeartbeat timer(renew)"},
		"damaged, an older generation": {func(m *Material) {
			m.Problem, m.Spare = Outcome{Reason: diag.RecCertKeyMismatch}, "older"
		}, Outcome{}, "record(cert_key_mismatch identity retry) timer(identity)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			s.APIURL = "https://api.test"
			s, got := play(s, Started{}, material(tc.change))
			if got == "AskClock" {
				_, got = play(s, ClockAsked{tc.clock})
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDamageFallsBackAtTheSecondLook(t *testing.T) {
	damaged := material(func(m *Material) { m.Problem, m.Spare = Outcome{Reason: diag.RecCertKeyMismatch}, "older" })
	s, _ := play(newState(), Started{}, damaged)
	s, got := play(s, TimerFired{TimerIdentity}, damaged)
	if got != "record(cert_key_mismatch identity fall_back) FallBack" {
		t.Fatal(got)
	}
	if s, got = play(s, FellBack{}); got != "CheckIdentity" {
		t.Fatal(got)
	}
	if _, healed := play(s, healthy); !strings.HasPrefix(healed, "SendHeartbeat") {
		t.Error(healed)
	}
	if _, again := play(s, damaged); strings.Contains(again, "FallBack") {
		t.Errorf("falls back twice: %s", again)
	}
}

// TestAFallBackThatFailsSpendsNoToken: if the credentials cannot be switched to an older generation, they cannot
// be switched to a new one either.
func TestAFallBackThatFailsSpendsNoToken(t *testing.T) {
	damaged := material(func(m *Material) {
		m.Problem, m.Spare, m.Token = Outcome{Reason: diag.RecCertKeyMismatch}, "older", claims("c", nil)
	})
	s, _ := play(newState(), Started{}, damaged, TimerFired{TimerIdentity}, damaged)
	_, got := play(s, FellBack{Outcome{Reason: diag.RecRecoveryEnrollmentBlocked, Failure: diag.FileUnreadable}},
		TimerFired{TimerIdentity}, damaged)
	if got != "record(cert_key_mismatch identity fall_back) FallBack" {
		t.Error(got)
	}
}

func TestFreshCertificateThatIsRejectedSuppresses(t *testing.T) {
	look := material(func(m *Material) { m.Token = claims("c", nil); m.NotAfter = testWall.Add(-time.Minute) })
	fresh := material(func(m *Material) { m.Token, m.Serial = claims("c", nil), "2" })
	rejected := HeartbeatDone{Outcome: Outcome{Reason: diag.RecIdentityRejected}}
	s, _ := play(newState(), Started{}, look, ClockAsked{refused})
	s, _ = play(s, EnrollDone{Outcome: Outcome{Sent: true}}, fresh)
	s, got := play(s, rejected)
	if !strings.Contains(got, "record(recovery_suppressed identity suppress) SaveLedger") {
		t.Fatal(got)
	}
	for range 10 {
		s, got = play(s, fresh, TimerFired{TimerIdentity}, TimerFired{TimerHeartbeat}, rejected)
		if strings.Contains(got, "Enroll") {
			t.Fatalf("enrolls again: %s", got)
		}
	}
	if s.Ledger.Counters.Suppressed == 0 || s.Posture() != wire.PostureRecovering {
		t.Errorf("%+v, %s", s.Ledger.Counters, s.Posture())
	}
	// The next start of the process remembers it; an operator's new token lifts it.
	again := newState()
	again.Ledger = s.Ledger
	again, _ = play(again, Started{}, fresh, rejected)
	if _, got := play(again, fresh); strings.Contains(got, "Enroll") || !strings.Contains(got, "recovery_suppressed") {
		t.Errorf("after a restart: %s", got)
	}
	renewed := material(func(m *Material) { m.Token, m.Serial, m.Files = claims("d", nil), "2", "2" })
	if _, got := play(again, renewed); !strings.Contains(got, "Enroll") {
		t.Errorf("with a new token: %s", got)
	}
}

func TestUntrustedServerAndTheRecoveryPath(t *testing.T) {
	untrusted := HeartbeatDone{Outcome: Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.TLSUnknownCA}}
	for name, tc := range map[string]struct {
		apart bool
		want  string
	}{
		"another path":      {true, "record(server_tls_untrusted identity enroll) Enroll"},
		"the runtime's own": {false, "record(recovery_enrollment_blocked identity retry)"},
	} {
		t.Run(name, func(t *testing.T) {
			look := material(func(m *Material) { m.Token, m.Apart = claims("c", nil), tc.apart })
			s := servingState(look)
			var all strings.Builder
			for range untrustedTries {
				if strings.Contains(all.String(), "CheckIdentity") {
					t.Fatalf("too early: %s", &all)
				}
				s = fire(s, &all, TimerFired{TimerHeartbeat})
				s = fire(s, &all, untrusted)
			}
			fire(s, &all, look)
			if !strings.Contains(all.String(), tc.want) {
				t.Errorf("got %s", &all)
			}
		})
	}
}

func TestRenewal(t *testing.T) {
	ending := func(token TokenFacts) IdentityChecked {
		return material(func(m *Material) { m.NotAfter, m.Token = testWall.Add(20*time.Minute), token })
	}
	s := servingState(healthy)
	if _, got := play(s, TimerFired{TimerRenew}, ending(claims("c", nil))); !strings.Contains(got,
		"record(cert_expiring identity renew) Enroll") {
		t.Errorf("with a token: %s", got)
	}
	s, got := play(s, TimerFired{TimerRenew}, ending(TokenFacts{}))
	if !strings.Contains(got, "record(cert_expiring identity report)") {
		t.Errorf("without a token: %s", got)
	}
	if _, got := play(s, TimerFired{TimerRenew}, ending(TokenFacts{})); strings.Contains(got, "record") {
		t.Errorf("said twice: %s", got)
	}
	used := servingState(healthy)
	used.Ledger = used.Ledger.begin(testWall.Add(-time.Minute), diag.RecCertMissing, "c").finish(attemptConfirmed, "")
	if _, got := play(used, TimerFired{TimerRenew}, ending(claims("c", nil))); strings.Contains(got, "Enroll") {
		t.Errorf("with a token that brought a certificate already: %s", got)
	}
}

// A certificate that expires soon may be all that an agent has at its start, or after an outage of the platform:
// the renewal follows the platform's next response, and does not wait for the expiry.
func TestRenewalWaitsForThePlatformsWord(t *testing.T) {
	ending := material(func(m *Material) { m.NotAfter, m.Token = testWall.Add(20*time.Minute), claims("c", nil) })
	down := HeartbeatDone{Outcome: Outcome{Reason: diag.RecAPIUnreachable}}
	for name, events := range map[string][]What{
		"at the start":    {Started{}, ending},
		"after an outage": {Started{}, ending, down, TimerFired{TimerHeartbeat}, down, TimerFired{TimerHeartbeat}},
		"looked at twice": {Started{}, ending, down, TimerFired{TimerRenew}, ending, TimerFired{TimerHeartbeat}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := play(newState(), events...)
			s, got := play(s, HeartbeatDone{})
			if !strings.Contains(got, "CheckIdentity") {
				t.Fatalf("after the platform's word: %s", got)
			}
			if s, got = play(s, ending); !strings.HasSuffix(got, "record(cert_expiring identity renew) Enroll") {
				t.Errorf("got %s", got)
			}
			s, _ = play(s, EnrollDone{Outcome: Outcome{Reason: diag.RecAPIUnreachable}})
			if _, got = play(s, HeartbeatDone{}); strings.Contains(got, "CheckIdentity") {
				t.Errorf("a failed attempt has its back-off: %s", got)
			}
		})
	}
}

func TestChangedFilesAreLookedAt(t *testing.T) {
	s := servingState(healthy)
	if _, effects := Step(s, Event{Wall: testWall, Files: "2", What: TimerFired{TimerSummary}}); !strings.Contains(
		words(effects), "CheckIdentity") {
		t.Error(words(effects))
	}
	if _, effects := Step(s, Event{Wall: testWall, Files: "1", What: TimerFired{TimerSummary}}); strings.Contains(
		words(effects), "CheckIdentity") {
		t.Error(words(effects))
	}
}

// TestCountsOutliveTheProcess: a refusal, and an enrollment that was not made, are on the disk within a minute,
// and when the agent stops; a minute without new counts writes nothing.
func TestCountsOutliveTheProcess(t *testing.T) {
	refused := HeartbeatDone{Outcome: Outcome{Reason: diag.RecIdentityRejected, Status: 403}}
	kept := func(s State, what What) (State, *RecoveryCounters) {
		s, effects := Step(s, Event{Wall: testWall, What: what})
		for _, e := range effects {
			if save, ok := e.(SaveLedger); ok {
				return s, &save.Ledger.Counters
			}
		}
		return s, nil
	}
	tokened := material(func(m *Material) { m.Token = claims("c", nil) })
	s, _ := play(servingState(tokened), TimerFired{TimerHeartbeat}, refused, TimerFired{TimerHeartbeat}, refused)
	s, got := kept(s, TimerFired{TimerSummary})
	if got == nil || got.Rejections != 2 {
		t.Fatalf("after a minute: %+v", got)
	}
	if s, got = kept(s, TimerFired{TimerSummary}); got != nil {
		t.Errorf("nothing was counted, and %+v is written", got)
	}
	s.Ledger.Suppressed = Hold{Since: testWall, Material: s.Material.operator()}
	s, _ = play(s, TimerFired{TimerHeartbeat}, refused)
	s.Rejected = refused.Outcome
	s, _ = play(s, tokened)
	if _, got = kept(s, Shutdown{}); got == nil || got.Rejections != 3 || got.Suppressed != 1 {
		t.Errorf("at the end: %+v", got)
	}
}

func TestQuarantineTakesNoWork(t *testing.T) {
	s := servingState(healthy)
	s, got := play(s, TimerFired{TimerHeartbeat}, HeartbeatDone{Outcome: Outcome{Reason: diag.RecClonedIdentity}})
	if !strings.Contains(got, "record(cloned_identity_detected identity quarantine) SaveLedger") {
		t.Fatal(got)
	}
	if _, got := play(s, WaitDone{Task: signed("a", nil)}); !strings.Contains(got, "post(a failed node_quarantined)") ||
		strings.Contains(got, "WaitTask") {
		t.Error(got)
	}
	refused, _ := Step(s, Event{Wall: testWall, Roll: 0.9, What: WaitDone{Task: signed("a", nil)}})
	refused, effects := Step(refused,
		Event{Wall: testWall, Roll: 0.9,
			What: ResultPosted{TaskID: "a", Outcome: Outcome{Reason: diag.RecTaskResultPostFailed, Status: 403}}})
	if i := slices.Index(effects,
		Effect(SetTimer{TimerPost,
			slowRetry.base/10 + time.Duration(0.9*float64(slowRetry.base-slowRetry.base/10))})); i < 0 {
		t.Errorf("its results come slowly: %#v", effects)
	}
	if _, got := play(refused, TimerFired{TimerHeartbeat}, HeartbeatDone{}); !strings.Contains(got,
		"post(a failed node_quarantined)") {
		t.Errorf("once it is accepted again they come at once: %s", got)
	}
	if after, got := play(s, WaitDone{}, TimerFired{TimerHeartbeat},
		HeartbeatDone{}); after.Posture() != wire.PostureServing ||
		!strings.Contains(got, "record(cloned_identity_detected identity release)") {
		t.Errorf("%s %s", after.Posture(), got)
	}
}

func TestCordon(t *testing.T) {
	cordon := func(id string, payload string) WaitDone {
		return WaitDone{Task: signed(id, func(task *wire.Task) {
			task.Type, task.Payload = wire.TaskCordon, []byte(payload)
		})}
	}
	terminal := func(id string) WaitDone {
		return WaitDone{Task: signed(id, func(task *wire.Task) { task.Type = wire.TaskTerminalOpen })}
	}
	s, got := play(servingState(healthy), cordon("c1", `{"reason":"memory"}`))
	if !strings.Contains(got, "record(node_cordoned task stop) SaveLedger post(c1 completed)") {
		t.Fatal(got)
	}
	if _, got := play(s, terminal("t1")); !strings.Contains(got, "record(task_claim_failed task refuse)") {
		t.Error(got)
	}
	if _, got := play(s, WaitDone{Task: signed("n1", nil)}); !strings.Contains(got, "run(n1)") {
		t.Error(got)
	}
	s, _ = play(s, cordon("c2", `{"lift":true}`))
	if _, got := play(s, terminal("t2")); !strings.Contains(got, "run(t2)") {
		t.Error(got)
	}
}

// TestBudget simulates a crash loop: a process that restarts before its attempt ends, at random times.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Ledger
		now, real := testWall, testWall // the node's clock, and the time
		var counted []time.Time
		for range rapid.IntRange(1, 80).Draw(t, "starts") {
			passed := time.Duration(rapid.IntRange(0, 3*3600).Draw(t, "seconds")) * time.Second
			now, real = now.Add(passed), real.Add(passed)
			if rapid.IntRange(0, 9).Draw(t, "clock") == 0 {
				now = now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "back")) * time.Second)
			}
			l = l.normal(now)
			if wait, _ := l.overspent(now, "a"); wait > 0 {
				continue
			}
			l = l.begin(now, diag.RecCertExpired, "a")
			counted = append(counted, real)
			switch rapid.IntRange(0, 2).Draw(t, "end") {
			case 0:
				l = l.finish(attemptUnreached, "")
				counted = counted[:len(counted)-1]
			case 1:
				l = l.finish(attemptRefused, "")
			}
			for window, limit := range map[time.Duration]int{time.Hour: perHour, 24 * time.Hour: perDay} {
				n := 0
				for _, at := range counted {
					if real.Sub(at) < window {
						n++
					}
				}
				if n > limit {
					t.Fatalf("%d attempts in %v", n, window)
				}
			}
		}
	})
}

func TestTokenNeedsBothClocks(t *testing.T) {
	token := claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = testWall.Add(time.Minute) })
	for name, tc := range map[string]struct {
		c    Clocks
		want diag.RecordReason
	}{
		"both":           {Clocks{Own: testWall}, ""},
		"own is past":    {Clocks{Own: testWall.Add(time.Hour), Skew: -time.Hour, Known: true}, diag.RecClockSkew},
		"theirs is past": {Clocks{Own: testWall, Skew: time.Hour, Known: true}, diag.RecRecoveryTokenExpired},
	} {
		if o := token.refusal(tc.c, testNode, "lab", false); o.Reason != tc.want {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
