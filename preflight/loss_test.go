package preflight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// network is a way that loses and reorders packets, and is well otherwise: all that fails over it is its loss.
type network struct {
	mu      sync.Mutex // guards rng
	rng     *rand.Rand
	loss    float64 // of one packet, either way
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

// send is one segment of a connection: how long until it is there, and how often it was sent again, by the sender's
// timer that doubles.
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
			again++ // the sender took it for lost
		}
	}
	return took, again
}

// lossy is a vantage whose questions to others travel over a network; the node's own host answers by a login that is
// well.
type lossy struct {
	scripted
	net *network
}

func (l *lossy) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, l.ask)
}

func (l *lossy) ask(ctx context.Context, req diag.Request) diag.Fact {
	f := l.scripted.Probe(ctx, []diag.Request{req})[0]
	if !req.Op.Row().Ladder {
		return f
	}
	limit := 5 * time.Second
	if req.TimeoutMS > 0 {
		limit = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	took, phase, again := l.climb(req)
	select {
	case <-time.After(min(took, limit)):
	case <-ctx.Done():
		f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = diag.Cancelled, "", nil, nil, nil
		return f
	}
	remote := &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &again}
	f.DurationMS = diag.Measured(min(took, limit))
	switch {
	case took <= limit && f.TCP == nil:
		f.TCP = remote
	case took > limit && phase == "dns":
		failWith(diag.DNSTimeout, "dns")(&f)
	case took > limit && phase == "tcp":
		failWith(diag.TCPTimeout, "tcp")(&f)
	case took > limit && phase == "tls":
		failWith(diag.Timeout, "tls")(&f)
		f.TCP = remote
	case took > limit:
		failWith(diag.HTTPTimeout, "http")(&f)
		f.TCP = remote
	}
	return f
}

// climb is how long a question takes, in which phase it took longest, and how many of the client's own segments were
// sent again.
func (l *lossy) climb(req diag.Request) (took time.Duration, longest string, again int64) {
	worst := time.Duration(-1)
	phase := func(name string, d time.Duration) {
		took += d
		if d > worst {
			worst, longest = d, name
		}
	}
	if host, _, err := net.SplitHostPort(req.Target); req.Resolve == "" && (err != nil || net.ParseIP(host) == nil) &&
		!l.net.noNames {
		d := 2 * time.Millisecond
		if asked, answered := !l.net.lost(), !l.net.lost(); !asked || !answered {
			d += 5 * time.Second // a resolver's patience
		}
		phase("dns", d)
	}
	exchange := func(name string, timer time.Duration, packets int) {
		for range packets {
			d, n := l.net.send(timer)
			again += n
			phase(name, d)
			d, _ = l.net.send(timer)
			phase(name, d)
		}
	}
	exchange("tcp", time.Second, 1)
	if req.Op != diag.OpTCP {
		exchange("tls", 200*time.Millisecond, 2)
		exchange("http", 200*time.Millisecond, 1)
	}
	return took, longest, again
}

// TestLossProvesNothingElse walks a healthy platform over networks that lose packets: whatever fails is the loss, so
// nothing else may be proven, neither as the blame nor beside it.
func TestLossProvesNothingElse(t *testing.T) {
	walks := 167         // of each of six lossy networks: a thousand
	if testing.Short() { // the race detector's run: the code is the same
		walks = 40
	}
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_LOSSY_WALKS")); err == nil {
		walks = n
	}
	for _, tc := range []struct{ loss, reorder float64 }{{0.1, 0}, {0.3, 0}, {0.5, 0}, {0.1, 0.3}, {0.3, 0.3}, {0.5, 0.3},
		{0, 0.5}} {
		t.Run(fmt.Sprintf("loss %.0f%%, reordering %.0f%%", 100*tc.loss, 100*tc.reorder), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			words := map[string]int{}
			for i := range walks {
				synctest.Test(t, func(t *testing.T) {
					r := walkOver(t, &network{rng: rand.New(rand.NewPCG(seed, uint64(i))), loss: tc.loss, reorder: tc.reorder,
						noNames: i%2 == 0})
					words[string(r.Verdict.Outcome)+" "+string(r.Verdict.Confidence)]++
					for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
						if b.Confidence == diag.Proven && b.Signal != diag.SigNetworkUnstable {
							t.Errorf("seed %d, walk %d: %s %s is proven: %s\n%s", seed, i, b.Hop, b.Signal, b.Proof.Text, b.Text)
						}
						if b.Signal == diag.SigNetworkUnstable && b.Confidence == diag.Proven {
							words["unstable"]++
						}
					}
					if _, err := Replay(r); err != nil {
						t.Errorf("seed %d, walk %d: %v", seed, i, err)
					}
					if tc.loss == 0 && r.Verdict.Outcome != diag.OutcomePass {
						t.Errorf("seed %d, walk %d: %s\n%s", seed, i, r.Verdict.Outcome, describe(r))
					}
				})
			}
			t.Log(words)
			if tc.loss >= 0.3 && words["unstable"] < walks/10 {
				t.Errorf("only %d of %d walks say that the network is unstable", words["unstable"], walks)
			}
		})
	}
}

func blameOf(r *diag.Report) diag.Blame {
	v := r.Verdict
	if v.Blame == nil {
		return diag.Blame{}
	}
	return diag.Blame{Hop: v.Blame.Hop, Signal: v.Blame.Signal, Text: v.Blame.Text, Confidence: v.Confidence,
		Proof: v.Proof, Unproven: v.Unproven}
}

// walkOver walks with the operator and the node behind one network.
func walkOver(t *testing.T, n *network) *diag.Report {
	t.Helper()
	e := testEnv()
	vantages := map[string]Vantage{Platform: &scripted{name: Platform}}
	for _, v := range []string{Operator, Node} {
		vantages[v] = &lossy{scripted{name: v}, n}
	}
	r := walkFrom(context.Background(), e, vantages)
	for i := range r.Facts { // a counter-probe of a passing request is not part of a walk
		if strings.Count(r.Facts[i].ID, "~") > 2 {
			t.Errorf("fact %s", r.Facts[i].ID)
		}
	}
	return r
}
