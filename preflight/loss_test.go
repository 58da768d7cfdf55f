package preflight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// network is a path that loses and reorders packets, between healthy ends: every failure over it is due to the loss.
type network struct {
	mu      sync.Mutex // guards rng
	rng     *rand.Rand
	loss    float64 // share of lost packets, in either direction
	reorder float64
	noNames bool // the hosts file has them all
}

func (n *network) lost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < n.loss
}

func (n *network) late() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < n.reorder
}

// send returns how long one segment of a connection takes to arrive, and how often it was sent again, with a timer that
// doubles.
func (n *network) send(timer time.Duration) (took time.Duration, again int64) {
	took = 2 * time.Millisecond
	for n.lost() && again < 12 {
		took += timer
		timer *= 2
		again++
	}
	if n.late() {
		took += 15 * time.Millisecond
		if n.late() {
			again++ // the sender believed it lost
		}
	}
	return took, again
}

// pass sends a request over the network. If its time ends, it failed in the phase that took longest.
func (n *network) pass(req diag.Request, _ time.Duration) passage {
	var p passage
	worst, again := time.Duration(-1), int64(0) // again: the client's own segments
	phase := func(name string, d time.Duration) {
		p.took += d
		if d > worst {
			worst, p.phase = d, name
		}
	}
	if host, _, err := net.SplitHostPort(req.Target); req.Resolve == "" && (err != nil || net.ParseIP(host) == nil) &&
		!n.noNames {
		d := 2 * time.Millisecond
		if asked, answered := !n.lost(), !n.lost(); !asked || !answered {
			d += 5 * time.Second // a resolver's time-out
		}
		phase("dns", d)
	}
	exchange := func(name string, timer time.Duration, packets int) {
		for range packets {
			d, more := n.send(timer)
			again += more
			phase(name, d)
			d, _ = n.send(timer)
			phase(name, d)
		}
	}
	exchange("tcp", time.Second, 1)
	if req.Op != diag.OpTCP {
		exchange("tls", 200*time.Millisecond, 2)
		exchange("http", 200*time.Millisecond, 1)
	}
	p.tcp = diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &again}
	p.passed = func(f *diag.Fact) {
		if f.TCP == nil {
			f.TCP = &p.tcp
		}
	}
	return p
}

// TestLossProvesNothingElse walks a healthy platform over lossy networks: every failure is due to the loss, so nothing
// else may be proven, neither as the blame nor as another finding.
func TestLossProvesNothingElse(t *testing.T) {
	walks := howOften(t, "GPUAASCTL_LOSSY_WALKS", 167, 40) // of each of six lossy networks: a thousand
	for _, tc := range []struct{ loss, reorder float64 }{{0.1, 0}, {0.3, 0}, {0.5, 0}, {0.1, 0.3}, {0.3, 0.3}, {0.5, 0.3},
		{0, 0.5}} {
		t.Run(fmt.Sprintf("loss %.0f%%, reordering %.0f%%", 100*tc.loss, 100*tc.reorder), func(t *testing.T) {
			t.Parallel()
			words := seeded(t, walks, func(t *testing.T, i int, dice *rand.Rand) *diag.Report {
				r := walkOver(t, &network{rng: dice, loss: tc.loss, reorder: tc.reorder, noNames: i%2 == 0})
				if tc.loss == 0 && r.Verdict.Outcome != diag.OutcomePass {
					t.Errorf("walk %d: %s\n%s", i, r.Verdict.Outcome, describe(r))
				}
				return r
			}, func(b diag.Blame) bool { return b.Confidence == diag.Proven && b.Signal != diag.SigNetworkUnstable })
			if tc.loss >= 0.3 && words["unstable"] < walks/10 {
				t.Errorf("only %d of %d walks say that the network is unstable", words["unstable"], walks)
			}
		})
	}
}

// walkOver walks with the operator and the node behind one network.
func walkOver(t *testing.T, n *network) *diag.Report {
	t.Helper()
	r := walkFrom(context.Background(), testEnv(), bothAlong(n.pass))
	for i := range r.Facts { // a counter-probe of a passing request is not part of a walk
		if strings.Count(r.Facts[i].ID, "~") > 2 {
			t.Errorf("fact %s", r.Facts[i].ID)
		}
	}
	return r
}
