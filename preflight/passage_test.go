package preflight

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// passage is the result of one request's way to a healthy place and back.
type passage struct {
	took   time.Duration
	phase  string // the phase in which it fails if its time ends first
	tcp    diag.TCPFacts
	passed func(*diag.Fact) // adds what is known of a request that was answered
}

// along is a vantage whose requests to others pass along way; a request about its own host is answered at once.
type along struct {
	scripted
	way func(req diag.Request, limit time.Duration) passage
}

func (a *along) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, a.ask)
}

func (a *along) ask(ctx context.Context, req diag.Request) diag.Fact {
	f := a.scripted.Probe(ctx, []diag.Request{req})[0]
	if !req.Op.Row().Ladder {
		return f
	}
	limit := 5 * time.Second
	if req.TimeoutMS > 0 {
		limit = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	p := a.way(req, limit)
	select {
	case <-time.After(min(p.took, limit)):
	case <-ctx.Done():
		f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = diag.Cancelled, "", nil, nil, nil
		return f
	}
	f.DurationMS = diag.Measured(min(p.took, limit))
	if p.took <= limit {
		p.passed(&f)
		return f
	}
	word := map[string]diag.Failure{"dns": diag.DNSTimeout, "tcp": diag.TCPTimeout, "tls": diag.Timeout,
		"http": diag.HTTPTimeout, "ws": diag.HTTPTimeout}[p.phase]
	failWith(word, p.phase)(&f)
	if reading.Rung(p.phase) > reading.Rung("tcp") {
		f.TCP = &p.tcp
	}
	return f
}

// bothAlong returns the vantages of a walk whose operator and node use the same way.
func bothAlong(way func(diag.Request, time.Duration) passage) map[string]hop.Vantage {
	vantages := map[string]hop.Vantage{hop.Platform: &scripted{name: hop.Platform}}
	for _, v := range []string{hop.Operator, hop.Node} {
		vantages[v] = &along{scripted{name: v}, way}
	}
	return vantages
}

// howOften returns how often a test walks, unless the environment variable says otherwise. Under -short, as in the race
// detector's run, it walks less: the code is the same.
func howOften(t *testing.T, variable string, walks, short int) int {
	t.Helper()
	if testing.Short() {
		walks = short
	}
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return walks
}

// seeded walks that many times, each time with its own random numbers, and fails for wrong findings and for reports
// that a second judgement changes. It counts outcomes, and the networks that are proven to be unstable.
func seeded(t *testing.T, walks int, walk func(t *testing.T, i int, dice *rand.Rand) *diag.Report,
	wrong func(diag.Blame) bool) map[string]int {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	words := map[string]int{}
	for i := range walks {
		synctest.Test(t, func(t *testing.T) {
			r := walk(t, i, rand.New(rand.NewPCG(seed, uint64(i))))
			words[string(r.Verdict.Outcome)+" "+string(r.Verdict.Confidence)]++
			for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
				if wrong(b) {
					t.Errorf("seed %d, walk %d: %s %s is %s: %s\n%+v", seed, i, b.Hop, b.Signal, b.Confidence, b.Text, b.Proof)
				}
				if b.Signal == diag.SigNetworkUnstable && b.Confidence == diag.Proven {
					words["unstable"]++
				}
			}
			if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
				t.Errorf("seed %d, walk %d: %v", seed, i, err)
			}
		})
	}
	t.Log(words)
	return words
}

func blameOf(r *diag.Report) diag.Blame {
	v := r.Verdict
	if v.Blame == nil {
		return diag.Blame{}
	}
	return diag.Blame{Hop: v.Blame.Hop, Signal: v.Blame.Signal, Text: v.Blame.Text, Confidence: v.Confidence,
		Proof: v.Proof, Unproven: v.Unproven}
}
