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
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
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
				if tc.loss == 0 && r.Verdict.Outcome != diag.OutcomePass && r.Verdict.Outcome != diag.OutcomeWarn {
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

// TestLossIsNamed walks a healthy platform over networks that lose from 1 to 60 % of the packets of both sides, or of
// the node alone. Where two requests of a side show the loss, the report has it, and no component is blamed for a
// missing answer from there.
func TestLossIsNamed(t *testing.T) {
	walks := howOften(t, "GPUAASCTL_NAMED_WALKS", 30, 4)
	for _, loss := range []float64{0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6} {
		for _, side := range []string{"both", hop.Node} {
			t.Run(fmt.Sprintf("%.0f%% of %s", 100*loss, side), func(t *testing.T) {
				t.Parallel()
				named := 0
				seeded(t, walks, func(t *testing.T, i int, dice *rand.Rand) *diag.Report {
					n := &network{rng: dice, loss: loss, noNames: i%2 == 0}
					v := bothAlong(n.pass)
					if side == hop.Node {
						v[hop.Operator] = &scripted{name: hop.Operator}
					}
					r := walkFrom(context.Background(), testEnv(), v)
					for _, vantage := range []string{hop.Operator, hop.Node} {
						if lossy(r, vantage) < 2 {
							continue
						}
						named++
						if !saysUnstable(r, vantage) {
							t.Errorf("walk %d: %d requests from the %s lost packets, and nothing says so\n%s", i,
								lossy(r, vantage), vantage, describe(r))
						}
						for _, f := range unlucky(r, vantage) {
							t.Errorf("walk %d: %s is blamed: %s", i, f.Signal, f.Text)
						}
					}
					return r
				}, func(diag.Blame) bool { return false })
				if side == "both" && loss >= 0.1 && loss < 0.5 && named == 0 && walks > 20 {
					t.Error("no walk showed the loss: the test shows nothing")
				}
			})
		}
	}
}

// lossy counts the steps of a vantage whose request was answered after segments were sent again.
func lossy(r *diag.Report, vantage string) (n int) {
	for i := range r.Facts {
		f := &r.Facts[i]
		if f.Vantage == vantage && f.Passed() && !strings.Contains(f.ID, "~") && reading.Resent(f) {
			n++
		}
	}
	return n
}

// saysUnstable reports whether a finding has the unstable network of a vantage.
func saysUnstable(r *diag.Report, vantage string) bool {
	for i := range r.Hops {
		for f := range verdict.FindingsOf(&r.Hops[i]) {
			if f.Signal == diag.SigNetworkUnstable && f.Culprit == reading.LossOf(vantage) {
				return true
			}
		}
	}
	return false
}

// unlucky returns the findings that blame a component for a connection that was not made, or for segments that were
// lost.
func unlucky(r *diag.Report, vantage string) (all []diag.Finding) {
	facts := map[string]*diag.Fact{}
	for i := range r.Facts {
		facts[r.Facts[i].ID] = &r.Facts[i]
	}
	for i := range r.Hops {
		for f := range verdict.FindingsOf(&r.Hops[i]) {
			if f.Status != diag.StatusFail || f.Signal == diag.SigNetworkUnstable || len(f.Evidence) == 0 {
				continue
			}
			by := facts[f.Evidence[0]]
			if by != nil && by.Vantage == vantage && reading.GotNoAnswer(by) && !reading.FullyAcknowledged(by) {
				all = append(all, *f)
			}
		}
	}
	return all
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
