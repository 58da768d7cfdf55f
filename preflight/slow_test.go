package preflight

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// servers answer late; the network to them is well, and so are the kernels on both ends: they take connections at once
// and acknowledge whatever comes.
type servers struct {
	mu    sync.Mutex // guards rng and what late keeps
	rng   *rand.Rand
	start time.Time
	late  lateness
	waits []string // the phases in which their processes have a part
}

// lateness is how long it takes until what comes so long after the start is answered.
type lateness func(rng *rand.Rand, since time.Duration) time.Duration

func (s *servers) wait(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*time.Millisecond + s.late(s.rng, at.Sub(s.start))
}

// someLate answers a share of all requests after up to eight seconds.
func someLate(share float64) lateness {
	return func(rng *rand.Rand, _ time.Duration) time.Duration {
		if rng.Float64() >= share {
			return 0
		}
		return time.Duration(rng.Float64() * float64(8*time.Second))
	}
}

// allLate answers everything after about so long.
func allLate(from, to time.Duration) lateness {
	return func(rng *rand.Rand, _ time.Duration) time.Duration {
		return from + time.Duration(rng.Float64()*float64(to-from))
	}
}

// hungFirst never answers what came at the start.
func hungFirst(then lateness) lateness {
	return func(rng *rand.Rand, since time.Duration) time.Duration {
		if since < 500*time.Millisecond {
			return time.Minute
		}
		return then(rng, since)
	}
}

// halts is a process that halts and runs in turn, for so long on average: one that is stopped and continued,
// collects garbage, or gets no processor.
func halts(still, runs time.Duration) lateness {
	ends := []time.Duration{0} // of each turn; the first of those that come is a halt
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

// served is a vantage whose questions to others go to servers that are slow.
type served struct {
	scripted
	servers *servers
}

func (v *served) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, v.ask)
}

func (v *served) ask(ctx context.Context, req diag.Request) diag.Fact {
	f := v.scripted.Probe(ctx, []diag.Request{req})[0]
	if !req.Op.Row().Ladder {
		return f
	}
	limit := 5 * time.Second
	if req.TimeoutMS > 0 {
		limit = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	begun, connected := time.Now(), 2*time.Millisecond
	took, phase, handshake := connected, "", time.Duration(0)
	if req.Op != diag.OpTCP {
		for _, phase = range []string{"tls", "http"} {
			if slices.Contains(v.servers.waits, phase) {
				took += v.servers.wait(begun.Add(took))
			}
			if took > limit {
				break
			}
			if phase == "tls" {
				handshake = took - connected
			}
		}
		if phase == "http" && req.Op == diag.OpWS {
			phase = "ws"
		}
	}
	select {
	case <-time.After(min(took, limit)):
	case <-ctx.Done():
		f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = diag.Cancelled, "", nil, nil, nil
		return f
	}
	none := int64(0)
	remote := &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &none, DurationMS: diag.Measured(connected)}
	f.DurationMS = diag.Measured(min(took, limit))
	switch {
	case took <= limit && req.Op != diag.OpTCP:
		if f.TCP = remote; f.TLS == nil {
			f.TLS = &diag.TLSFacts{Verified: true}
		}
		f.TLS.DurationMS = diag.Measured(handshake)
	case took <= limit:
	case phase == "tls":
		failWith(diag.Timeout, phase)(&f)
		f.TCP = remote
	default:
		failWith(diag.HTTPTimeout, phase)(&f)
		f.TCP = remote
	}
	return f
}

// TestSlowServersLoseNothing walks a healthy platform whose servers are slow, over a network that is well. Which hops
// fail is chance; that nothing was lost is not, and neither is that no input of a request makes it fail.
func TestSlowServersLoseNothing(t *testing.T) {
	walks := 50
	if testing.Short() { // the race detector's run: the code is the same
		walks = 5
	}
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_SLOW_WALKS")); err == nil {
		walks = n
	}
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
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				words := map[string]int{}
				for i := range walks {
					synctest.Test(t, func(t *testing.T) {
						s := &servers{rng: rand.New(rand.NewPCG(seed, uint64(i))), start: time.Now(), late: late(), waits: waits}
						r := walkBehind(s)
						words[string(r.Verdict.Outcome)+" "+string(r.Verdict.Confidence)]++
						for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
							if b.Signal == diag.SigNetworkUnstable {
								t.Errorf("seed %d, walk %d: %s %s: %s", seed, i, b.Hop, b.Signal, b.Text)
							}
							if b.Confidence == diag.Proven {
								t.Errorf("seed %d, walk %d: %s %s is proven: %s\n%s", seed, i, b.Hop, b.Signal, b.Proof.Text, b.Text)
							}
						}
						if _, err := Replay(r); err != nil {
							t.Errorf("seed %d, walk %d: %v", seed, i, err)
						}
					})
				}
				t.Log(words)
				if walks > 20 && words["fail possible"]+words["inconclusive possible"] == 0 {
					t.Errorf("every walk passed: the test shows nothing")
				}
			})
		}
	}
}

// walkBehind walks with the operator and the node before the same servers.
func walkBehind(s *servers) *diag.Report {
	vantages := map[string]Vantage{Platform: &scripted{name: Platform}}
	for _, v := range []string{Operator, Node} {
		vantages[v] = &served{scripted{name: v}, s}
	}
	return walkFrom(context.Background(), testEnv(), vantages)
}

// TestSilentHandshakeIsNotTheWay: where the connection was taken and all that was sent arrived, an answer to the node
// does not show that the operator's way is at fault.
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

// TestSilentAPIExplainsThePublicRoute: while the API is silent, so may be all that is behind its edges; an answer of
// the route's own, or a connection that does not come about, is a fault of its own.
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
