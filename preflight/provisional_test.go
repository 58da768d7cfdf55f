package preflight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// foretold returns a walk's report and its provisional blames.
func foretold(ctx context.Context, t *testing.T, vantages map[string]hop.Vantage) (*diag.Report, []walk.Provisional) {
	t.Helper()
	e := testEnv()
	plan := testPlan(e)
	var shown []walk.Provisional
	facts, ended := walk.Walk(ctx, e, plan, vantages, func(ev walk.Event) {
		if ev.Kind == walk.LikelySoFar {
			shown = append(shown, *ev.Provisional)
		}
	})
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{ID: "run-1", CorrelationID: e.CorrelationID, EndedBy: ended},
	}
	verdict.Judge(hops.BuiltIn(), r)
	for _, p := range shown {
		if b := p.Blame; b != nil && (b.Confidence != "" || b.Proof != nil || b.Observation != nil || b.Unproven != "") {
			t.Errorf("at %s: a blame with proof: %+v", p.At, b)
		}
	}
	return r, shown
}

// corrected returns a provisional blame that differs from the report's, "" if all were confirmed.
func corrected(r *diag.Report, shown []walk.Provisional) string {
	final := blameOf(r)
	for _, p := range shown {
		if b := p.Blame; b != nil && (b.Hop != final.Hop || b.Signal != final.Signal) {
			return fmt.Sprintf("at %s %s %s (%s), in the end %s %s", p.At, b.Hop, b.Signal, b.Text, final.Hop, final.Signal)
		}
	}
	return ""
}

// path is a vantage with a round-trip time: each request takes the round trips of its phases, and a dropped one is
// silent for its whole time-out.
type path struct {
	scripted
	rtt     time.Duration
	dropped func(req diag.Request) (phase string) // "" for a request that gets through
	lost    string                                // the request whose first SYN is lost, at its first try
	mu      sync.Mutex                            // guards asked
	asked   map[string]time.Duration              // since the walk's start
	began   time.Time
}

func (p *path) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, p.ask)
}

func (p *path) ask(ctx context.Context, req diag.Request) diag.Fact {
	p.mu.Lock()
	if p.asked == nil {
		p.asked = map[string]time.Duration{}
	}
	p.asked[req.ID] = time.Since(p.began)
	p.mu.Unlock()
	f := p.scripted.Probe(ctx, []diag.Request{req})[0]
	limit := time.Duration(req.TimeoutMS) * time.Millisecond
	took, phase := p.rtt, ""
	switch {
	case req.Op.Row().Ladder:
		took *= 5 // name, TCP, TLS 1.2, HTTP
	case req.Op == diag.OpSSH:
		took *= 11
	}
	if req.ID == p.lost {
		took += time.Second
	}
	if p.dropped != nil {
		phase = p.dropped(req)
	}
	if phase != "" || took > limit {
		took = limit
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = diag.Cancelled, "", nil, nil, nil
		return f
	}
	none := int64(0)
	switch {
	case phase == "dns":
		failWith(diag.DNSTimeout, "dns")(&f)
	case phase != "":
		failWith(diag.TCPTimeout, "tcp")(&f)
	case took == limit:
		failWith(diag.HTTPTimeout, "http")(&f)
		f.TCP = nil
	case req.Op.Row().Ladder:
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &none, DurationMS: diag.Measured(p.rtt)}
	}
	f.DurationMS = diag.Measured(took)
	return f
}

// paths returns the vantages of a walk whose operator and node have the same round trip.
func paths(rtt time.Duration, dropped func(vantage string, req diag.Request) string,
	lost string) map[string]hop.Vantage {
	v := map[string]hop.Vantage{hop.Platform: &scripted{name: hop.Platform}}
	for _, name := range []string{hop.Operator, hop.Node} {
		p := &path{scripted: scripted{name: name}, rtt: rtt, lost: lost, began: time.Now()}
		if dropped != nil {
			p.dropped = func(req diag.Request) string { return dropped(name, req) }
		}
		v[name] = p
	}
	return v
}

// toPort reports whether a request goes to an endpoint of the profile.
func toPort(req diag.Request, place string) bool {
	return strings.Contains(strings.NewReplacer("${GPUAAS_API_URL}", "https://node-api.test", "${GPUAAS_TERMINAL_API_URL}",
		"https://term.test:18443", "192.0.2.11:443", "https://node-api.test", "192.0.2.10:18443", "https://term.test:18443").
		Replace(req.Target), place)
}

// TestSilenceIsBlamedInTwoSeconds drops requests to one endpoint. The final blame must come within two seconds, plus
// the round trips of a login, from the walk's start, and not before the first retransmission could have been answered.
func TestSilenceIsBlamedInTwoSeconds(t *testing.T) {
	for name, tc := range map[string]struct {
		blame   diag.HopID
		dropped func(vantage string, req diag.Request) string
	}{
		"node to its API": {diag.HopNodeRuntimeAPI, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Node && toPort(req, "https://node-api.test"))
		}},
		"node to the terminal listener": {diag.HopNodeTerminalReachability, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Node && toPort(req, "https://term.test:18443"))
		}},
		"node to its name server": {diag.HopNodeRuntimeAPI, func(v string, req diag.Request) string {
			return phaseIf("dns", v == hop.Node && req.Op.Row().Ladder && req.Op != diag.OpTCP && req.Resolve == "")
		}},
		"operator to the node": {diag.HopNodeOpsAccess, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Node)
		}},
		"operator to the API": {diag.HopControlPlaneAccess, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Operator && toPort(req, "https://api.test"))
		}},
		"operator to everything": {diag.HopControlPlaneAccess, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Operator && req.Op.Row().Ladder)
		}},
		"operator to the terminal": {diag.HopTerminalPublicRoute, func(v string, req diag.Request) string {
			return phaseIf("tcp", v == hop.Operator && toPort(req, "https://term.test"))
		}},
	} {
		for _, rtt := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, RTT %s", name, rtt), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, shown := foretold(t.Context(), t, paths(rtt, tc.dropped, ""))
					if final := blameOf(r); final.Hop != tc.blame {
						t.Fatalf("in the end %s %s\n%s", final.Hop, final.Signal, describe(r))
					}
					if len(shown) == 0 {
						t.Fatalf("nothing was said\n%s", describe(r))
					}
					if at := shown[0].At; at > 2*time.Second+11*rtt || at < time.Second+2*rtt {
						t.Errorf("first said at %s", at)
					}
					if wrong := corrected(r, shown); wrong != "" {
						t.Error(wrong)
					}
					if w := shown[0].Waiting; !slices.Contains(w, tc.blame) {
						t.Errorf("waits for %v", w)
					}
				})
			})
		}
	}
}

func phaseIf(phase string, is bool) string {
	if is {
		return phase
	}
	return ""
}

// TestASlowPathIsNotBlamed loses the first SYN of each request in turn, on healthy paths with long round trips.
func TestASlowPathIsNotBlamed(t *testing.T) {
	questions := []string{""}
	for _, h := range hops.BuiltIn().List() {
		for _, s := range h.Steps {
			if s.Uses == "" && !s.Pure() && s.From != hop.Platform {
				questions = append(questions, hop.FactID(h.ID, s.Name))
			}
		}
	}
	for _, ms := range []time.Duration{1, 50, 100, 150, 200, 300} {
		rtt := ms * time.Millisecond
		for _, lost := range questions {
			synctest.Test(t, func(t *testing.T) {
				r, shown := foretold(t.Context(), t, paths(rtt, nil, lost))
				if len(shown) > 0 {
					t.Errorf("RTT %s, the first SYN of %q lost: at %s %+v", rtt, lost, shown[0].At, shown[0].Blame)
				}
				if r.Verdict.Outcome != diag.OutcomePass {
					t.Errorf("RTT %s, %q: %s\n%s", rtt, lost, r.Verdict.Outcome, describe(r))
				}
			})
		}
	}
}

// TestLossIsSeldomBlamed: on a lossy path, a walk seldom has a provisional blame that its report does not confirm.
func TestLossIsSeldomBlamed(t *testing.T) {
	walks := 60
	if testing.Short() { // the race detector's run: the code is the same, and too few for a share
		walks = 10
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all, wrong := 0, 0
	for _, loss := range []float64{0.1, 0.3, 0.5} {
		for _, reorder := range []float64{0, 0.3} {
			for i := range walks {
				synctest.Test(t, func(t *testing.T) {
					n := &network{rng: rand.New(rand.NewPCG(seed, uint64(i))), loss: loss, reorder: reorder, noNames: i%2 == 0}
					r, shown := foretold(t.Context(), t, bothAlong(n.pass))
					if text := corrected(r, shown); text != "" {
						wrong++
						t.Logf("loss %.0f%%, walk %d: %s", 100*loss, i, text)
					}
					all++
				})
			}
		}
	}
	t.Logf("%d of %d", wrong, all)
	if 20*wrong >= all && !testing.Short() {
		t.Errorf("%d of %d walks said what they did not mean", wrong, all)
	}
}

// TestAWalkIsTheSameWithAnObserver: provisional blames neither add nor change facts.
func TestAWalkIsTheSameWithAnObserver(t *testing.T) {
	ids := func(facts []diag.Fact) []string {
		var all []string
		for _, f := range facts {
			if f.Failure != diag.Cancelled { // whether the walk's end keeps such a fact is chance
				all = append(all, f.ID+" "+string(f.Failure)+" "+f.Phase)
			}
		}
		slices.Sort(all)
		return all
	}
	for _, end := range []time.Duration{time.Minute, 1900 * time.Millisecond} {
		var facts [2][]diag.Fact
		var took [2]time.Duration
		for i, observe := range []func(walk.Event){nil, func(walk.Event) {}} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stop := time.AfterFunc(end, cancel)
				defer stop.Stop()
				e, began := testEnv(), time.Now()
				facts[i], _ = walk.Walk(ctx, e, testPlan(e), paths(time.Millisecond, func(v string, req diag.Request) string {
					return phaseIf("tcp", v == hop.Node && toPort(req, "https://node-api.test"))
				}, ""), observe)
				took[i] = time.Since(began)
			})
		}
		if !slices.Equal(ids(facts[0]), ids(facts[1])) || took[0] != took[1] {
			t.Errorf("ended after %s: %s, %v\nand with an observer %s, %v", end, took[0], ids(facts[0]), took[1], ids(facts[1]))
		}
	}
}
