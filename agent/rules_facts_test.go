package agent

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestCertificateIsJudged: the problem with a certificate, and whether the platform's clock speaks for it, at each
// bound of its dates by both clocks. It is valid for a day from testWall on, both ends included.
func TestCertificateIsJudged(t *testing.T) {
	const day, hour, tick = 24 * time.Hour, time.Hour, time.Nanosecond
	known := func(own, skew time.Duration) Clocks { return Clocks{Own: testWall.Add(own), Skew: skew, Known: true} }
	alone := func(own time.Duration) Clocks { return Clocks{Own: testWall.Add(own)} }
	named := func(names ...string) func(*Material) { return func(m *Material) { m.Names = names } }
	lost := func(m *Material) { m.Problem = Outcome{Reason: diag.RecCertMissing} }
	for name, tc := range map[string]struct {
		change func(*Material)
		clocks Clocks
		want   diag.RecordReason
		unsure bool
	}{
		"its first moment":                   {nil, alone(0), "", false},
		"its last moment":                    {nil, alone(day), "", false},
		"before it by this clock alone":      {nil, alone(-tick), diag.RecClockSkew, false},
		"after it by this clock alone":       {nil, alone(day + tick), diag.RecCertExpired, true},
		"before it by both":                  {nil, known(-tick, 0), diag.RecCertNotYetValid, false},
		"after it by both":                   {nil, known(day+tick, 0), diag.RecCertExpired, false},
		"before it by this clock, not that":  {nil, known(-hour, 2*hour), diag.RecClockSkew, false},
		"after it by this clock, not that":   {nil, known(day+hour, -2*hour), diag.RecClockSkew, false},
		"before it by that clock, not this":  {nil, known(hour, -2*hour), diag.RecClockSkew, false},
		"after it by that clock, not this":   {nil, known(day-hour, 2*hour), diag.RecCertExpired, false},
		"after it by that, before by this":   {nil, known(-hour, day+2*hour), diag.RecCertExpired, false},
		"a small skew is none":               {nil, known(day, 30*time.Second), "", false},
		"a skew above that":                  {nil, known(day, 30*time.Second+1), diag.RecCertExpired, false},
		"another node's":                     {named("node-2"), alone(0), diag.RecIdentityRejected, false},
		"nobody's":                           {named(), alone(0), diag.RecIdentityRejected, false},
		"this node's by its second name":     {named("node-2", testNode), alone(0), "", false},
		"another node's, and it has ended":   {named("node-2"), alone(day + hour), diag.RecIdentityRejected, false},
		"lost, whatever its names and dates": {lost, alone(day + hour), diag.RecCertMissing, false},
	} {
		m := Material{Names: []string{testNode}, NotBefore: testWall, NotAfter: testWall.Add(day)}
		if tc.change != nil {
			tc.change(&m)
		}
		if o, sure := m.judge(testNode, tc.clocks); o.Reason != tc.want || sure == tc.unsure {
			t.Errorf("%s: %q, sure %v; want %q, %v", name, o.Reason, sure, tc.want, !tc.unsure)
		}
	}
}

// TestTokenIsRefusedFor: the reasons not to use a token, in their order. It is good for an hour from testWall on.
func TestTokenIsRefusedFor(t *testing.T) {
	const hour = time.Hour
	at := func(own, skew time.Duration) Clocks { return Clocks{Own: testWall.Add(own), Skew: skew, Known: true} }
	typed := claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = testWall.Add(hour) })
	others := typed
	others.Claims.NodeID = "node-2"
	nobodys := others
	nobodys.Claims.Profile = ""
	for name, tc := range map[string]struct {
		token   TokenFacts
		clocks  Clocks
		profile string
		never   bool
		want    diag.RecordReason
		detail  string
	}{
		"good":                    {typed, at(0, 0), "lab", false, "", ""},
		"good to its last moment": {typed, at(hour-1, 0), "lab", false, "", ""},
		"none":                    {TokenFacts{}, at(0, 0), "lab", true, diag.RecRecoveryTokenMissing, "no token"},
		"untyped": {TokenFacts{Digest: "o"}, at(0, 0), "lab", false, diag.RecRecoveryTokenMissing,
			"does not say"},
		"untyped, for the first": {TokenFacts{Digest: "o"}, at(0, 0), "lab", true, "", ""},
		"another node's": {nobodys, at(2*hour, 0), "lab", true, diag.RecRecoveryEnrollmentBlocked,
			`for node "node-2"`},
		"another profile's": {typed, at(2*hour, 0), "prod", true, diag.RecRecoveryEnrollmentBlocked,
			`for profile "lab"`},
		"of a profile, where any is": {typed, at(0, 0), "", false, "", ""},
		"at its end by both clocks":  {typed, at(hour, 0), "lab", false, diag.RecRecoveryTokenExpired, "this clock says"},
		"at its end by this clock":   {typed, at(hour, -hour), "lab", false, diag.RecClockSkew, "by the platform's clock"},
		"at its end by that clock": {typed, at(0, hour), "lab", false, diag.RecRecoveryTokenExpired,
			"the platform's clock says"},
		"just before, by that clock": {typed, at(0, hour-1), "lab", false, "", ""},
	} {
		o := tc.token.refusal(tc.clocks, testNode, tc.profile, tc.never)
		if o.Reason != tc.want || !strings.Contains(o.Detail, tc.detail) {
			t.Errorf("%s: %q: %s; want %q with %q", name, o.Reason, o.Detail, tc.want, tc.detail)
		}
	}
}

// TestDrifted: a difference of the host counts, and nothing else.
func TestDrifted(t *testing.T) {
	for handed, want := range map[string]bool{"https://other.test": true, "https://api.test:444": true,
		"https://api.test": false, "https://API.test/v2": false, "": false, "https://%": false} {
		if got := (&Material{HandedOut: handed}).drifted("https://api.test/v1"); (got != "") != want {
			t.Errorf("%s: %q", handed, got)
		}
	}
	if got := (&Material{HandedOut: "https://api.test"}).drifted("https://%"); got != "" {
		t.Errorf("an unreadable URL of this agent: %q", got)
	}
}

// TestPosture: the gravest state counts.
func TestPosture(t *testing.T) {
	on := Hold{Since: testWall}
	ok := func(*State) {}
	unusable := func(s *State) { s.Unusable = true }
	for name, tc := range map[string]struct {
		change func(*State)
		want   string
	}{
		"nothing":              {ok, wire.PostureServing},
		"cordoned":             {func(s *State) { s.Ledger.Cordoned = on }, wire.PostureServing},
		"no usable credential": {unusable, wire.PostureRecovering},
		"refused":              {rejectedBefore, wire.PostureRecovering},
		"suppressed":           {suppressed, wire.PostureRecovering},
		"held":                 {func(s *State) { unusable(s); s.Hold = "x" }, wire.PostureStopped},
		"a heartbeat says revoked": {func(s *State) { unusable(s); s.Heartbeat.Failing = diag.RecIdentityRevoked },
			wire.PostureStopped},
		"a poll says revoked": {func(s *State) { s.Wait.Failing = diag.RecIdentityRevoked }, wire.PostureStopped},
		"an enrollment says revoked": {func(s *State) { s.Identity.Failing = diag.RecIdentityRevoked },
			wire.PostureStopped},
		"a result does not say": {func(s *State) { s.Post.Failing = diag.RecIdentityRevoked }, wire.PostureServing},
		"another failure":       {func(s *State) { s.Heartbeat.Failing = diag.RecCertExpired }, wire.PostureServing},
		"quarantined, held, unusable": {func(s *State) { unusable(s); s.Hold = "x"; quarantined(s) },
			wire.PostureQuarantined},
	} {
		s := servingExactly()
		tc.change(&s)
		if got := s.Posture(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		change func(*State)
		want   bool
	}{{ok, false}, {quarantined, true}, {func(s *State) { s.Observed.Denied = "revoked" }, true}} {
		s := servingExactly()
		if tc.change(&s); s.denied() != tc.want {
			t.Errorf("denied %v, want %v", s.denied(), tc.want)
		}
	}
}

// TestCountersHaveTheirNames: each counter is sent under its own name.
func TestCountersHaveTheirNames(t *testing.T) {
	s := State{Counters: Counters{Heartbeats: 1, HeartbeatFailures: 2, Polls: 3, PollFailures: 4, Tasks: 5, TasksFailed: 6,
		Refused: 7, ResultsPosted: 8, ResultFailures: 9, Sessions: 10}}
	s.Ledger.Counters = RecoveryCounters{Rejections: 11, Attempts: 12, Successes: 13, Failures: 14, Suppressed: 15}
	want := map[string]int64{"heartbeats": 1, "heartbeat_failures": 2, "task_polls": 3, "task_poll_failures": 4,
		"tasks":        5,
		"tasks_failed": 6, "tasks_refused": 7, "results_posted": 8, "result_post_failures": 9, "terminal_sessions": 10,
		"identity_rejections": 11, "enrollment_attempts": 12, "enrollment_successes": 13, "enrollment_failures": 14,
		"enrollment_suppressed": 15}
	if got := s.counters(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBudgetOfATokenAndOfAllTokens: three an hour and six a day for a token, twelve a day for all; an attempt that
// reached nobody costs nothing.
func TestBudgetOfATokenAndOfAllTokens(t *testing.T) {
	const day, hour = 24 * time.Hour, time.Hour
	type made struct {
		n     int
		token string
		ago   time.Duration
		as    string
	}
	for name, tc := range map[string]struct {
		attempts []made
		wait     time.Duration
		why      string
	}{
		"none":           {nil, 0, ""},
		"two in an hour": {[]made{{2, "a", 0, attemptRefused}}, 0, ""},
		"three in an hour": {[]made{{3, "a", 10 * time.Minute, attemptRefused}}, 50 * time.Minute,
			"3 attempts in 1h0m0s are enough"},
		"the oldest of three leaves": {[]made{{1, "a", hour - 1, attemptRefused}, {2, "a", 0, attemptRefused}}, 1,
			"3 attempts in 1h0m0s are enough"},
		"the oldest of three has left": {[]made{{1, "a", hour, attemptRefused}, {2, "a", 0, attemptRefused}}, 0, ""},
		"the third of four leaves": {[]made{{1, "a", 50 * time.Minute, attemptRefused}, {3, "a", 20 * time.Minute,
			attemptRefused}}, 40 * time.Minute, "4 attempts in 1h0m0s are enough"},
		"those that succeeded count":       {[]made{{3, "a", 0, attemptConfirmed}}, hour, "3 attempts in 1h0m0s are enough"},
		"those that did not end count":     {[]made{{3, "a", 0, attemptPending}}, hour, "3 attempts in 1h0m0s are enough"},
		"those that reached nobody do not": {[]made{{9, "a", 0, attemptUnreached}}, 0, ""},
		"those of another token do not":    {[]made{{3, "b", 0, attemptRefused}}, 0, ""},
		"five in a day":                    {[]made{{5, "a", 2 * hour, attemptRefused}}, 0, ""},
		"six in a day": {[]made{{6, "a", 2 * hour, attemptRefused}}, 22 * hour,
			"6 attempts in 24h0m0s are enough"},
		"six in more than a day": {[]made{{1, "a", day, attemptRefused}, {5, "a", 2 * hour, attemptRefused}}, 0,
			""},
		"eleven of all tokens": {[]made{{6, "b", 2 * hour, attemptRefused}, {5, "c", 2 * hour, attemptRefused}},
			0, ""},
		"twelve of all tokens": {[]made{{6, "b", 2 * hour, attemptRefused}, {6, "c", 2 * hour, attemptRefused}},
			22 * hour, "12 attempts in 24h0m0s are enough"},
		"twelve of all in more than a day": {[]made{{1, "b", day, attemptRefused}, {11, "c", 2 * hour, attemptRefused}}, 0,
			""},
	} {
		var l Ledger
		for _, m := range tc.attempts {
			for range m.n {
				l = l.begin(testWall.Add(-m.ago), diag.RecCertMissing, m.token).finish(m.as, "")
			}
		}
		if wait, why := l.overspent(testWall, "a"); wait != tc.wait || why != tc.why {
			t.Errorf("%s: %v %q, want %v %q", name, wait, why, tc.wait, tc.why)
		}
	}
}

// TestLedgerIsBounded: the newest attempts and spent tokens stay; nothing is spent twice, and no token is none.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	for i := range maxAttempts + 2 {
		l = l.begin(testWall, diag.RecCertMissing, fmt.Sprint("t", i))
	}
	if n := len(l.Attempts); n != 24 || l.Attempts[0].Token != "t2" || l.Attempts[23].Token != "t25" {
		t.Errorf("%d attempts, from %s to %s", n, l.Attempts[0].Token, l.Attempts[n-1].Token)
	}
	for i := range maxSpent + 2 {
		l = l.spend(fmt.Sprint("s", i)).spend(fmt.Sprint("s", i)).spend("")
	}
	if want := []string{"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"}; !slices.Equal(l.Spent, want) {
		t.Errorf("spent %v, want %v", l.Spent, want)
	}
}

// TestLedgerKnowsItsTokens: a token has brought a certificate if an attempt with it was enrolled or confirmed, or if
// the platform said so; only the newest attempt is unconfirmed.
func TestLedgerKnowsItsTokens(t *testing.T) {
	for result, want := range map[string]struct{ used, unconfirmed bool }{
		attemptPending: {}, attemptUnreached: {}, attemptRefused: {}, attemptEnrolled: {true, true}, attemptConfirmed: {true,
			false},
	} {
		l := Ledger{}.begin(testWall, diag.RecCertMissing, "a").finish(result, "")
		if l.used("a") != want.used || l.used("b") || l.unconfirmed() != want.unconfirmed {
			t.Errorf("%s: used %v, another %v, unconfirmed %v", result, l.used("a"), l.used("b"), l.unconfirmed())
		}
	}
	l := Ledger{}.begin(testWall, diag.RecCertMissing, "a").finish(attemptEnrolled, "")
	if l = l.begin(testWall, diag.RecCertMissing, "a"); l.unconfirmed() {
		t.Error("an attempt is pending, and the one before it unconfirmed")
	}
	if l = (Ledger{}).spend("a"); !l.used("a") || l.used("b") || l.unconfirmed() {
		t.Errorf("a spent token: %+v", l)
	}
	if got := (Ledger{}).finish(attemptRefused, "x"); len(got.Attempts) != 0 {
		t.Errorf("the end of no attempt: %+v", got)
	}
}

// TestSuppressionHolds: for twelve hours, and for the material that was rejected.
func TestSuppressionHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		hold     Hold
		after    time.Duration
		material string
		want     bool
	}{
		"none":              {Hold{}, 0, "", false},
		"at once":           {Hold{Since: testWall, Material: "m"}, 0, "m", true},
		"almost half a day": {Hold{Since: testWall, Material: "m"}, 12*time.Hour - 1, "m", true},
		"half a day":        {Hold{Since: testWall, Material: "m"}, 12 * time.Hour, "m", false},
		"other material":    {Hold{Since: testWall, Material: "m"}, 0, "n", false},
	} {
		if got := (&Ledger{Suppressed: tc.hold}).suppresses(testWall.Add(tc.after), tc.material); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMaterialOfAnOperator: each thing that an operator can replace makes other material.
func TestMaterialOfAnOperator(t *testing.T) {
	seen := map[string]string{}
	for name, m := range map[string]Material{"none": {}, "token": {Token: TokenFacts{Digest: "x"}},
		"bundle":          {Bundle: "x"},
		"recovery bundle": {Recovery: "x"}, "certificate": {Serial: "x"}} {
		if other, is := seen[m.operator()]; is {
			t.Errorf("%s is the same material as %s", name, other)
		}
		seen[m.operator()] = name
	}
}

// TestLedgerOfAClockThatWasAhead: what lies in the future counts as now, and the past stays.
func TestLedgerOfAClockThatWasAhead(t *testing.T) {
	l := Ledger{Suppressed: Hold{Since: testWall.Add(time.Hour)}}
	for _, at := range []time.Duration{-time.Hour, 0, time.Hour} {
		l = l.begin(testWall.Add(at), diag.RecCertMissing, "a")
	}
	got := l.normal(testWall)
	for i, want := range []time.Duration{-time.Hour, 0, 0} {
		if at := got.Attempts[i].At; !at.Equal(testWall.Add(want)) {
			t.Errorf("attempt %d at %v, want %v", i, at, testWall.Add(want))
		}
	}
	if !got.Suppressed.Since.Equal(testWall) || !l.Attempts[2].At.Equal(testWall.Add(time.Hour)) {
		t.Errorf("suppressed since %v; the ledger before %v", got.Suppressed.Since, l.Attempts[2].At)
	}
	l.Suppressed.Since = testWall.Add(-time.Hour)
	if got := l.normal(testWall); !got.Suppressed.Since.Equal(testWall.Add(-time.Hour)) {
		t.Errorf("suppressed since %v", got.Suppressed.Since)
	}
}

// TestPaces: the ceilings of the first attempts for each kind of failure, at an interval of ten seconds, up to its cap.
func TestPaces(t *testing.T) {
	const s = time.Second
	short, medium := []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 20 * s, 20 * s}, []time.Duration{2 * s, 4 * s,
		8 * s, 16 * s, 32 * s, 64 * s, 80 * s, 80 * s}
	long := []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 200 * s, 200 * s}
	limited := []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 80 * s}
	for reason, want := range map[diag.RecordReason][]time.Duration{
		diag.RecAPIUnreachable: short, diag.RecTaskPollFailed: short, diag.RecServerTLSUntrusted: {2 * s, 4 * s, 8 * s,
			16 * s, 32 * s, 40 * s, 40 * s},
		diag.RecIdentityRejected: medium, diag.RecCertExpired: medium, diag.RecCertNotYetValid: medium,
		diag.RecCertKeyMismatch: medium, diag.RecCertMissing: medium,
		diag.RecIdentityRevoked: long, diag.RecClonedIdentity: long, diag.RecRecoveryTokenExpired: long,
		diag.RecRecoveryEnrollmentBlocked: long, diag.RecClockSkew: long, diag.RecRecoverySuppressed: long,
		diag.RecEndpointProfileDrift: limited, diag.RecEdgeRateLimited: limited, diag.RecRecoveryTokenMissing: limited,
	} {
		for _, slow := range []bool{false, true} {
			if slow {
				want = long
			}
			var b Backoff
			for i, most := range want {
				var attempt int
				var delay, ceiling time.Duration
				b, attempt, delay, ceiling = b.Failed(Outcome{Reason: reason, Slow: slow}, 10*s, 0.5)
				if ceiling != most || attempt != i+1 || delay != most*11/20 {
					t.Errorf("%s, slow %v, attempt %d: number %d, %v of %v, want %v", reason, slow, i+1, attempt, delay, ceiling, most)
				}
			}
		}
	}
	for after, want := range map[time.Duration]time.Duration{-s: s / 20, 0: s / 20, s: s + s/20, time.Hour: time.Hour +
		s/20,
		2 * time.Hour: time.Hour + s/20} {
		if _, _, delay, _ := (Backoff{}).Failed(Outcome{Reason: diag.RecAPIUnreachable, RetryAfter: after}, 10*s,
			0); delay != want {
			t.Errorf("Retry-After %v: %v, want %v", after, delay, want)
		}
	}
}

// TestReasonOfARefusal: which reason the record gets for a failed exchange. asked: the listener requested the
// certificate, so that it is the node API.
func TestReasonOfARefusal(t *testing.T) {
	const fallback = diag.RecTaskPollFailed
	status := func(status int, code string) Outcome {
		return Outcome{Failure: diag.HTTPStatus, Status: status,
			Code: code}
	}
	both := func(r diag.RecordReason) [2]diag.RecordReason { return [2]diag.RecordReason{r, r} }
	asked := func(r diag.RecordReason) [2]diag.RecordReason {
		return [2]diag.RecordReason{r, diag.RecIdentityRejected}
	}
	for name, tc := range map[string]struct {
		o     Outcome
		local diag.RecordReason
		want  [2]diag.RecordReason // asked, and not
	}{
		"no name":        {Outcome{Failure: diag.DNSNXDomain}, "", both(diag.RecDNSFailed)},
		"unknown CA":     {Outcome{Failure: diag.TLSUnknownCA}, "", both(diag.RecServerTLSUntrusted)},
		"server expired": {Outcome{Failure: diag.TLSExpired}, "", both(diag.RecServerTLSUntrusted)},
		"server too new": {Outcome{Failure: diag.TLSNotYetValid}, "", both(diag.RecServerTLSUntrusted)},
		"another server": {Outcome{Failure: diag.TLSNameMismatch}, "", both(diag.RecServerTLSUntrusted)},
		"a limiter": {Outcome{Failure: diag.HTTPRateLimited, Status: 403, Code: wire.DenyRevoked}, "",
			both(diag.RecEdgeRateLimited)},
		"a public edge": {Outcome{Failure: diag.MTLSNotRequested, Status: 403, Code: wire.DenyRevoked}, "",
			both(diag.RecEndpointProfileDrift)},
		"an alert": {Outcome{Failure: diag.MTLSCertExpired}, "", both(diag.RecIdentityRejected)},
		"an alert, and the dates": {Outcome{Failure: diag.MTLSIngress400, Status: 400}, diag.RecCertExpired,
			both(diag.RecCertExpired)},
		"refused":         {refused, "", both(diag.RecAPIUnreachable)},
		"no bundle":       {Outcome{Failure: diag.FileMissing}, "", both(diag.RecServerTLSUntrusted)},
		"401 of a page":   {status(401, ""), "", both(fallback)},
		"403 of a page":   {status(403, ""), "", both(fallback)},
		"an unknown code": {status(403, "other"), "", both(diag.RecIdentityRejected)},
		"expired":         {status(401, wire.DenyExpired), "", asked(diag.RecCertExpired)},
		"not bound":       {status(403, wire.DenyNotNodeBound), "", asked(diag.RecIdentityRejected)},
		"revoked":         {status(403, wire.DenyRevoked), "", asked(diag.RecIdentityRevoked)},
		"fenced":          {status(403, wire.DenyFenced), "", asked(diag.RecIdentityRevoked)},
		"retired":         {status(403, wire.DenyRetired), "", asked(diag.RecIdentityRevoked)},
		"cloned":          {status(403, wire.DenyCloned), "", asked(diag.RecClonedIdentity)},
		"another profile": {status(403, wire.DenyProfileMismatch), "", asked(diag.RecEndpointProfileDrift)},
		"an old token":    {status(401, wire.DenyTokenExpired), "", both(diag.RecRecoveryTokenExpired)},
		"a used token":    {status(403, wire.DenyTokenConsumed), "", both(diag.RecRecoveryEnrollmentBlocked)},
		"402":             {status(402, wire.DenyRevoked), "", both(fallback)},
		"404":             {status(404, wire.DenyRevoked), "", both(fallback)},
		"500":             {status(500, ""), "", both(fallback)},
	} {
		for i, asked := range []bool{true, false} {
			local := func(time.Time) diag.RecordReason { return tc.local }
			if got := reasonFor(tc.o, asked, local, testWall, fallback); got != tc.want[i] {
				t.Errorf("%s, asked %v: %q, want %q", name, asked, got, tc.want[i])
			}
		}
	}
}

// TestGoodPairs: a pair is good for a node that its certificate names, until it ends.
func TestGoodPairs(t *testing.T) {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "cn"}, DNSNames: []string{"dns"}, NotAfter: testWall}
	for name, tc := range map[string]struct {
		node string
		at   time.Duration
		want bool
	}{
		"its common name": {"cn", -1, true}, "its other name": {"dns", -1, true}, "another node": {"x", -1, false},
		"its end": {"cn", 0, false}, "no name": {"", -1, false},
	} {
		if got := good(tc.node, testWall.Add(tc.at))(tls.Certificate{Leaf: leaf}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
