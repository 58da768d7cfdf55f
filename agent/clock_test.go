package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAClockThatIsSet: the known offset to the platform's clock still gives the right time after this node's clock
// is set, and no certificate expires because of that.
func TestAClockThatIsSet(t *testing.T) {
	for name, tc := range map[string]struct {
		skew, set time.Duration // the platform's clock minus this one, then what this one is set by
	}{
		"right, after two days behind": {48 * time.Hour, 48 * time.Hour},
		"three days ahead":             {0, 72 * time.Hour},
		"two days back":                {0, -48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			platform := testWall.Add(tc.skew)
			look := material(func(m *Material) {
				m.NotBefore, m.NotAfter = platform.Add(-time.Hour), platform.Add(23*time.Hour)
				m.Token = claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = platform.Add(1000 * time.Hour) })
			})
			away := Outcome{Reason: diag.RecAPIUnreachable, Failure: diag.HTTPStatus, Status: 503, Dated: true, Skew: tc.skew}
			s, _ := play(newState(), Started{}, look, HeartbeatDone{Outcome: away})
			at := time.Minute
			for _, what := range []What{TimerFired{TimerRenew}, look} {
				var effects []Effect
				s, effects = Step(s, Event{At: at, Wall: testWall.Add(at + tc.set), What: what})
				if got := words(effects); strings.Contains(got, "Enroll") || s.Unusable {
					t.Errorf("%T: %s", what, got)
				}
			}
		})
	}
}

// TestTheBudgetIsThePlatformsHours: setting the clock ahead by a day does not start a new budget.
func TestTheBudgetIsThePlatformsHours(t *testing.T) {
	look := material(func(m *Material) {
		m.NotAfter = testWall.Add(-time.Minute)
		m.Token = claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = testWall.Add(1000 * time.Hour) })
	})
	s := newState()
	for range perHour {
		s.Ledger = s.Ledger.begin(testWall, diag.RecCertExpired, "c").finish(attemptRefused, "")
	}
	s, _ = play(s, Started{}, look, ClockAsked{Outcome{Dated: true}})
	_, effects := Step(s, Event{At: time.Minute, Wall: testWall.Add(49 * time.Hour), What: look})
	if got := words(effects); strings.Contains(got, "Enroll") {
		t.Error(got)
	}
}

// TestALongPollSaysTheTimeOfItsEnd: the Date of a response that took an hour is compared with the time of its
// arrival.
func TestALongPollSaysTheTimeOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			fmt.Fprintf(far, "HTTP/1.1 504 Gateway Timeout\r\nDate: %s\r\nContent-Length: 0\r\n\r\n",
				time.Now().UTC().Format(http.TimeFormat))
		}()
		transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			return near, nil
		}}
		a := &api{node: testNode, base: &url.URL{Scheme: "https", Host: "api.test"}, transport: func() *http.Transport {
			return transport
		}}
		o := a.do(t.Context(), call{method: http.MethodGet, path: wire.PathTaskWait, timeout: 2 * time.Hour,
			fallback: diag.RecTaskPollFailed})
		if !o.Dated || o.Skew.Abs() > time.Second {
			t.Errorf("%+v", o)
		}
		transport.CloseIdleConnections()
	})
}

// TestADateThatTheHeartbeatsRefute: a listener with a wrong clock does not make the agent discard a certificate
// that the platform accepts.
func TestADateThatTheHeartbeatsRefute(t *testing.T) {
	look := material(func(m *Material) {
		m.Token = claims("c", func(c *wire.TokenClaims) { c.ExpiresAt = testWall.Add(1000 * time.Hour) })
	})
	s, _ := play(newState(), Started{}, look, HeartbeatDone{Outcome: Outcome{Dated: true, Skew: 48 * time.Hour}})
	s, got := play(s, TimerFired{TimerRenew}, look)
	if strings.Contains(got, "Enroll") || s.Unusable || !strings.Contains(got, "record(clock_skew identity report)") {
		t.Errorf("%s", got)
	}
	s, got = play(s, HeartbeatDone{Outcome: Outcome{Reason: diag.RecCertExpired, Failure: diag.MTLSIngress400}}, look)
	if !strings.Contains(got, "Enroll") {
		t.Errorf("and when the platform refuses it: %s", got)
	}
}

// TestTheTimeIsAskedForAgain: after an outage the first listener that responds provides the time before a token is
// spent according to this node's clock.
func TestTheTimeIsAskedForAgain(t *testing.T) {
	look := material(func(m *Material) { m.NotAfter, m.Token = testWall.Add(-time.Hour), claims("c", nil) })
	s, _ := play(newState(), Started{}, look, ClockAsked{refused}, EnrollDone{Outcome: refused}, TimerFired{TimerIdentity})
	s, got := play(s, look)
	if got != "AskClock" {
		t.Fatal(got)
	}
	if _, got = play(s, ClockAsked{Outcome{Dated: true, Skew: -2 * time.Hour}}); strings.Contains(got, "Enroll") {
		t.Error(got)
	}
}

// TestANewTokenAnswersADenial: a node that was revoked while it had no usable certificate tries again when an
// operator gives it another token, and not before.
func TestANewTokenAnswersADenial(t *testing.T) {
	look := func(token string) What {
		return material(func(m *Material) { m.NotAfter, m.Token = testWall.Add(-time.Hour), claims(token, nil) })
	}
	s, _ := play(newState(), Started{}, look("a"), ClockAsked{Outcome{Dated: true}},
		EnrollDone{Outcome: Outcome{Reason: diag.RecIdentityRevoked, Sent: true, Status: 403, Code: wire.DenyRevoked}})
	s, got := play(s, TimerFired{TimerIdentity}, look("a"))
	if strings.Contains(got, "Enroll") || s.Posture() != wire.PostureStopped {
		t.Fatalf("%s, %s", got, s.Posture())
	}
	if _, got = play(s, look("b")); !strings.Contains(got, "Enroll") {
		t.Errorf("with another token: %s", got)
	}
}
