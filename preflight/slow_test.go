package preflight

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// servers answer late, over a healthy network and from healthy kernels, which accept connections at once and
// acknowledge all that they receive.
type servers struct {
	mu    sync.Mutex // guards rng and the state of late
	rng   *rand.Rand
	start time.Time
	late  lateness
	waits []string // the phases that wait for the server's process
}

// lateness returns how long a request waits for its answer if it comes since after the start.
type lateness func(rng *rand.Rand, since time.Duration) time.Duration

func (s *servers) wait(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*time.Millisecond + s.late(s.rng, at.Sub(s.start))
}

// someLate delays a share of all requests by up to eight seconds.
func someLate(share float64) lateness {
	return func(rng *rand.Rand, _ time.Duration) time.Duration {
		if rng.Float64() >= share {
			return 0
		}
		return time.Duration(rng.Float64() * float64(8*time.Second))
	}
}

// allLate delays every request by a time between from and to.
func allLate(from, to time.Duration) lateness {
	return func(rng *rand.Rand, _ time.Duration) time.Duration {
		return from + time.Duration(rng.Float64()*float64(to-from))
	}
}

// hungFirst never answers a request of the first half second, and then delays as then does.
func hungFirst(then lateness) lateness {
	return func(rng *rand.Rand, since time.Duration) time.Duration {
		if since < 500*time.Millisecond {
			return time.Minute
		}
		return then(rng, since)
	}
}

// halts is a process that halts and runs in turn, for average times still and runs: one that is stopped and continued,
// collects garbage, or gets no processor.
func halts(still, runs time.Duration) lateness {
	ends := []time.Duration{0} // of each turn; the first turn is a halt
	return func(rng *rand.Rand, since time.Duration) time.Duration {
		for ends[len(ends)-1] <= since {
			turn := still
			if len(ends)%2 == 0 {
				turn = runs
			}
			ends = append(ends, ends[len(ends)-1]+1+time.Duration(rng.ExpFloat64()*float64(turn)))
		}
		i := slices.IndexFunc(ends, func(end time.Duration) bool { return since < end })
		if i%2 == 0 {
			return 0
		}
		return ends[i] - since
	}
}

// pass sends a request to the servers. If its time ends, it fails in the phase that was too slow.
func (s *servers) pass(req diag.Request, limit time.Duration) passage {
	begun, connected := time.Now(), 2*time.Millisecond
	p := passage{took: connected, tcp: diag.TCPFacts{Remote: "192.0.2.11:443", Resent: new(int64),
		DurationMS: diag.Measured(connected)}}
	if req.Op == diag.OpTCP {
		p.passed = func(*diag.Fact) {}
		return p
	}
	handshake := time.Duration(0)
	for _, p.phase = range []string{"tls", "http"} {
		if slices.Contains(s.waits, p.phase) {
			p.took += s.wait(begun.Add(p.took))
		}
		if p.took > limit {
			break
		}
		if p.phase == "tls" {
			handshake = p.took - connected
		}
	}
	if p.phase == "http" && req.Op == diag.OpWS {
		p.phase = "ws"
	}
	p.passed = func(f *diag.Fact) {
		if f.TCP = &p.tcp; f.TLS == nil {
			f.TLS = &diag.TLSFacts{Verified: true}
		}
		f.TLS.DurationMS = diag.Measured(handshake)
	}
	return p
}

// TestSlowServersLoseNothing walks a healthy platform with slow servers over a healthy network. Which hops fail is
// chance, but no report may call the network lossy or prove that an input of a request makes it fail.
func TestSlowServersLoseNothing(t *testing.T) {
	walks := howOften(t, "GPUAASCTL_SLOW_WALKS", 50, 5)
	const ms = time.Millisecond
	for name, late := range map[string]func() lateness{
		"some are late":          func() lateness { return someLate(0.6) },
		"all are late":           func() lateness { return allLate(1000*ms, 6000*ms) },
		"a hang, then all late":  func() lateness { return hungFirst(allLate(900*ms, 1400*ms)) },
		"halts":                  func() lateness { return halts(3000*ms, 1000*ms) },
		"hardly runs":            func() lateness { return halts(3000*ms, 50*ms) },
		"a hang, then hardly so": func() lateness { return hungFirst(halts(900*ms, 50*ms)) },
	} {
		for _, waits := range [][]string{{"http"}, {"tls"}, {"tls", "http"}} {
			t.Run(name+" in "+strings.Join(waits, " and "), func(t *testing.T) {
				t.Parallel()
				words := seeded(t, walks, func(_ *testing.T, _ int, dice *rand.Rand) *diag.Report {
					s := &servers{rng: dice, start: time.Now(), late: late(), waits: waits}
					return walkFrom(context.Background(), testEnv(), bothAlong(s.pass))
				}, func(b diag.Blame) bool {
					return b.Confidence == diag.Proven || b.Signal == diag.SigNetworkUnstable
				})
				if walks > 20 && words["fail possible"]+words["inconclusive possible"] == 0 {
					t.Errorf("every walk passed: the test shows nothing")
				}
			})
		}
	}
}

// TestSilentHandshakeIsNotTheWay: if the connection was accepted and all that was sent arrived, an answer to the node
// does not put the fault on the operator's path.
func TestSilentHandshakeIsNotTheWay(t *testing.T) {
	silent := func(resent int64) func(*diag.Fact) {
		return func(f *diag.Fact) {
			failWith(diag.Timeout, "tls")(f)
			f.TCP.Resent, f.DurationMS = &resent, 5000
		}
	}
	for resent, blamed := range map[int64]bool{0: false, 3: true} {
		r := walkWith(t, answers{"control_plane_access/healthz": silent(resent),
			"control_plane_access/trust": silent(resent)})
		f := hopOf(r, diag.HopControlPlaneAccess).Finding
		if f.Status != diag.StatusFail || strings.Contains(f.Text+f.Culprit, "operator's way") != blamed {
			t.Errorf("with %d segments sent again: %s, culprit %q: %s", resent, f.Status, f.Culprit, f.Text)
		}
	}
}

// TestSilentAPIExplainsThePublicRoute: while the API gives no answer, everything behind its edges may be silent for the
// same reason. A route that answers with an error, or refuses the connection, has its own fault.
func TestSilentAPIExplainsThePublicRoute(t *testing.T) {
	silent := failWith(diag.HTTPTimeout, "http")
	for name, tc := range map[string]struct {
		route   func(*diag.Fact)
		outcome diag.Outcome
		blamed  diag.HopID
	}{
		"silent, too": {silent, diag.OutcomeInconclusive, diag.HopAllocationBinding},
		"refused":     {failWith(diag.TCPRefused, "tcp"), diag.OutcomeFail, diag.HopTerminalPublicRoute},
		"not there": {func(f *diag.Fact) {
			f.HTTP, f.Failure, f.Phase = &diag.HTTPFacts{Status: 404}, diag.HTTPStatus, "http"
		}, diag.OutcomeFail, diag.HopTerminalPublicRoute},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{"allocation_binding/allocation": silent, "terminal_public_route/healthz": tc.route})
			if v := r.Verdict; v.Outcome != tc.outcome || v.Blame == nil || v.Blame.Hop != tc.blamed {
				t.Errorf("%s\n%s", v.Outcome, describe(r))
			}
		})
	}
}
