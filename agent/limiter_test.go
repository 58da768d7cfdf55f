package agent

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/limitertest"
)

// canned gives every request of an api the same response, over a listener that requested the certificate.
type canned struct{ answer limitertest.Answer }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GotConn(httptrace.GotConnInfo{Conn: &tlsConn{asked: true}})
	trace.WroteHeaders()
	w := httptest.NewRecorder()
	c.answer.ServeHTTP(w, r)
	resp := w.Result()
	resp.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	return resp, nil
}

// exchanges lists all of the agent's exchanges, as functions from a response to an outcome.
var exchanges = map[string]func(t testing.TB, a *api) Outcome{
	"heartbeat": func(t testing.TB, a *api) Outcome {
		o, _, _ := a.heartbeat(t.Context(), wire.HeartbeatRequest{})
		return o
	},
	"task wait":   func(t testing.TB, a *api) Outcome { o, _, _ := a.wait(t.Context(), time.Second, 1); return o },
	"task result": func(t testing.TB, a *api) Outcome { return a.result(t.Context(), PostResult{TaskID: "t1"}) },
	"clock":       func(t testing.TB, a *api) Outcome { return a.askClock(t.Context()) },
}

func answeredBy(a limitertest.Answer) *api {
	t := &http.Transport{}
	t.RegisterProtocol("canned", canned{a})
	return &api{node: testNode, base: &url.URL{Scheme: "canned", Host: "x"},
		transport: func() *http.Transport { return t }}
}

// limited returns the outcomes of every exchange for every limiter.
func limited(t testing.TB) []Outcome {
	var all []Outcome
	for _, a := range limitertest.Limiters() {
		for _, name := range slices.Sorted(maps.Keys(exchanges)) {
			o := exchanges[name](t, answeredBy(a))
			o.Correlation, o.RetryAfter = "", 0 // the world checks ceilings without Retry-After
			all = append(all, o)
		}
	}
	return all
}

// TestLimitersAreNoDenial: every exchange treats a limiter's refusal alike, whatever its status and text, and
// treats look-alikes as before.
func TestLimitersAreNoDenial(t *testing.T) {
	for name, exchange := range exchanges {
		for _, a := range limitertest.Limiters() {
			o := exchange(t, answeredBy(a))
			if o.Reason != diag.RecEdgeRateLimited || o.Failure != diag.HTTPRateLimited || o.Final || o.OK() {
				t.Errorf("%s, %s (%d): %+v", name, a.Name, a.Status, o)
			}
		}
		for _, a := range limitertest.Others() {
			if o := exchange(t, answeredBy(a)); o.Reason == diag.RecEdgeRateLimited {
				t.Errorf("%s, %s (%d): %+v", name, a.Name, a.Status, o)
			}
		}
	}
	for _, a := range limitertest.Others()[:3] {
		if o, _, _ := answeredBy(a).wait(t.Context(), time.Second, 1); o.Reason != diag.RecIdentityRevoked {
			t.Errorf("%s: %+v", a.Name, o)
		}
	}
}

// TestLimitersSpendNoEnrollment: under any sequence of successes and of refusals by limiters, a node with a good
// certificate and a current token never requests another certificate, counts no rejection, and keeps running.
func TestLimitersSpendNoEnrollment(t *testing.T) {
	refusals := limited(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.limited = refusals
		w.event(Started{})
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			w.progress()
			l := w.state.Ledger
			if len(l.Attempts) > 0 || l.Counters.Attempts > 0 || l.Counters.Rejections > 0 || l.Suppressed.Active() ||
				l.Quarantined.Active() {
				t.Fatalf("ledger %+v", l)
			}
			if p := w.state.Posture(); p != wire.PostureServing {
				t.Fatalf("posture %s", p)
			}
		}
	})
}

// TestLimitedEnrollmentIsNoAttempt: a necessary enrollment that a limiter refuses does not count against the
// budget, and the token stays valid.
func TestLimitedEnrollmentIsNoAttempt(t *testing.T) {
	lost := material(func(m *Material) {
		m.Problem, m.Token, m.Profile = Outcome{Reason: diag.RecCertMissing}, claims("a", nil), "lab"
	})
	for _, a := range limitertest.Limiters() {
		o := answeredBy(a).do(t.Context(), call{method: http.MethodPost, path: wire.PathEnroll, token: diag.NewSecret("x"),
			timeout: enrollTimeout, fallback: diag.RecRecoveryEnrollmentBlocked})
		s, _ := play(newState(), Started{}, lost)
		for range 2 * allDay {
			s, _ = play(s, EnrollDone{Outcome: o})
			s, _ = play(s, TimerFired{TimerIdentity}, lost)
		}
		if wait, why := s.Ledger.overspent(testWall, "a"); wait > 0 || s.Ledger.isSpent("a") || s.Ledger.Suppressed.Active() {
			t.Errorf("%s (%d): %v %s, %+v", a.Name, a.Status, wait, why, s.Ledger)
		}
		if n := s.Ledger.Counters.Attempts; n < 2*allDay {
			t.Errorf("%s (%d): the node asked %d times", a.Name, a.Status, n)
		}
	}
}

// TestLimitedTerminalStream: the record names the limiter that refused the stream, and the session's task gets a
// limiter's code.
func TestLimitedTerminalStream(t *testing.T) {
	for _, a := range limitertest.Limiters()[:8] {
		t.Run(a.Name, func(t *testing.T) {
			p := newFakePlatform(t)
			p.instead("GET "+wire.PathNodeTerminal, a.ServeHTTP)
			cfg, rec := p.config(nil), newDecisions()
			cfg.Recorder = rec
			start(t, cfg)
			p.task("t1", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name})
			if r := p.resultOf("t1"); r.Status != wire.TaskFailed || !diag.LimiterCode(r.Error.Code) {
				t.Errorf("result %+v %+v", r, r.Error)
			}
			rec.await(t, func(d Decision) bool { return d.Reason == diag.RecEdgeRateLimited && d.TaskID == "t1" })
		})
	}
}
